// The state of this window: its person, the open conversation and thread, and their display.

import * as api from "./api.js";
import { byId, visible } from "./dom.js";
import { Composer } from "./compose/composer.js";
import { drawHead, drawTitle } from "./frame/head.js";
import { attempt, tell } from "./frame/notice.js";
import { drawPerson, drawSidebar } from "./frame/sidebar.js";
import { Views } from "./frame/views.js";
import { welcome } from "./frame/welcome.js";
import { Working } from "./frame/working.js";
import { Timeline } from "./message/timeline.js";
import { Roster } from "./roster.js";
import { Unread } from "./unread.js";

export class Desk {
  // `acts(desk)` returns the actions on messages; see acts.js.
  constructor(wanted, acts) {
    this.wanted = wanted;
    this.roster = new Roster();
    this.unread = new Unread(this.roster);
    this.working = new Working();
    this.current = null; // the id of the open conversation
    this.thread = null; // the root of the open thread
    this.loading = Promise.resolve(); // settled when the open conversation has been loaded
    this.seen = null; // number of the last known change of the workspace
    this.acts = acts(this);
    this.views = new Views(this);
    this.makePanes();
  }

  makePanes() {
    const titleOf = (message) => this.working.title(message.channel, message.ts);
    const context = () => ({ names: this.roster, act: this.acts, unread: this.unread, titleOf });
    const earlier = (ts) => api.messages(this.me.name, this.current, { before: ts });
    this.timeline = new Timeline(byId("log"), { context, earlier, empty: () => this.welcome() });
    this.replies = new Timeline(byId("thread-log"), { context, empty: () => null, inThread: true });
    this.box = this.composer("", byId("conversation"), (said) => this.acts.say(said), this.timeline);
    this.replyBox = this.composer("thread-", byId("thread"), (said) => this.acts.reply(said), this.replies);
  }

  composer(prefix, pane, send, timeline) {
    const part = (name) => byId(prefix + name);
    const parts = {
      form: part("composer"),
      box: part("text"),
      list: part("choices"),
      files: part("files"),
      attach: part("attach"),
      pick: part("pick"),
      pane,
    };
    const known = () => ({ roster: this.roster, channel: this.current });
    return new Composer(parts, { known, send, fail: tell, editLast: () => this.acts.editLast(timeline) });
  }

  get me() {
    return this.roster.self;
  }
  get channel() {
    return this.roster.conversation(this.current);
  }
  paneOf(message) {
    return this.thread && this.replies.article(message.ts) ? this.replies : this.timeline;
  }

  // Loads people, channels, unread counts and the apps' current work.
  async look() {
    const state = await api.state(this.wanted);
    this.roster.take(state);
    this.unread.take(state);
    this.working.take(state);
    this.seen = state.seen;
    this.views.take(state);
    drawPerson(this.roster);
    byId("command-key").hidden = !this.roster.apps.some((app) => app.commands?.length);
    if (this.channel) this.drawFrame();
  }

  // Reloads everything: at the start, after a lost connection, after a reset of the workspace.
  async load() {
    await this.look();
    const [channel, ts, root] = location.hash.slice(1).split("/");
    const known = this.roster.conversation(channel)
      ? channel
      : (this.roster.channels().find((one) => one.name) ?? this.roster.channels()[0]).id;
    await this.open(known);
    if (root || this.thread) await this.openThread(root || this.thread, { focus: false });
    if (ts) (root ? this.replies : this.timeline).reveal(ts);
  }

  open(id) {
    return this.during(this.openNow(id));
  }
  openThread(root, more) {
    return this.during(this.openThreadNow(root, more));
  }

  // Updates that arrive during loading wait until it is complete.
  during(doing) {
    this.loading = Promise.allSettled([this.loading, doing]);
    return doing;
  }

  async openNow(id) {
    if (id !== this.current) this.closeThread();
    if (id !== this.current) this.views.tab = "messages";
    const isSame = id === this.current;
    const from = this.current;
    this.current = id;
    this.box.enter(id);
    if (location.hash.slice(1).split("/")[0] !== id) history.replaceState(null, "", `#${id}`);
    drawHead(this.channel, this.roster, { startWith: (one) => this.startWith(one) });
    const readMark = this.unread.of(id).count ? this.unread.of(id).read || "0" : null;
    const { messages, has_earlier } = await api.messages(this.me.name, id);
    if (id !== this.current) return; // another conversation was opened in the meantime
    this.views.draw();
    if (isSame) this.timeline.update(messages, { hasEarlier: has_earlier });
    else this.timeline.show(messages, { readMark, hasEarlier: has_earlier });
    this.markRead();
    this.drawFrame();
    if (!isSame) this.views.enter(from);
  }

  async startWith(person) {
    const known = this.roster
      .channels()
      .find(
        (one) =>
          one.kind === "im" &&
          one.members.includes(person.id) &&
          (person.id !== this.me.id || one.members.length === 1),
      );
    if (known) return this.open(known.id);
    return attempt(
      api.openDirect(this.me.name, person.id).then(async ({ channel }) => {
        location.hash = channel;
        await this.load();
      }),
    );
  }

  async openThreadNow(root, { focus = true } = {}) {
    const isSame = root === this.thread;
    this.thread = root;
    byId("frame").classList.add("with-thread");
    byId("thread").hidden = false;
    this.replyBox.enter(`${this.current} ${root}`);
    const { messages } = await api.messages(this.me.name, this.current, { thread_ts: root });
    if (this.thread !== root) return;
    if (!messages.length) {
      this.closeThread();
      return;
    }
    if (isSame) this.replies.update(messages);
    else this.replies.show(messages);
    if (!isSame) byId("broadcast").checked = false;
    this.markThreadRead();
    this.drawFrame();
    if (focus) byId("thread-text").focus();
  }

  closeThread() {
    if (!this.thread) return;
    const root = this.thread;
    this.thread = null;
    const hadFocus = byId("thread").contains(document.activeElement);
    byId("thread").hidden = true;
    byId("frame").classList.remove("with-thread");
    this.replies.show([]);
    if (hadFocus) this.timeline.article(root)?.querySelector(".replies")?.focus();
    this.drawWorking();
  }

  // Marks visible messages as read.
  markRead() {
    if (document.visibilityState !== "visible") return;
    this.unread.read(this.current, this.timeline.latest());
  }

  markThreadRead() {
    if (!this.thread || document.visibilityState !== "visible") return;
    this.unread.read(this.current, this.replies.latest(), this.thread);
    this.timeline.refresh(this.thread);
  }

  drawFrame() {
    drawSidebar({
      roster: this.roster,
      current: this.current,
      unread: this.unread,
      choose: (id) => this.open(id).then(() => byId("text").focus({ preventScroll: true })),
    });
    const total = this.unread.total();
    drawTitle(this.channel, this.roster, total);
    byId("menu-count").hidden = !total;
    byId("menu-count").textContent = String(total);
    byId("thread-place").textContent = byId("title").textContent;
    this.drawWorking();
  }

  drawWorking() {
    const { current, thread, working } = this;
    working.draw(byId("working"), current, null, { except: thread, stop: this.acts.stopThread });
    working.draw(byId("thread-working"), current, thread ?? "none", { stop: this.acts.stopThread });
    const tell = (text) => this.acts.say({ text, files: [], place: current });
    byId("prompts").replaceChildren(...working.prompts(current, "", tell));
    byId("thread-title").textContent = visible((thread && working.title(current, thread)) || "Thread");
    const isNew = thread && this.replies.messages.size <= 2;
    const say = (text) => this.acts.reply({ text, files: [], place: `${current} ${thread}` });
    byId("thread-prompts").replaceChildren(...(isNew ? working.prompts(current, thread, say) : []));
  }

  welcome() {
    const { channel, roster } = this;
    return (
      channel &&
      welcome({
        channel,
        app: roster.appIn(channel.id),
        title: roster.title(channel),
        fill: (text) => this.box.fill(text),
      })
    );
  }
}
