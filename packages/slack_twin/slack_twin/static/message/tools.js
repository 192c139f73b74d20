// The actions on a message, shown while the pointer or the focus is on it.

import { element } from "../dom.js";
import { QUICK, emojiOrName } from "../text/emoji.js";
import { pickEmoji } from "./reactions.js";

const OFFERED = 3;

export function drawTools(message, { act, own, inThread }) {
  const more = tool("☺", "Find another reaction", () => pickEmoji(more, (name) => act.react(message, name, false)));
  return element(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "Message actions" },
    QUICK.slice(0, OFFERED).map((name) =>
      tool(emojiOrName(name), `React with :${name}:`, () => act.react(message, name, false)),
    ),
    more,
    !inThread && tool("💬", "Reply in thread", () => act.openThread(message.thread_ts ?? message.ts)),
    tool("↪", "Forward", () => act.forward(message)),
    tool("🔗", "Copy link", () => act.copyLink(message)),
    own && tool("✏️", "Edit", () => act.edit(message)),
    own && tool("🗑", "Delete", () => act.remove(message)),
  );
}

const tool = (sign, label, onclick) =>
  element("button", { type: "button", "aria-label": label, title: label, onclick }, sign);

// Keyboard shortcuts for the focused message.
export function messageKey(event, message, { act, own, inThread }) {
  if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    Enter: () => !inThread && act.openThread(message.thread_ts ?? message.ts),
    r: () => event.currentTarget.querySelector("[aria-label='Find another reaction']")?.click(),
    e: () => own && act.edit(message),
    Delete: () => own && act.remove(message),
    ArrowDown: () => neighbour(event.currentTarget, "nextElementSibling")?.focus(),
    ArrowUp: () => neighbour(event.currentTarget, "previousElementSibling")?.focus(),
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

function neighbour(node, way) {
  let next = node[way];
  while (next && next.tagName !== "ARTICLE") next = next[way];
  return next;
}
