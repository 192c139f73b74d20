// Cards: single cards, carousels, and containers of other blocks.

import { element } from "../dom.js";
import { drawBlocks } from "./block.js";
import { control } from "./controls.js";
import { image } from "./media.js";
import { richText } from "./rich_text.js";
import { words } from "./words.js";

export function card(block, kit) {
  const actions = (block.actions ?? []).map((one) => control(block, one, kit));
  return element(
    "div",
    { class: "card" },
    block.hero_image && image(block.hero_image, kit),
    head(block, titles(block, kit), kit),
    block.body && element("div", {}, words(block.body, kit.names)),
    actions.length > 0 && element("div", { class: "actions" }, actions),
  );
}

export function carousel(block, kit) {
  const about = { class: "carousel", tabindex: "0", role: "group", "aria-label": "Cards" };
  return element(
    "div",
    about,
    (block.elements ?? []).map((one) => card(one, kit)),
  );
}

export function container(block, kit) {
  const inner = drawBlocks(block.child_blocks ?? [], kit);
  const title = block.rich_text_title ? richText(block.rich_text_title, kit.names) : titles(block, kit);
  if (!block.is_collapsible) return element("div", { class: "card" }, head(block, title, kit), inner);
  const about = { class: "card", "data-keep": `container-${block.block_id}`, open: !block.default_collapsed };
  return element("details", about, element("summary", {}, title), inner);
}

const head = (block, title, kit) =>
  element("div", { class: "card-head" }, block.icon && image(block.icon, kit), element("div", {}, title));

const titles = (block, kit) => [
  block.title && element("strong", {}, words(block.title, kit.names)),
  block.subtitle && element("div", { class: "quiet" }, words(block.subtitle, kit.names)),
];
