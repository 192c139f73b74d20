// Elements are made here and nowhere from markup: text from messages only ever becomes text nodes.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...present(children));
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
