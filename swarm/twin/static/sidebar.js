// The list of conversations, with what is unread in each.

import { byId, element } from "./dom.js";
import { avatar } from "./message.js";

const READ = "twin-read";

// What a person has read, per conversation; kept by the browser.
export class ReadMarks {
  constructor(me) {
    this.key = `${READ}-${me}`;
    this.marks = JSON.parse(localStorage.getItem(this.key) ?? "{}");
    this.counts = new Map();
  }

  read(channel, ts) {
    this.counts.delete(channel);
    if (ts && ts > (this.marks[channel] ?? "")) {
      this.marks[channel] = ts;
      localStorage.setItem(this.key, JSON.stringify(this.marks));
    }
  }

  add(channel, isLoud) {
    if (isLoud) this.counts.set(channel, (this.counts.get(channel) ?? 0) + 1);
  }

  isUnread(channel) {
    return Boolean(channel.latest && channel.latest > (this.marks[channel.id] ?? ""));
  }
}

export function nameOf(channel, names) {
  return channel.name || channel.members.filter((member) => member !== names.me).map((member) => names.user(member)).join(", ") || names.user(names.me);
}

export function drawSidebar({ channels, current, marks, names, choose }) {
  const entry = (channel) => {
    const other = names.person(channel.members.find((member) => member !== names.me) ?? names.me);
    const count = marks.counts.get(channel.id);
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: channel.id !== current && marks.isUnread(channel) ? "entry unread" : "entry", "aria-current": channel.id === current ? "page" : undefined, "data-channel": channel.id, onclick: () => choose(channel.id) },
        channel.name ? element("span", { class: "sign" }, channel.kind === "group" ? "🔒" : "#") : avatar(other, "small"),
        element("span", { class: "entry-name" }, nameOf(channel, names)),
        count && channel.id !== current ? element("span", { class: "count" }, String(count)) : null,
      ),
    );
  };
  byId("channels").replaceChildren(...channels.filter((channel) => channel.name).map(entry));
  byId("directs").replaceChildren(...channels.filter((channel) => !channel.name).map(entry));
}

export function drawPeople(people, me) {
  byId("person").replaceChildren(...people.map((one) => element("option", { value: one.name, selected: one.id === me }, one.display_name)));
}
