// Formats Slack timestamps for people.

import { element } from "../dom.js";

const DAY_MILLISECONDS = 86_400_000;

export const moment = (ts) => new Date(Number(ts) * 1000);
export const clock = (ts) => moment(ts).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
export const sameDay = (one, other) => moment(one).toDateString() === moment(other).toDateString();

export function dayLine(ts) {
  return element("div", { class: "line day", role: "separator" }, element("span", {}, dayName(moment(ts))));
}

function dayName(day) {
  if (day.toDateString() === new Date().toDateString()) return "Today";
  if (day.toDateString() === new Date(Date.now() - DAY_MILLISECONDS).toDateString()) return "Yesterday";
  return day.toLocaleDateString([], { weekday: "long", month: "long", day: "numeric" });
}
