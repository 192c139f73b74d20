// Slack's mrkdwn, and the Markdown of markdown blocks, as elements. Modest on purpose, and safe: no markup is ever parsed.

import { element, link } from "./dom.js";
import { emoji } from "./emoji.js";

const unescape = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

const INLINE = [
  [/```\n?([\s\S]*?)```\n?/, (found) => element("pre", {}, unescape(found[1]).replace(/\n$/, ""))],
  [/`([^`\n]+)`/, (found) => element("code", {}, unescape(found[1]))],
  [/<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>/, reference],
  [/(?<![\w*])\*(?!\s)([^*\n]+?)(?<!\s)\*(?![\w*])/, (found, names) => element("strong", {}, inline(found[1], names))],
  [/(?<![\w_])_(?!\s)([^_\n]+?)(?<!\s)_(?![\w_])/, (found, names) => element("em", {}, inline(found[1], names))],
  [/(?<![\w~])~(?!\s)([^~\n]+?)(?<!\s)~(?![\w~])/, (found, names) => element("s", {}, inline(found[1], names))],
  [/:([\w+\-]+):/, (found) => emoji(found[1]) ?? found[0]],
];

const MARKDOWN = [
  INLINE[1],
  [/!?\[([^\]\n]*)\]\((\S+?)\)/, (found) => link(found[2], unescape(found[1]))],
  INLINE[2],
  [/(https?:\/\/[^\s<>()`]+[^\s<>()`.,;:!?])/, (found) => link(found[1], found[1])],
  [/\*\*(?!\s)([^\n]+?)\*\*/, (found, names) => element("strong", {}, inline(found[1], names, MARKDOWN))],
  [/(?<![\w*])\*(?!\s)([^*\n]+?)\*(?![\w*])/, (found, names) => element("em", {}, inline(found[1], names, MARKDOWN))],
  [/(?<![\w_])_(?!\s)([^_\n]+?)_(?![\w_])/, (found, names) => element("em", {}, inline(found[1], names, MARKDOWN))],
  [/~~([^~\n]+?)~~/, (found, names) => element("s", {}, inline(found[1], names, MARKDOWN))],
  INLINE[6],
];

// The earliest match of any rule, then what follows it; a loop, so that long texts cost no stack.
function inline(text, names, rules = INLINE) {
  const nodes = [];
  let rest = text;
  while (rest) {
    let first = null;
    for (const [pattern, make] of rules) {
      const found = pattern.exec(rest);
      if (found && (!first || found.index < first.found.index)) first = { found, make };
    }
    if (!first) break;
    nodes.push(unescape(rest.slice(0, first.found.index)), first.make(first.found, names));
    rest = rest.slice(first.found.index + first.found[0].length);
  }
  return [...nodes, unescape(rest)].flat();
}

function reference(found, names) {
  const [, sign, target, label] = found;
  if (sign === "@") return element("span", { class: target === names.me ? "mention me" : "mention" }, "@" + names.user(target));
  if (sign === "#") return element("a", { class: "mention", href: "#" + target }, "#" + names.channel(target));
  if (sign === "!") return element("span", { class: "mention me" }, unescape(label ?? "@" + target.split("^")[0]));
  return link(unescape(target), unescape(label ?? target));
}

// Quoted lines become a block, fenced code stays whole; everything else is one run of text with its line breaks.
export function mrkdwn(text, names) {
  const parts = text.split(/(```[\s\S]*?```\n?|(?:^|(?<=\n))(?:&gt;|>) ?.*(?:\n|$))/);
  return parts.filter(Boolean).map((part) =>
    /^(&gt;|>)/.test(part)
      ? element("blockquote", {}, inline(part.replace(/^(&gt;|>) ?/, "").replace(/\n$/, ""), names))
      : element("span", { class: "run" }, inline(part, names)),
  );
}

// Headings, lists, quotes, tables as they are, fenced code, and paragraphs.
export function markdown(text, names) {
  const made = [];
  for (const [place, part] of text.split(/^```[^\n]*\n([\s\S]*?)^```[^\S\n]*$/m).entries()) {
    if (place % 2) made.push(element("pre", {}, part.replace(/\n$/, "")));
    else for (const paragraph of part.split(/\n{2,}/)) if (paragraph.trim()) made.push(...lines(paragraph.trim(), names));
  }
  return made;
}

function lines(paragraph, names) {
  const made = [];
  let run = [];
  const flush = () => {
    if (run.length) made.push(element("p", {}, inline(run.join("\n"), names, MARKDOWN)));
    run = [];
  };
  for (const line of paragraph.split("\n")) {
    const special = heading(line, names) ?? item(line, names) ?? rule(line) ?? quote(line, names);
    if (special) {
      flush();
      made.push(special);
    } else run.push(line);
  }
  flush();
  return made;
}

function heading(line, names) {
  const found = /^(#{1,6})\s+(.*)$/.exec(line);
  return found && element("h" + Math.min(6, found[1].length + 2), {}, inline(found[2], names, MARKDOWN));
}

function item(line, names) {
  const found = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(line);
  if (!found) return null;
  const mark = /\d/.test(found[2]) ? found[2] : "•";
  const depth = Math.min(3, Math.floor(found[1].length / 2));
  return element("div", { class: `item depth-${depth}` }, element("span", { class: "mark" }, mark), element("span", {}, inline(found[3], names, MARKDOWN)));
}

const rule = (line) => (/^(-{3,}|\*{3,}|_{3,})$/.test(line.trim()) ? element("hr") : null);

function quote(line, names) {
  const found = /^(?:>|&gt;) ?(.*)$/.exec(line);
  return found && element("blockquote", {}, inline(found[1], names, MARKDOWN));
}
