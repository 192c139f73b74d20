// The list of conversations with unread counts, and the person of this window.

import { byId, element } from "../dom.js";
import { avatar } from "../message/avatar.js";
import { menu } from "./menu.js";
import { THEMES, setTheme, theme } from "./theme.js";

export function drawSidebar({ roster, current, unread, choose }) {
  const entry = (channel) => {
    const isOpen = channel.id === current;
    const badge = isOpen ? 0 : unread.badge(channel.id);
    const isUnread = !isOpen && (badge > 0 || unread.of(channel.id).count > 0);
    return element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: isUnread ? "entry unread" : "entry",
          "aria-current": isOpen ? "page" : null,
          "data-channel": channel.id,
          onclick: () => choose(channel.id),
        },
        sign(channel, roster),
        element("span", { class: "entry-name" }, roster.title(channel)),
        badge > 0 && element("span", { class: "count", "aria-label": `${badge} unread` }, String(badge)),
      ),
    );
  };
  const focused = document.activeElement?.dataset.channel;
  const channels = roster.channels();
  byId("channels").replaceChildren(...channels.filter((channel) => channel.name).map(entry));
  byId("directs").replaceChildren(...channels.filter((channel) => !channel.name).map(entry));
  if (focused)
    byId("sidebar")
      .querySelector(`[data-channel="${CSS.escape(focused)}"]`)
      ?.focus();
}

export function sign(channel, roster) {
  if (channel.name)
    return element("span", { class: "sign", "aria-hidden": "true" }, channel.kind === "group" ? "🔒" : "#");
  return avatar(roster.person(channel.members.find((member) => member !== roster.me) ?? roster.me), "small");
}

// The person, and a menu with windows for other people and the themes.
export function drawPerson(roster) {
  byId("person").replaceChildren(
    avatar(roster.self, "small"),
    element("span", { class: "entry-name" }, element("strong", {}, roster.self.display_name)),
    element("span", { class: "quiet", "aria-hidden": "true" }, "⋯"),
  );
  byId("person").setAttribute("aria-label", `${roster.self.display_name}: switch person or theme`);
  byId("person").onclick = () =>
    menu(
      byId("person"),
      [
        element("p", { class: "menu-head" }, "View as"),
        ...roster
          .people()
          .filter((one) => !one.is_bot && one.id !== "USLACKBOT")
          .map((one) => other(one, roster)),
        element("p", { class: "menu-head" }, "Colours"),
        ...THEMES.map(([name, text]) => ({ text, checked: theme() === name, act: () => setTheme(name) })),
      ],
      { label: "You" },
    );
}

function other(person, roster) {
  const href = `/?as=${encodeURIComponent(person.name)}`;
  return element(
    "span",
    { class: "menu-person" },
    element(
      "a",
      { href: href + location.hash, role: "menuitem", "aria-current": person.id === roster.me ? "true" : null },
      avatar(person, "small"),
      person.display_name || person.name,
    ),
    element(
      "a",
      {
        href,
        target: "_blank",
        role: "menuitem",
        class: "icon",
        "aria-label": `Open a window as ${person.display_name}`,
        title: "Opens in a new window",
      },
      "↗",
    ),
  );
}
