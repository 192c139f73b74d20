// Block Kit as elements. `kit` contains the context of blocks: names, their form, and the actions of controls.
// https://docs.slack.dev/reference/block-kit/blocks

import { element, link } from "../dom.js";
import { drawFiles } from "../message/files.js";
import { markdown } from "../text/markdown.js";
import { table } from "../text/tables.js";
import { card, carousel, container } from "./cards.js";
import { control } from "./controls.js";
import { input } from "./input.js";
import { image, video } from "./media.js";
import { richText } from "./rich_text.js";
import { plan, taskCard } from "./tasks.js";
import { words } from "./words.js";

const DRAWN = {
  actions: (block, kit) => element("div", { class: "actions" }, controls(block, block.elements, kit)),
  alert: (block, kit) =>
    element(
      "div",
      { class: `alert ${LEVELS.has(block.level) ? block.level : "default"}`, role: "note" },
      words(block.text, kit.names),
    ),
  card,
  carousel,
  container,
  context: (block, kit) =>
    element(
      "div",
      { class: "context" },
      (block.elements ?? []).map((part) => contextPart(part, kit)),
    ),
  context_actions: (block, kit) => element("div", { class: "context-actions" }, controls(block, block.elements, kit)),
  divider: () => element("hr"),
  file: (block) => element("em", { class: "quiet" }, `Remote file ${block.external_id ?? ""}`),
  header: (block, kit) => element("h3", { class: "head" }, words(block.text, kit.names)),
  image: (block, kit) => image(block, kit),
  input,
  markdown: (block, kit) => markdown(String(block.text ?? ""), kit.names),
  plan,
  rich_text: (block, kit) => richText(block, kit.names),
  section,
  table: (block, kit) =>
    table(
      (block.rows ?? []).map((row) => row.map((cell) => tableCell(cell, kit))),
      (block.column_settings ?? []).map(alignment),
    ),
  task_card: taskCard,
  video,
};

const LEVELS = new Set(["info", "warning", "error", "success"]);

export function drawBlocks(blocks, kit) {
  return blocks.map((block) => element("div", { class: `block ${tail(block)}` }, drawBlock(block, kit)));
}

// A block may have any content: a block that cannot be drawn is named, and never breaks the page.
function drawBlock(block, kit) {
  const draw = Object.hasOwn(DRAWN, block?.type) ? DRAWN[block.type] : null;
  try {
    if (draw) return draw(block, kit);
  } catch (error) {
    console.warn("a block could not be drawn", error);
  }
  return element("em", { class: "quiet" }, `(${block?.type ?? "block"})`);
}

const tail = (block) => (block?.type === "markdown" || block?.type === "rich_text" ? "prose" : "");
const controls = (block, elements, kit) => (elements ?? []).map((one) => control(block, one, kit));

function section(block, kit) {
  return element(
    "div",
    { class: "section" },
    element(
      "div",
      { class: "section-text" },
      block.text && element("div", {}, words(block.text, kit.names)),
      block.fields?.length > 0 &&
        element(
          "div",
          { class: "fields" },
          block.fields.map((field) => element("div", {}, words(field, kit.names))),
        ),
    ),
    block.accessory &&
      element(
        "div",
        { class: "accessory" },
        block.accessory.type === "image" ? image(block.accessory, kit) : control(block, block.accessory, kit),
      ),
  );
}

function contextPart(part, kit) {
  return part.type === "image" ? image(part, kit) : element("span", {}, words(part, kit.names));
}

function tableCell(cell, kit) {
  return cell.type === "rich_text" ? richText(cell, kit.names) : String(cell.text ?? cell.value ?? cell.number ?? "");
}

const alignment = (column) => (["center", "right"].includes(column?.align) ? column.align : "left");

// The content of an attachment below a message: its colour, its text or blocks.
export function drawAttachment(attachment, kit) {
  const { names } = kit;
  const blocks = attachment.blocks ?? attachment.message_blocks?.[0]?.message?.blocks;
  const said = (text) => text && element("div", {}, words({ type: "mrkdwn", text }, names));
  const shown = element(
    "div",
    { class: "attachment" },
    said(attachment.pretext),
    attachment.author_name && element("strong", {}, attachment.author_name),
    attachment.title &&
      element(
        "div",
        {},
        element("strong", {}, attachment.title_link ? link(attachment.title_link, attachment.title) : attachment.title),
      ),
    blocks ? drawBlocks(blocks, kit) : said(attachment.text ?? attachment.fallback),
    drawFiles(attachment.files ?? []),
    attachment.fields &&
      element(
        "div",
        { class: "fields" },
        attachment.fields.map((field) =>
          element("div", {}, element("strong", {}, field.title ?? ""), said(field.value)),
        ),
      ),
    attachment.footer && element("div", { class: "quiet" }, attachment.footer),
  );
  if (/^#?[0-9a-f]{6}$/i.test(attachment.color ?? ""))
    shown.style.borderLeftColor = "#" + attachment.color.replace("#", "");
  return shown;
}
