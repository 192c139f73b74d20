// Ctrl+K or ⌘K: opens a conversation or a person by the first letters of the name.

import { element } from "../dom.js";
import { OptionList } from "../compose/options.js";
import { dialog } from "./dialogs.js";
import { sign } from "./sidebar.js";

const MOST = 9;

export function openSwitcher({ roster, unread, choose, startWith }) {
  const typed = element("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "places",
    "aria-label": "Go to",
    placeholder: "Go to a channel or a person…",
    autocomplete: "off",
  });
  const list = element("ul", { id: "places", role: "listbox", "aria-label": "Conversations" });
  const box = dialog(
    "",
    [
      typed,
      list,
      element(
        "p",
        { class: "quiet" },
        element("kbd", {}, "↑"),
        " ",
        element("kbd", {}, "↓"),
        " choose · ",
        element("kbd", {}, "Enter"),
        " goes there",
      ),
    ],
    { className: "switcher" },
  );
  const options = new OptionList(list, typed, (place) => {
    box.close();
    place.go();
  });
  const offer = () =>
    options.show(places(typed.value.trim().toLowerCase(), { roster, unread, choose, startWith }).slice(0, MOST));
  box.addEventListener("close", () => box.remove());
  typed.addEventListener("input", offer);
  typed.addEventListener("keydown", (event) => options.steer(event));
  offer();
  typed.focus();
}

// Unread conversations come first, followed by people without a conversation.
function places(part, { roster, unread, choose, startWith }) {
  const channels = roster.channels().map((channel) => ({
    key: channel.id,
    text: roster.title(channel),
    rank: unread.badge(channel.id),
    draw: () => [sign(channel, roster), element("strong", {}, roster.title(channel))],
    go: () => choose(channel.id),
  }));
  const known = new Set(
    roster
      .channels()
      .filter((channel) => !channel.name)
      .flatMap((channel) => channel.members),
  );
  const people = roster.people().filter((one) => !known.has(one.id) && one.id !== roster.me && one.id !== "USLACKBOT");
  const strangers = people.map((one) => ({
    key: one.id,
    text: `${one.display_name} ${one.name}`,
    rank: -1,
    draw: () => [
      element("span", { class: "sign" }, "@"),
      element("strong", {}, one.display_name || one.name),
      element("small", {}, "start a conversation"),
    ],
    go: () => startWith(one),
  }));
  return [...channels, ...strangers]
    .filter((place) => place.text.toLowerCase().includes(part))
    .sort((one, next) => next.rank - one.rank);
}
