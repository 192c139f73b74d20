// The apps' views: a modal in front of the page, and home tabs in conversations with apps.

import { closeView, kitOfView, submitView } from "../acts.js";
import * as api from "../api.js";
import { drawBlocks } from "../blocks/block.js";
import { byId, element } from "../dom.js";
import { drawTabs } from "./head.js";
import { Modal } from "./modal.js";
import { attempt } from "./notice.js";

const MESSAGES = ["log", "prompts", "working", "composer", "keys"];

export class Views {
  constructor(desk) {
    this.desk = desk;
    this.tab = "messages"; // or "home", in a conversation with an app
    this.homes = {}; // published home tabs, by bot user
    this.modal = new Modal({
      kitOf: (view, errors) => kitOfView(desk, view, errors),
      submit: (view) => submitView(desk, view),
      close: (view) => closeView(desk, view),
    });
  }

  take({ modal, homes }) {
    this.homes = homes;
    this.modal.show(modal);
    if (this.desk.channel) this.draw();
  }

  // The app of the conversation, if there is one.
  get app() {
    const { roster, current, channel } = this.desk;
    return channel.kind === "im" ? roster.appIn(current) : null;
  }

  // Shows the messages or the home tab, and notifies the app of an opened home tab.
  async show(tab) {
    this.tab = tab;
    this.draw();
    if (tab === "home") await attempt(api.openHome(this.desk.me.name, this.app.name));
  }

  // Notifies the app that its Messages tab was opened. `from` is the conversation that was open before.
  async enter(from) {
    const channel = this.desk.roster.conversation(from)?.name;
    if (this.app) await attempt(api.openMessages(this.desk.me.name, this.app.name, channel));
  }

  // Opens a new assistant pane, which is a thread.
  async openPane() {
    const { desk } = this;
    const opening = api.openPane(desk.me.name, this.app.name);
    await attempt(opening.then(({ thread_ts }) => desk.openThread(thread_ts)));
  }

  draw() {
    const { app } = this;
    const isHome = Boolean(app) && this.tab === "home";
    const hasPane = app && this.desk.roster.apps.find((one) => one.user === app.id)?.has_pane;
    const begin = hasPane ? () => this.openPane() : null;
    drawTabs(app && { tab: this.tab, choose: (tab) => this.show(tab), begin });
    byId("home").hidden = !isHome;
    for (const id of MESSAGES) byId(id).hidden = isHome;
    if (isHome) this.drawHome(app);
  }

  drawHome(app) {
    const home = this.homes[app.id];
    const version = home ? `${home.id} ${home.hash}` : app.id;
    if (byId("home").version === version) return;
    byId("home").version = version;
    const nothing = () => [element("p", { class: "quiet" }, `${app.name} shows nothing here yet.`)];
    byId("home").replaceChildren(...(home ? drawBlocks(home.blocks, kitOfView(this.desk, home)) : nothing()));
  }
}
