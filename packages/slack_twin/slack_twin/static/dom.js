// All elements are created here, never from markup: text of messages only becomes text nodes with visible characters.

// Controls, bidi controls, zero-width characters, fillers, tags and selectors, except the joiners and styles of emoji.
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

// Appends children, including lists and conditions: null, undefined and false are skipped.
export const present = (children) =>
  [children].flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

// Creates a link if the address is on the web; any other address stays text.
export function link(target, ...children) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return element("span", {}, ...children);
  return element("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

export const byId = (id) => document.getElementById(id);
