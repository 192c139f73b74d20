// Elements are made here and nowhere from markup: text from messages only ever becomes text nodes, and visible ones.

// Controls, bidi controls, zero widths, fillers, tags and selectors; not the joiners and styles that emoji need.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f" +
    "\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\u{e0000}-\\u{e0fff}]",
  "gu",
);

export const visible = (text) => text.replace(/[\u2028\u2029]/g, "\n").replace(HIDDEN, "");

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...present(children).map((child) => (typeof child === "string" ? visible(child) : child)));
  return made;
}

// Children as given, lists and conditions included: what is null, undefined or false is left out.
export const present = (children) =>
  [children].flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

// A link that can only lead to the web; anything else stays text.
export function link(target, ...children) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return element("span", {}, ...children);
  return element("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

export const byId = (id) => document.getElementById(id);
