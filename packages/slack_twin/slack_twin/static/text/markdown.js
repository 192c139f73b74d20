// Renders the Markdown of markdown blocks and streams as elements. Incomplete text is allowed: an unclosed construct at
// the end, such as a fence, is rendered as far as possible.

import { element } from "../dom.js";
import { codeBlock } from "./code.js";
import { inlineMarkdown } from "./inline.js";
import { readList } from "./lists.js";
import { unescape } from "./references.js";
import { readTable } from "./tables.js";

const DEEPEST_QUOTE = 5;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.\-]{0,30})[^`]*$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(\S.*)$/;
const RULE = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^\s{0,3}(?:>|&gt;) ?/;

export const markdown = (text, names) => read(text.replaceAll("\r\n", "\n").split("\n"), names, 0);

// Each reader reads lines from `start` and returns {made, next}, or null if the lines are of a different kind.
const READERS = [readFence, readHeading, readRule, readQuote, readList, readTable];

function read(lines, names, depth) {
  const made = [];
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) made.push(element("p", {}, inlineMarkdown(paragraph.join("\n"), names)));
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const found = lines[at].trim() ? firstOf(lines, at, names, depth) : { made: [], next: at + 1 };
    if (found) {
      flush();
      made.push(...found.made);
      at = found.next;
    } else paragraph.push(lines[at++].trim());
  }
  flush();
  return made;
}

function firstOf(lines, start, names, depth) {
  for (const reader of READERS) {
    const found = reader(lines, start, names, depth);
    if (found) return found;
  }
  return null;
}

function readFence(lines, start) {
  const open = FENCE.exec(lines[start]);
  if (!open) return null;
  const ends = (line) => line.trim().startsWith(open[1]) && !line.trim().replaceAll(open[1][0], "");
  let next = start + 1;
  while (next < lines.length && !ends(lines[next])) next++;
  return { made: [codeBlock(unescape(lines.slice(start + 1, next).join("\n")), open[2])], next: next + 1 };
}

function readHeading(lines, start, names) {
  const found = HEADING.exec(lines[start]);
  return (
    found && {
      made: [
        element(
          "h" + Math.min(6, found[1].length + 2),
          {},
          inlineMarkdown(found[2].replace(/\s#+\s*$/, "").trim(), names),
        ),
      ],
      next: start + 1,
    }
  );
}

function readRule(lines, start) {
  return RULE.test(lines[start]) ? { made: [element("hr")], next: start + 1 } : null;
}

function readQuote(lines, start, names, depth) {
  if (!QUOTE.test(lines[start]) || depth >= DEEPEST_QUOTE) return null;
  let next = start;
  while (next < lines.length && QUOTE.test(lines[next])) next++;
  const inner = lines.slice(start, next).map((line) => line.replace(QUOTE, ""));
  return { made: [element("blockquote", {}, read(inner, names, depth + 1))], next };
}
