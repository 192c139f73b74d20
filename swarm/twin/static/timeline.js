// A list of messages on the screen, drawn again where it changed, that stays at its end while its reader does.

import { element } from "./dom.js";
import { dayLine, drawMessage, follows, sameDay } from "./message.js";

const NEAR_END = 80;

export class Timeline {
  // `context()` gives what drawMessage needs; `empty()` the element shown while there is nothing.
  constructor(box, { context, empty, inThread = false }) {
    this.box = box;
    this.context = context;
    this.empty = empty;
    this.inThread = inThread;
    this.messages = new Map();
  }

  show(messages) {
    this.messages = new Map(messages.map((message) => [message.ts, message]));
    this.draw();
    this.toEnd();
  }

  put(message, { append }) {
    if (!append && !this.messages.has(message.ts)) return;
    const wasAtEnd = this.atEnd();
    this.messages.set(message.ts, message);
    this.draw();
    if (wasAtEnd) this.toEnd();
  }

  drop(ts) {
    if (this.messages.delete(ts)) this.draw();
  }

  // Elements of messages that did not change are kept, so that a half-read selection or focus survives.
  draw() {
    const before = new Map([...this.box.querySelectorAll("article")].map((drawn) => [drawn.dataset.ts, drawn]));
    const nodes = [];
    let previous = null;
    for (const message of [...this.messages.values()].sort((a, b) => (a.ts < b.ts ? -1 : 1))) {
      if (!previous || !sameDay(previous.ts, message.ts)) nodes.push(dayLine(message.ts));
      nodes.push(this.node(message, Boolean(follows(message, previous)), before.get(message.ts)));
      if (this.inThread && !previous && message.reply_count) nodes.push(replyLine(message.reply_count));
      previous = message;
    }
    const top = this.box.scrollTop;
    this.box.replaceChildren(...(nodes.length ? nodes : [this.empty()].filter(Boolean)));
    this.box.scrollTop = top;
  }

  node(message, grouped, drawn) {
    const version = JSON.stringify([message, grouped]);
    if (drawn?.version === version) return drawn;
    const made = drawMessage(message, { ...this.context(), inThread: this.inThread, grouped });
    made.version = version;
    return made;
  }

  atEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_END;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  reveal(ts) {
    const drawn = this.box.querySelector(`article[data-ts="${CSS.escape(ts)}"]`);
    if (!drawn) return;
    drawn.scrollIntoView({ block: "center" });
    drawn.classList.add("marked");
  }
}

function replyLine(count) {
  return element("div", { class: "day replies-line" }, element("span", {}, count === 1 ? "1 reply" : `${count} replies`));
}
