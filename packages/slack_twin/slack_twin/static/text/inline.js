// Inline text in Slack's mrkdwn or in Markdown, as nodes. In Markdown, Slack does not decode the targets of links.
//
// Each language is one regular expression, applied from match to match. Every span has a maximum length, so that
// malicious text cannot slow down the page.

import { element, link } from "../dom.js";
import { emoji } from "./emoji.js";
import { reference, unescape } from "./references.js";

const CODE = "(?<!`)(?<ticks>`{1,10})(?!`)(?<code>[^\\n]{1,1000}?)(?<!`)\\k<ticks>(?!`)";
const SCHEME = "(?=[a-zA-Z][\\w+.\\-]{1,30}:)";
const REFERENCE = `<(?:(?<sign>[@#!])|${SCHEME})(?<target>[^<>|\\s][^<>|\\n]{0,2000})(?:\\|(?<label>[^<>\\n]{0,2000}))?>`;
const EMOJI = ":(?<emoji>[a-z0-9_+\\-]{1,60}(?:::skin-tone-\\d)?):";
const HREF = "[^\\s()<>]{1,2000}(?:\\([^\\s()<>]{0,200}\\)[^\\s()<>]{0,200})?";
const LINK = `!?\\[(?<shown>[^\\]\\n]{0,500})\\]\\(<?(?<href>${HREF})>?(?:\\s"[^"\\n]{0,200}")?\\)`;

// Text between two marks at word boundaries; `edge` matches the characters that may not be next to the marks.
function span(name, mark, edge = "\\w") {
  const beside = `[${edge}${mark.at(-1)}]`;
  return `(?<!${beside})${mark}(?!\\s)(?<${name}>[^\\n]{1,600}?)(?<![\\s${mark.at(-1)}])${mark}(?!${beside})`;
}

const MRKDWN = new RegExp(
  [CODE, REFERENCE, span("bold", "\\*"), span("italic", "_"), span("strike", "~"), EMOJI].join("|"),
  "g",
);

const MARKDOWN = new RegExp(
  [
    "\\\\(?<escaped>[\\\\`*_{}\\[\\]()#+\\-.!~|>])",
    CODE,
    LINK,
    REFERENCE,
    "(?<url>\\bhttps?:\\/\\/[^\\s<>()`*]{1,2000}[^\\s<>()`*.,;:!?'\"])",
    "\\*\\*\\*(?!\\s)(?<both>[^\\n]{1,600}?)(?<!\\s)\\*\\*\\*",
    "\\*\\*(?!\\s)(?<bold>[^\\n]{1,600}?)(?<!\\s)\\*\\*(?!\\*)",
    "(?<!\\w)__(?!\\s)(?<bold2>[^\\n]{1,600}?)(?<!\\s)__(?!\\w)",
    "~~(?!\\s)(?<strike>[^\\n]{1,600}?)(?<!\\s)~~",
    span("italic", "\\*", ""),
    span("italic2", "_"),
    EMOJI,
  ].join("|"),
  "g",
);

export const inlineMrkdwn = (text, names) => nodes(text, MRKDWN, names);
export const inlineMarkdown = (text, names) => nodes(text, MARKDOWN, names);

function nodes(text, language, names) {
  const made = [];
  let end = 0;
  for (const found of text.matchAll(language)) {
    if (found.index > end) made.push(unescape(text.slice(end, found.index)));
    made.push(node(found.groups, found[0], language, names));
    end = found.index + found[0].length;
  }
  if (end < text.length) made.push(unescape(text.slice(end)));
  return made;
}

function node(found, whole, language, names) {
  const inner = (text) => nodes(text, language, names);
  if (found.escaped) return found.escaped;
  if (found.code) return element("code", {}, unescape(found.code.replace(/^ (.+) $/, "$1")));
  if (found.target && language === MARKDOWN && !found.sign) return link(found.target, unescape(found.label ?? found.target));
  if (found.target) return reference(found.sign ?? "", found.target, found.label, names);
  if (found.href) return link(found.href, inner(found.shown || found.href));
  if (found.url) return link(found.url, unescape(found.url));
  if (found.both) return element("strong", {}, element("em", {}, inner(found.both)));
  if (found.bold ?? found.bold2) return element("strong", {}, inner(found.bold ?? found.bold2));
  if (found.italic ?? found.italic2) return element("em", {}, inner(found.italic ?? found.italic2));
  if (found.strike) return element("s", {}, inner(found.strike));
  return emoji(found.emoji) ?? whole;
}
