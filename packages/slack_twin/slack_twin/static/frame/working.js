// The apps' current work: status lines, suggested prompts, and a Stop button while a session is active.

import { element, visible } from "../dom.js";

const TURN_MILLISECONDS = 3000;

export class Working {
  constructor() {
    this.statuses = new Map(); // "channel thread" -> status
    this.assistants = new Map(); // "channel thread app" -> assistance
    this.turn = 0;
    setInterval(() => this.next(), TURN_MILLISECONDS);
  }

  take(state) {
    this.statuses = new Map(state.statuses.map((one) => [`${one.channel} ${one.thread_ts}`, one]));
    this.assistants = new Map((state.assistants ?? []).map((one) => [keyOf(one), one]));
  }

  setStatus(status) {
    const key = `${status.channel} ${status.thread_ts}`;
    if (status.text) this.statuses.set(key, status);
    else this.statuses.delete(key);
  }

  setAssistance(shown) {
    this.assistants.set(keyOf(shown), shown);
  }

  in(channel, thread) {
    return {
      statuses: [...this.statuses.values()].filter(
        (one) => one.channel === channel && (thread === null || one.thread_ts === thread),
      ),
      assistants: [...this.assistants.values()].filter(
        (one) => one.channel === channel && (thread === null || one.thread_ts === thread),
      ),
    };
  }

  // Shows the loading messages of a status in rotation.
  next() {
    this.turn += 1;
    for (const shown of document.querySelectorAll("[data-turns]")) {
      const turns = JSON.parse(shown.dataset.turns);
      shown.textContent = visible(turns[this.turn % turns.length]);
    }
  }

  title(channel, thread) {
    return this.in(channel, thread).assistants.find((one) => one.title)?.title ?? "";
  }

  // The footer of a pane. Without `thread`, it covers the channel except the open thread.
  draw(foot, channel, thread, { except = null, stop }) {
    const shown = this.in(channel, thread);
    const version = JSON.stringify([shown, except]);
    if (foot.version === version) return;
    foot.version = version;
    foot.replaceChildren(...this.lines(shown, { except, stop }));
  }

  lines({ statuses, assistants }, { except, stop }) {
    const busy = assistants.filter((one) => one.session === "processing" && one.thread_ts !== except);
    const lines = statuses
      .filter((one) => one.thread_ts !== except)
      .map((one) => this.line(one.app, one.text, one.loading_messages));
    for (const one of busy) {
      if (!statuses.some((status) => status.thread_ts === one.thread_ts && status.app === one.app))
        lines.push(this.line(one.app, "is working…", []));
      lines.push(
        element(
          "button",
          { type: "button", class: "kit stop", "aria-label": `Stop ${one.app}`, onclick: () => stop(one.thread_ts) },
          "◼ Stop",
        ),
      );
    }
    return lines;
  }

  line(app, text, turns) {
    const shown =
      turns?.length > 1
        ? element(
            "span",
            { "data-turns": JSON.stringify(turns.map((turn) => `${app} ${turn}`)) },
            `${app} ${turns[this.turn % turns.length]}`,
          )
        : `${app} ${turns?.[0] ?? text}`;
    return element("span", { class: "status" }, element("i", { class: "dots", "aria-hidden": "true" }), shown);
  }

  // Buttons with an app's suggested prompts.
  prompts(channel, thread, say) {
    return this.in(channel, thread)
      .assistants.filter((one) => one.prompts.length)
      .map((one) =>
        element(
          "div",
          { class: "prompts", role: "group", "aria-label": one.prompts_title || `Suggestions from ${one.app}` },
          one.prompts_title && element("p", { class: "quiet" }, one.prompts_title),
          one.prompts.map((prompt) =>
            element("button", { type: "button", class: "prompt", onclick: () => say(prompt.message) }, prompt.title),
          ),
        ),
      );
  }
}

const keyOf = ({ channel, thread_ts, app }) => `${channel} ${thread_ts} ${app}`;
