// The bar above a conversation: its name, topic and members.

import { byId, element, visible } from "../dom.js";
import { avatar } from "../message/avatar.js";
import { menu } from "./menu.js";

const FACES = 3;

export function drawHead(channel, roster, { startWith }) {
  const title = roster.title(channel);
  const app = roster.appIn(channel.id);
  byId("title").textContent = visible(channel.name ? `# ${title}` : title);
  byId("topic").textContent = visible(channel.topic || (channel.name ? "" : "Direct messages"));
  drawMembers(channel, roster, startWith);
  const example = app ? ` · try “${channel.name ? `@${app.name} ` : ""}hello”` : "";
  byId("text").placeholder = `Message ${channel.name ? "#" : ""}${title}${example}`;
  byId("text").setAttribute("aria-label", `Message ${title}`);
}

function drawMembers(channel, roster, startWith) {
  const members = roster.members(channel.id);
  const opener = byId("members");
  opener.hidden = !channel.name;
  opener.setAttribute("aria-label", `${members.length} members`);
  opener.replaceChildren(
    element(
      "span",
      { class: "faces" },
      members.slice(0, FACES).map((one) => avatar(one, "small")),
    ),
    String(members.length),
  );
  opener.onclick = () =>
    menu(
      opener,
      members.map((one) => entry(one, roster, startWith)),
      { label: "Members" },
    );
}

function entry(one, roster, startWith) {
  const you = one.id === roster.me ? "you" : "";
  return { text: one.display_name || one.name, about: one.is_bot ? "app" : you, act: () => startWith(one) };
}

export function drawTitle(channel, roster, waiting) {
  document.title = `${waiting ? `(${waiting}) ` : ""}${channel.name ? "#" : ""}${roster.title(channel)} · Twin`;
}

// The tabs of a conversation with an app: messages and home, and a button that opens a pane. `shown` is
// {tab, choose, begin}, or null for no tabs.
export function drawTabs(shown) {
  byId("tabs").hidden = !shown;
  if (!shown) return;
  const one = (tab, text) =>
    element(
      "button",
      { type: "button", role: "tab", "aria-selected": String(shown.tab === tab), onclick: () => shown.choose(tab) },
      text,
    );
  const begin = shown.begin && element("button", { type: "button", onclick: shown.begin }, "+ New chat");
  byId("tabs").replaceChildren(...[one("messages", "Messages"), one("home", "Home"), begin].filter(Boolean));
}
