// rich_text: sections, lists, quotes and code, with styled text.

import { element, link } from "../dom.js";
import { codeBlock } from "../text/code.js";
import { emojiOrName } from "../text/emoji.js";
import { channel, date, everybody, person } from "../text/references.js";

const PARTS = {
  rich_text_section: (part, names) => element("div", { class: "run" }, leaves(part, names)),
  rich_text_quote: (part, names) => element("blockquote", {}, leaves(part, names)),
  rich_text_preformatted: (part) =>
    codeBlock((part.elements ?? []).map((leaf) => leaf.text ?? leaf.url ?? "").join(""), part.language),
};

export function richText(block, names) {
  return listed(block.elements ?? []).map((part) =>
    Array.isArray(part) ? list(part, names) : (PARTS[part.type] ?? PARTS.rich_text_section)(part, names),
  );
}

// Slack represents a nested list as a sibling with a greater indent: adjacent lists form one group.
function listed(parts) {
  const groups = [];
  for (const part of parts) {
    if (part.type !== "rich_text_list") groups.push(part);
    else if (Array.isArray(groups.at(-1))) groups.at(-1).push(part);
    else groups.push([part]);
  }
  return groups;
}

function list(parts, names) {
  const [first, ...rest] = parts;
  const inner = rest.findIndex((part) => (part.indent ?? 0) <= (first.indent ?? 0));
  const deeper = inner < 0 ? rest : rest.slice(0, inner);
  const made = element(
    first.style === "ordered" ? "ol" : "ul",
    first.offset ? { start: first.offset + 1 } : {},
    (first.elements ?? []).map((item) => element("li", {}, leaves(item, names))),
  );
  if (deeper.length) (made.lastElementChild ?? made).append(...[list(deeper, names)].flat());
  return inner < 0 ? [made] : [made, list(rest.slice(inner), names)].flat();
}

const leaves = (part, names) => (part.elements ?? []).map((leaf) => styled(leaf, drawLeaf(leaf, names)));

function drawLeaf(leaf, names) {
  switch (leaf.type) {
    case "text":
      return String(leaf.text ?? "");
    case "link":
      return link(String(leaf.url ?? ""), String(leaf.text ?? leaf.url ?? ""));
    case "emoji":
      return leaf.unicode ? fromCodes(leaf.unicode) : emojiOrName(String(leaf.name ?? ""));
    case "user":
      return person(leaf.user_id, names);
    case "channel":
      return channel(leaf.channel_id, names);
    case "usergroup":
      return element("span", { class: "mention" }, "@" + names.group(leaf.usergroup_id));
    case "broadcast":
      return everybody(String(leaf.range ?? "here"));
    case "date":
      return date(Number(leaf.timestamp), String(leaf.format ?? "{date}"), leaf.url, String(leaf.fallback ?? ""));
    case "color":
      return element("code", {}, String(leaf.value ?? ""));
    default:
      return String(leaf.text ?? "");
  }
}

const fromCodes = (codes) => {
  const points = String(codes)
    .split("-")
    .map((code) => parseInt(code, 16));
  return points.every((point) => point > 0 && point <= 0x10ffff) ? String.fromCodePoint(...points) : "";
};

const TAGS = [
  ["code", "code"],
  ["bold", "strong"],
  ["italic", "em"],
  ["strike", "s"],
  ["underline", "u"],
];

const styled = (leaf, content) =>
  TAGS.reduce((inner, [style, tag]) => (leaf.style?.[style] ? element(tag, {}, inner) : inner), content);
