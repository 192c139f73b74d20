// Markdown lists: bullets, numbers and check boxes, nested by indentation.

import { element } from "../dom.js";
import { inlineMarkdown } from "./inline.js";

const ITEM = /^(\s*)([-*+•]|(\d{1,9})[.)])\s+(.*)$/;
const CHECK = /^\[([ xX])\]\s+/;
const DEEPEST = 6;

export function readList(lines, start, names) {
  if (!ITEM.test(lines[start])) return null;
  const items = [];
  let next = start;
  for (; next < lines.length; next++) {
    const found = ITEM.exec(lines[next]);
    if (found) items.push({ indent: width(found[1]), number: found[3], text: found[4] });
    else if (/^\s+\S/.test(lines[next])) items.at(-1).text += "\n" + lines[next].trim();
    else if (lines[next].trim() || !ITEM.test(lines[next + 1] ?? "")) break;
  }
  return { made: lists(items, names, 0), next };
}

const width = (space) => space.replaceAll("\t", "    ").length;

// Adjacent items of one kind form a list; items with a greater indentation belong to the item before them.
function lists(items, names, depth) {
  const made = [];
  for (let at = 0; at < items.length;) {
    let end = at + 1;
    while (end < items.length && items[end].indent > items[at].indent && depth < DEEPEST) end++;
    const item = drawItem(items[at], lists(items.slice(at + 1, end), names, depth + 1), names);
    const tag = items[at].number ? "ol" : "ul";
    if (made.at(-1)?.tagName.toLowerCase() === tag) made.at(-1).append(item);
    else made.push(element(tag, items[at].number > 1 ? { start: items[at].number } : {}, item));
    at = end;
  }
  return made;
}

function drawItem({ text }, children, names) {
  const check = CHECK.exec(text);
  const box =
    check &&
    element("input", {
      type: "checkbox",
      disabled: true,
      checked: check[1] !== " ",
      "aria-label": check[1] === " " ? "to do" : "done",
    });
  return element(
    "li",
    { class: check ? "check" : null },
    box,
    inlineMarkdown(text.replace(CHECK, ""), names),
    children,
  );
}
