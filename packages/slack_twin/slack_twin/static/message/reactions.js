// Reactions below a message, and the emoji picker.

import { element } from "../dom.js";
import { menu } from "../frame/menu.js";
import { emojiNamed, emojiOrName } from "../text/emoji.js";

export function drawReactions(message, names, act) {
  if (!message.reactions.length) return null;
  const mine = names.self?.name;
  const one = ({ name, users }) =>
    element(
      "button",
      {
        type: "button",
        class: users.includes(mine) ? "reaction mine" : "reaction",
        "data-name": name,
        title: `${users.join(", ")} reacted with :${name}:`,
        "aria-label": `${name}, ${users.length}`,
        "aria-pressed": String(users.includes(mine)),
        onclick: () => act.react(message, name, users.includes(mine)),
      },
      element("span", {}, emojiOrName(name)),
      element("span", { class: "tally" }, String(users.length)),
    );
  return element("div", { class: "reactions" }, message.reactions.map(one));
}

// All known emoji, filtered by a part of their name.
export function pickEmoji(opener, take) {
  const grid = element("div", { class: "emoji-grid" });
  const typed = element("input", { type: "search", placeholder: "Find an emoji…", "aria-label": "Find an emoji" });
  const box = menu(opener, [typed, grid], { label: "Emoji", className: "emoji-menu" });
  const offer = () =>
    grid.replaceChildren(
      ...emojiNamed(typed.value.trim().toLowerCase()).map((name) =>
        element(
          "button",
          {
            type: "button",
            title: `:${name}:`,
            "aria-label": name,
            onclick: () => {
              box.hidePopover();
              take(name);
            },
          },
          emojiOrName(name),
        ),
      ),
    );
  typed.addEventListener("input", offer);
  typed.addEventListener("keydown", (event) => event.key === "Enter" && grid.firstElementChild?.click());
  offer();
  typed.focus();
}
