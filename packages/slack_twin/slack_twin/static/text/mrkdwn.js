// Slack's mrkdwn as elements: fenced code, quoted lines, and runs of text with their line breaks.

import { element } from "../dom.js";
import { codeBlock } from "./code.js";
import { inlineMrkdwn } from "./inline.js";
import { unescape } from "./references.js";

const FENCE = /```([\s\S]*?)```\n?/;
const QUOTES = /((?:^|(?<=\n))(?:(?:&gt;|>)[^\n]*(?:\n|$))+)/;
const QUOTE_MARK = /^(?:&gt;|>) ?/gm;

export function mrkdwn(text, names) {
  return text.split(FENCE).flatMap((part, place) => (place % 2 ? [fenced(part)] : prose(part, names)));
}

const fenced = (text) => codeBlock(unescape(text.replace(/^\n/, "").replace(/\n$/, "")));

function prose(text, names) {
  return text
    .split(QUOTES)
    .filter(Boolean)
    .map((part, place, parts) => {
      if (/^(&gt;|>)/.test(part))
        return element("blockquote", {}, inlineMrkdwn(part.replace(QUOTE_MARK, "").replace(/\n$/, ""), names));
      return element(
        "span",
        { class: "run" },
        inlineMrkdwn(place < parts.length - 1 ? part.replace(/\n$/, "") : part, names),
      );
    });
}
