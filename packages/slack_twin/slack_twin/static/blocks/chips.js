// Several selected values in a row, each with a button to remove it.

import { element } from "../dom.js";

// `chosen` are the initial values, `keyOf` identifies a value, `textOf` returns its text, `change(now)` receives each
// change. Returns the box, to which a menu can be added, and `add`.
export function chips({ chosen, keyOf, textOf, change, most = Infinity }) {
  const list = element("span", { class: "chips" });
  let now = [...chosen];
  const draw = () => list.replaceChildren(...now.map(chip));
  const set = (next) => {
    now = next;
    draw();
    change(now);
  };
  function chip(given) {
    const label = `Remove ${textOf(given)}`;
    const remove = () => set(now.filter((one) => one !== given));
    return element(
      "button",
      { type: "button", class: "chip", "aria-label": label, onclick: remove },
      textOf(given),
      " ✕",
    );
  }
  const add = (given) => {
    const isKnown = now.some((one) => keyOf(one) === keyOf(given));
    if (!isKnown && now.length < most) set([...now, given]);
  };
  draw();
  return { box: element("div", { class: "multi" }, list), add };
}
