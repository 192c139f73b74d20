// Block Kit, as far as this page draws it. Forms and buttons are shown but do nothing yet.

import { element, link } from "./dom.js";
import { markdown, mrkdwn } from "./mrkdwn.js";

const DRAWN = {
  section: (block, names) => [
    block.text && element("div", {}, text(block.text, names)),
    (block.fields ?? []).length > 0 && element("div", { class: "fields" }, block.fields.map((field) => element("div", {}, text(field, names)))),
    block.accessory && part(block.accessory, names),
  ],
  header: (block, names) => element("h3", {}, text(block.text, names)),
  divider: () => element("hr"),
  context: (block, names) => element("div", { class: "context" }, (block.elements ?? []).map((child) => part(child, names))),
  markdown: (block, names) => markdown(String(block.text ?? ""), names),
  actions: (block, names) => element("div", { class: "actions" }, (block.elements ?? []).map((child) => part(child, names))),
  image: (block) => link(String(block.image_url ?? ""), "🖼 " + String(block.alt_text ?? "image")),
  rich_text: (block, names) => (block.elements ?? []).map((child) => rich(child, names)),
};

export function drawBlocks(blocks, names) {
  return blocks.map((block) => element("div", { class: "block" }, drawBlock(block, names)));
}

// A block may carry anything: what cannot be drawn is named, and never breaks the page.
function drawBlock(block, names) {
  const draw = Object.hasOwn(DRAWN, block.type) ? DRAWN[block.type] : null;
  try {
    if (draw) return [draw(block, names)].flat(3);
  } catch (error) {
    console.warn("a block could not be drawn", error);
  }
  return [element("em", { class: "context" }, `(${block.type})`)];
}

function text(value, names) {
  const content = String(value?.text ?? "");
  return value?.type === "mrkdwn" ? mrkdwn(content, names) : content;
}

function part(value, names) {
  if (value.type === "button") return element("button", { type: "button", class: "kit", disabled: true, title: "Buttons come with the full twin" }, text(value.text, names));
  if (value.type === "image") return link(String(value.image_url ?? ""), "🖼 " + String(value.alt_text ?? "image"));
  return element("span", {}, value.text === undefined ? `(${value.type})` : text(value, names));
}

function rich(node, names) {
  const inner = (node.elements ?? []).map((child) => rich(child, names));
  if (node.type === "rich_text_preformatted") return element("pre", {}, inner);
  if (node.type === "rich_text_quote") return element("blockquote", {}, inner);
  if (node.type === "rich_text_list") return element("div", {}, inner.map((child) => element("div", { class: "item" }, element("span", { class: "mark" }, "•"), child)));
  if (node.type === "user") return element("span", { class: "mention" }, "@" + names.user(node.user_id));
  if (node.type === "channel") return element("span", { class: "mention" }, "#" + names.channel(node.channel_id));
  if (node.type === "link") return link(String(node.url ?? ""), String(node.text ?? node.url));
  if (node.type === "text") return styled(String(node.text ?? ""), node.style ?? {});
  return element("span", { class: "run" }, inner);
}

function styled(content, style) {
  const tag = style.code ? "code" : style.bold ? "strong" : style.italic ? "em" : style.strike ? "s" : "span";
  return element(tag, {}, content);
}
