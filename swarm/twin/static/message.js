// One message as an element: author, time, text or blocks, files, reactions, the way into its thread.

import { drawBlocks } from "./blocks.js";
import { element } from "./dom.js";
import { QUICK, emojiOrName } from "./emoji.js";
import { mrkdwn } from "./mrkdwn.js";

const GROUP_SECONDS = 300;

export const moment = (ts) => new Date(Number(ts) * 1000);
const clock = (ts) => moment(ts).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

export function avatar(user, size = "") {
  const initials = (user?.display_name || user?.name || "?").slice(0, 1).toUpperCase();
  const hue = [...(user?.id ?? "")].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 8, 7);
  const shape = user?.is_bot ? "bot" : `hue-${hue}`;
  return element("span", { class: `avatar ${shape} ${size}`, "aria-hidden": "true" }, user?.is_bot ? "◆" : initials);
}

export function dayLine(ts) {
  const day = moment(ts).toLocaleDateString([], { weekday: "long", month: "long", day: "numeric" });
  return element("div", { class: "day" }, element("span", {}, day));
}

export const sameDay = (one, other) => moment(one).toDateString() === moment(other).toDateString();

// Messages of one person shortly after another stand under one name.
export function follows(message, previous) {
  return (
    previous && previous.user === message.user && !previous.reply_count && !message.subtype && !previous.subtype &&
    Number(message.ts) - Number(previous.ts) < GROUP_SECONDS && sameDay(message.ts, previous.ts)
  );
}

// `act` holds what a reader can do: openThread, react, edit, remove.
export function drawMessage(message, { names, act, inThread = false, grouped = false }) {
  const author = names.person(message.user);
  const own = message.user === names.me && message.subtype !== "tombstone";
  return element(
    "article",
    { class: `message${grouped ? " grouped" : ""}${message.subtype === "tombstone" ? " gone" : ""}`, "data-ts": message.ts, tabindex: "-1" },
    element("div", { class: "gutter" }, grouped ? element("time", {}, clock(message.ts)) : avatar(author)),
    element(
      "div",
      { class: "body" },
      !grouped && header(message, author),
      message.root_text && !inThread && element("button", { type: "button", class: "replied", onclick: () => act.openThread(message.thread_ts) }, `replied to a thread: ${message.root_text}`),
      element("div", { class: "content" }, content(message, names)),
      files(message),
      reactions(message, names, act),
      !inThread && threadLink(message, names, act),
    ),
    message.subtype !== "tombstone" && message.subtype !== "ephemeral" && tools(message, { act, own, inThread }),
  );
}

function header(message, author) {
  return element(
    "header",
    {},
    element("strong", { class: "author" }, author?.display_name || message.author),
    author?.is_bot && element("span", { class: "badge" }, "APP"),
    element("time", { datetime: moment(message.ts).toISOString(), title: moment(message.ts).toLocaleString() }, clock(message.ts)),
    message.subtype === "ephemeral" && element("span", { class: "quiet" }, "Only visible to you"),
  );
}

function content(message, names) {
  const drawn = message.blocks.length ? drawBlocks(message.blocks, names) : mrkdwn(message.raw, names);
  return [...drawn, message.edited && element("span", { class: "quiet" }, " (edited)")];
}

function files(message) {
  if (!message.files.length) return null;
  return element(
    "div",
    { class: "files" },
    message.files.map((file) =>
      element("a", { class: "file", href: `/files/${file.id}/${encodeURIComponent(file.name)}`, download: file.name }, element("span", { "aria-hidden": "true" }, "📄"), element("span", {}, file.name), element("small", {}, size(file.size))),
    ),
  );
}

const size = (bytes) => (bytes < 1024 ? `${bytes} B` : `${Math.round(bytes / 1024)} kB`);

function reactions(message, names, act) {
  if (!message.reactions.length) return null;
  const mine = names.person(names.me)?.name;
  return element(
    "div",
    { class: "reactions" },
    message.reactions.map(({ name, users }) =>
      element(
        "button",
        { type: "button", class: users.includes(mine) ? "reaction mine" : "reaction", "data-name": name, title: `${users.join(", ")} reacted with :${name}:`, "aria-pressed": String(users.includes(mine)), onclick: () => act.react(message, name, users.includes(mine)) },
        element("span", {}, emojiOrName(name)),
        element("span", { class: "count" }, String(users.length)),
      ),
    ),
  );
}

function threadLink(message, names, act) {
  if (!message.reply_count) return null;
  const replies = message.reply_count === 1 ? "1 reply" : `${message.reply_count} replies`;
  return element(
    "button",
    { type: "button", class: "replies", onclick: () => act.openThread(message.ts) },
    message.reply_users.map((user) => avatar(names.person(user), "small")),
    element("strong", {}, replies),
    element("span", { class: "quiet" }, `last at ${clock(message.latest_reply)}`),
  );
}

function tools(message, { act, own, inThread }) {
  return element(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "What you can do with this message" },
    QUICK.slice(0, 4).map((name) => tool(emojiOrName(name), `React with :${name}:`, () => act.react(message, name, false))),
    !inThread && tool("💬", "Reply in thread", () => act.openThread(message.thread_ts ?? message.ts)),
    own && tool("✏️", "Edit", () => act.edit(message)),
    own && tool("🗑", "Delete", () => act.remove(message)),
  );
}

const tool = (sign, label, onclick) => element("button", { type: "button", "aria-label": label, title: label, onclick }, sign);
