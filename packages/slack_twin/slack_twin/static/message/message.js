// One message as an element: author, time, text or blocks, files, reactions, the link to its thread.

import { drawAttachment, drawBlocks } from "../blocks/block.js";
import { element } from "../dom.js";
import { mrkdwn } from "../text/mrkdwn.js";
import { avatar } from "./avatar.js";
import { drawFiles } from "./files.js";
import { drawReactions } from "./reactions.js";
import { clock, moment, sameDay } from "./time.js";
import { drawTools, messageKey } from "./tools.js";

const GROUP_SECONDS = 300;
const HOLDS_TEXT = ".block, .run, p, ul, ol, li, blockquote, h3, h4, h5, h6";
const SILENT = new Set(["tombstone", "ephemeral"]); // these accept no reactions

// Consecutive messages of one person within a short time share one header.
export function follows(message, previous) {
  return Boolean(
    previous &&
    previous.user === message.user &&
    previous.author === message.author &&
    !previous.reply_count &&
    !message.subtype &&
    !previous.subtype &&
    Number(message.ts) - Number(previous.ts) < GROUP_SECONDS &&
    sameDay(message.ts, previous.ts),
  );
}

// `act` contains the reader's actions: openThread, react, edit, remove, copyLink, stop, kitOf.
export function drawMessage(message, { names, act, unread, titleOf, inThread = false, grouped = false }) {
  const author = names.person(message.user);
  const own = message.user === names.me && !SILENT.has(message.subtype);
  const made = element(
    "article",
    {
      class: classes(message, grouped),
      "data-ts": message.ts,
      tabindex: "-1",
      "aria-label": `${message.author}, ${clock(message.ts)}`,
      "aria-busy": message.streaming ? "true" : null,
    },
    element("div", { class: "gutter" }, grouped ? element("time", {}, clock(message.ts)) : avatar(author)),
    element(
      "div",
      { class: "body" },
      !grouped && header(message, author),
      !inThread && repliedTo(message, act),
      element("div", { class: "content" }, content(message, names, act.kitOf(message))),
      drawFiles(message.files),
      message.streaming && stopButton(message, act),
      drawReactions(message, names, act),
      !inThread && threadLink(message, { names, act, unread, title: titleOf(message) }),
    ),
    !SILENT.has(message.subtype) && drawTools(message, { act, own, inThread }),
  );
  if (message.streaming) markEnd(made.querySelector(".content"));
  made.addEventListener("keydown", (event) => messageKey(event, message, { act, own, inThread }));
  return made;
}

const SORTS = { tombstone: "gone", ephemeral: "private" };

const classes = (message, grouped) =>
  ["message", grouped && "grouped", SORTS[message.subtype], message.streaming && "streaming"].filter(Boolean).join(" ");

const stopButton = (message, act) =>
  element("button", { type: "button", class: "kit stop", onclick: () => act.stop(message) }, "◼ Stop");

// A streamed message has a caret at the end of its text.
function markEnd(content) {
  let end = content;
  while (end.lastElementChild?.matches(HOLDS_TEXT)) end = end.lastElementChild;
  end.classList.add("caret");
}

// A reply that was also sent to the channel quotes its root.
function repliedTo(message, act) {
  if (typeof message.root_text !== "string") return null;
  const open = () => act.openThread(message.thread_ts);
  const text = `replied to a thread: ${message.root_text}`;
  return element("button", { type: "button", class: "replied", onclick: open }, text);
}

function header(message, author) {
  const isOwnName = author && author.name === message.author; // apps may choose a different name for a message
  const at = moment(message.ts);
  return element(
    "header",
    {},
    element("strong", { class: "author" }, isOwnName ? author.display_name || author.name : message.author),
    author?.is_bot && element("span", { class: "badge" }, "APP"),
    element("time", { datetime: at.toISOString(), title: at.toLocaleString() }, clock(message.ts)),
    message.subtype === "ephemeral" && element("span", { class: "quiet" }, "Only visible to you"),
  );
}

function content(message, names, kit) {
  const said = message.blocks.length ? drawBlocks(message.blocks, kit) : mrkdwn(message.raw, names);
  const attached = (message.attachments ?? []).map((attachment) => drawAttachment(attachment, kit));
  return [...said, ...attached, message.edited && element("span", { class: "quiet" }, " (edited)")];
}

function threadLink(message, { names, act, unread, title }) {
  if (!message.reply_count) return null;
  const replies = message.reply_count === 1 ? "1 reply" : `${message.reply_count} replies`;
  const waiting = unread.inThread(message.channel, message.ts);
  return element(
    "button",
    { type: "button", class: "replies", onclick: () => act.openThread(message.ts) },
    message.reply_users.slice(0, 5).map((user) => avatar(names.person(user), "small")),
    title && element("strong", { class: "thread-title" }, title),
    element("strong", {}, replies),
    waiting > 0 && element("span", { class: "count" }, `${waiting} new`),
    element("span", { class: "quiet" }, `last at ${clock(message.latest_reply)}`),
  );
}
