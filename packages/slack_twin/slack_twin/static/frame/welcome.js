// The introduction in an empty conversation: instructions, and a button to start.

import { element } from "../dom.js";

export function welcome({ channel, app, title, fill }) {
  if (!app)
    return element(
      "div",
      { class: "welcome" },
      element("h2", {}, channel.name ? `This is the beginning of #${channel.name}` : `Your conversation with ${title}`),
      element("p", {}, "There are no messages here yet."),
    );
  const text = channel.name ? `@${app.name} hello` : "hello";
  const where = channel.name ? `in #${channel.name}` : "here";
  const answer = channel.name ? "in a thread below your message" : "here";
  return element(
    "div",
    { class: "welcome" },
    element("div", { class: "wave", "aria-hidden": "true" }, "👋"),
    element("h2", {}, `Say hello to ${app.name}`),
    element("p", {}, "Type ", element("kbd", {}, text), ` ${where} and press Enter. The answer comes ${answer}.`),
    element("button", { type: "button", class: "begin", onclick: () => fill(text) }, `Write “${text}” for me`),
  );
}
