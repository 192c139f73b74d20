// A small menu next to the button that opened it. Arrow keys move the focus; Escape and a click outside close it.

import { element } from "../dom.js";

const MARGIN = 8; // distance in pixels to the edge of the window

// `entries` are {text, about?, act}; an entry that is an element is shown unchanged.
export function menu(opener, entries, { label = "Menu", className = "" } = {}) {
  const box = element("div", { class: `menu-box ${className}`, popover: "auto", role: "menu", "aria-label": label });
  box.append(...entries.map((entry) => (entry instanceof Node ? entry : item(entry, box))));
  document.body.append(box);
  box.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    box.remove();
    opener.setAttribute("aria-expanded", "false");
    if (document.activeElement === document.body) opener.focus();
  });
  box.addEventListener("keydown", (event) => steer(event, box));
  box.showPopover();
  opener.setAttribute("aria-expanded", "true");
  place(box, opener);
  box.querySelector("[role=menuitem], input, button")?.focus();
  return box;
}

function item({ text, about, act, checked }, box) {
  const made = element(
    "button",
    {
      type: "button",
      role: checked === undefined ? "menuitem" : "menuitemradio",
      "aria-checked": checked === undefined ? null : String(checked),
    },
    element("span", {}, text),
    about && element("small", {}, about),
  );
  made.addEventListener("click", () => {
    box.hidePopover();
    act();
  });
  return made;
}

function place(box, opener) {
  const anchor = opener.getBoundingClientRect();
  const below = anchor.bottom + box.offsetHeight + MARGIN < innerHeight;
  box.style.left = `${Math.max(MARGIN, Math.min(anchor.left, innerWidth - box.offsetWidth - MARGIN))}px`;
  box.style.top = `${below ? anchor.bottom + 4 : Math.max(MARGIN, anchor.top - box.offsetHeight - 4)}px`;
}

function steer(event, box) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const stops = [...box.querySelectorAll("button, a, input")];
  stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length]?.focus();
}
