// Markdown tables, and the frame of all tables.

import { element } from "../dom.js";
import { inlineMarkdown } from "./inline.js";

const DASHES = /^:?-+:?$/;

export function readTable(lines, start, names) {
  if (!lines[start].includes("|") || !cells(lines[start + 1] ?? "").every((cell) => DASHES.test(cell))) return null;
  const aligned = cells(lines[start + 1]).map((cell) =>
    /:$/.test(cell) ? (/^:/.test(cell) ? "center" : "right") : "left",
  );
  let next = start + 2;
  while (next < lines.length && lines[next].includes("|") && lines[next].trim()) next++;
  const rows = [lines[start], ...lines.slice(start + 2, next)].map((line) =>
    cells(line)
      .slice(0, aligned.length)
      .map((cell) => inlineMarkdown(cell, names)),
  );
  return { made: [table(rows, aligned)], next };
}

const cells = (line) =>
  line
    .trim()
    .replace(/^\|/, "")
    .replace(/\|$/, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));

// `rows` contains the nodes of each cell; the first row is the header. Wide tables scroll in their own box.
export function table(rows, aligned = []) {
  const row = (tag) => (content) =>
    element(
      "tr",
      {},
      content.map((cell, place) => element(tag, { class: aligned[place] }, cell)),
    );
  const [head, ...body] = rows;
  return element(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    element("table", {}, element("thead", {}, [head].map(row("th"))), element("tbody", {}, body.map(row("td")))),
  );
}
