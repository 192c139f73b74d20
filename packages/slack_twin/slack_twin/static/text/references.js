// Slack's markup between < and >: people, channels, groups, dates and links. Returns only elements with text content.

import { element, link } from "../dom.js";

export const unescape = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

export function reference(sign, target, label, names) {
  if (sign === "@") return person(target, names);
  if (sign === "#") return channel(target, names);
  if (sign === "!") return special(target, label, names);
  return link(unescape(target), unescape(label ?? target));
}

export function person(id, names) {
  return element("span", { class: id === names.me ? "mention me" : "mention" }, "@" + names.user(id));
}

export function channel(id, names) {
  return element("a", { class: "mention", href: "#" + id }, "#" + names.channel(id));
}

export function everybody(range) {
  return element("span", { class: "mention me" }, "@" + range);
}

function special(target, label, names) {
  const [kind, ...rest] = target.split("^");
  if (kind === "date") return date(Number(rest[0]), unescape(rest[1] ?? ""), rest[2], unescape(label ?? ""));
  if (kind === "subteam") return element("span", { class: "mention" }, unescape(label ?? "@" + names.group(rest[0])));
  return everybody(unescape(label ?? kind).replace(/^@/, ""));
}

const DATE_PARTS = {
  date_num: (at) => at.toISOString().slice(0, 10),
  date: (at) => at.toLocaleDateString([], { year: "numeric", month: "long", day: "numeric" }),
  date_short: (at) => at.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" }),
  date_long: (at) => at.toLocaleDateString([], { weekday: "long", year: "numeric", month: "long", day: "numeric" }),
  time: (at) => at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }),
  time_secs: (at) => at.toLocaleTimeString(),
  ago: (at) => ago((Date.now() - at.getTime()) / 1000),
};

// A time in the reader's time zone, formatted by Slack's tokens such as {date_short} and {time}.
export function date(seconds, format, target, fallback) {
  const at = new Date(seconds * 1000);
  if (Number.isNaN(at.getTime())) return fallback;
  const text = format.replace(/\{(\w+?)(?:_pretty)?\}/g, (whole, part) =>
    Object.hasOwn(DATE_PARTS, part) ? DATE_PARTS[part](at) : whole,
  );
  const shown = element("time", { datetime: at.toISOString(), title: fallback || at.toLocaleString() }, text);
  return target ? link(unescape(target), shown) : shown;
}

function ago(seconds) {
  const units = [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
    ["second", 1],
  ];
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
  return new Intl.RelativeTimeFormat(undefined, { numeric: "auto" }).format(-Math.round(seconds / length), unit);
}
