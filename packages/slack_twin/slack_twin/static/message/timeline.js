// A list of messages that redraws changed messages, and stays at its end while the reader is there.

import { element } from "../dom.js";
import { drawMessage, follows } from "./message.js";
import { keepState } from "./keep.js";
import { dayLine, sameDay } from "./time.js";

const NEAR_END = 80; // pixels
const NEAR_START = 120;
const MOST_KEPT = 400; // messages

export class Timeline {
  // `context()` returns the context of drawMessage; `empty()` returns the element for an empty list; `earlier(ts)`
  // resolves to the messages before one, or to an empty list.
  constructor(box, { context, empty, earlier = null, inThread = false }) {
    Object.assign(this, { box, context, empty, earlier, inThread });
    this.messages = new Map();
    this.drawn = new Map(); // ts -> article
    this.stale = new Set();
    this.isIncomplete = false; // whether displayed messages are missing
    this.readMark = null;
    this.hasEarlier = false;
    box.addEventListener("scroll", () => this.loadEarlier());
    new ResizeObserver(() => this.isFollowing && this.toEnd()).observe(box);
    this.isFollowing = true;
    box.addEventListener("scroll", () => {
      this.isFollowing = this.atEnd();
    });
  }

  // Shows a conversation from its end.
  show(messages, { readMark = null, hasEarlier = false } = {}) {
    this.messages = new Map(messages.map((message) => [message.ts, message]));
    Object.assign(this, { readMark, hasEarlier });
    this.drawn.clear();
    this.drawAll();
    this.toEnd();
  }

  // Reloads the same conversation; keeps earlier messages and the scroll position.
  update(messages, { hasEarlier = false } = {}) {
    const earlier = hasEarlier ? [...this.messages].filter(([ts]) => ts < messages[0].ts) : [];
    this.messages = new Map([...earlier, ...messages.map((message) => [message.ts, message])]);
    this.hasEarlier = earlier.length ? this.hasEarlier : hasEarlier;
    const follow = this.isFollowing;
    this.drawAll();
    if (follow) this.toEnd();
  }

  // Updates may arrive many times a second, so they are drawn once per frame.
  put(message, { append }) {
    const isNew = !this.messages.has(message.ts);
    if (isNew && !append) return;
    this.messages.set(message.ts, message);
    this.isIncomplete ||= isNew;
    if (isNew && message.user === this.context().names.me) this.isFollowing = true;
    if (isNew) this.trim();
    this.refresh(message.ts);
  }

  // A window that stays open for days does not grow: removed messages are loaded again when the reader scrolls there.
  trim() {
    if (!this.earlier || !this.isFollowing || this.messages.size <= MOST_KEPT) return;
    const old = [...this.messages.keys()].sort().slice(0, -MOST_KEPT / 2);
    for (const ts of old) {
      this.messages.delete(ts);
      this.drawn.delete(ts);
    }
    this.hasEarlier = true;
  }

  refresh(ts) {
    if (!this.stale.size) requestAnimationFrame(() => this.drawStale());
    this.stale.add(ts);
  }

  drop(ts) {
    if (this.messages.delete(ts)) this.drawAll();
  }

  drawStale() {
    const follow = this.isFollowing;
    if (this.isIncomplete) this.drawAll();
    else for (const ts of this.stale) this.redraw(ts);
    this.stale.clear();
    if (follow) this.toEnd();
  }

  redraw(ts) {
    const before = this.drawn.get(ts);
    if (!before?.isConnected || !this.messages.has(ts)) return;
    this.node(this.messages.get(ts), before.classList.contains("grouped"), before);
  }

  // Keeps the elements of unchanged messages, so that selections and the focus survive.
  drawAll() {
    this.isIncomplete = false;
    const nodes = [];
    let previous = null;
    let isMarked = !this.readMark;
    for (const message of [...this.messages.values()].sort((one, other) => (one.ts < other.ts ? -1 : 1))) {
      if (!previous || !sameDay(previous.ts, message.ts)) nodes.push(dayLine(message.ts));
      const isFirstNew = !isMarked && message.ts > this.readMark && message.user !== this.context().names.me;
      if (isFirstNew) nodes.push(element("div", { class: "line new", role: "separator" }, element("span", {}, "New")));
      isMarked ||= isFirstNew;
      nodes.push(this.node(message, !isFirstNew && follows(message, previous), this.drawn.get(message.ts)));
      if (this.inThread && !previous && this.messages.size > 1) nodes.push(replyLine(this.messages.size - 1));
      previous = message;
    }
    const top = this.box.scrollTop;
    fill(this.box, nodes.length ? nodes : [this.empty()].filter(Boolean));
    this.box.scrollTop = top;
  }

  node(message, grouped, before) {
    const { unread, titleOf } = this.context();
    const version = JSON.stringify([message, grouped, unread.inThread(message.channel, message.ts), titleOf(message)]);
    if (before && (before.version === version || before.querySelector(".editing"))) return before;
    const made = drawMessage(message, { ...this.context(), inThread: this.inThread, grouped });
    made.version = version;
    if (before?.isConnected) {
      keepState(before, made, () => before.replaceWith(made));
    }
    this.drawn.set(message.ts, made);
    return made;
  }

  async loadEarlier() {
    if (!this.earlier || !this.hasEarlier || this.isLoading || this.box.scrollTop > NEAR_START) return;
    this.isLoading = true;
    try {
      const first = [...this.messages.keys()].sort()[0];
      const { messages, has_earlier } = await this.earlier(first);
      if (!this.messages.has(first)) return; // another conversation was opened in the meantime
      this.hasEarlier = has_earlier;
      for (const message of messages) this.messages.set(message.ts, message);
      const below = this.box.scrollHeight - this.box.scrollTop;
      this.drawAll();
      this.box.scrollTop = this.box.scrollHeight - below;
    } finally {
      this.isLoading = false;
    }
  }

  atEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_END;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.isFollowing = true;
  }

  latest() {
    return [...this.messages.keys()].sort().at(-1) ?? "";
  }

  article(ts) {
    return this.drawn.get(ts) ?? null;
  }

  reveal(ts) {
    const found = this.article(ts);
    if (!found) return;
    this.isFollowing = false;
    found.scrollIntoView({ block: "center" });
    found.classList.add("marked");
  }
}

// Inserts `nodes` without moving existing ones, because a moved node would lose the focus.
function fill(box, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...box.childNodes]) if (!wanted.has(child)) child.remove();
  let at = box.firstChild;
  for (const node of nodes) {
    if (node === at) at = at.nextSibling;
    else box.insertBefore(node, at);
  }
}

function replyLine(count) {
  return element(
    "div",
    { class: "line replies-line", role: "separator" },
    element("span", {}, count === 1 ? "1 reply" : `${count} replies`),
  );
}
