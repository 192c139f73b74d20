// The avatar of a person or an app: an initial on a colour.

import { element } from "../dom.js";

const HUES = 8;

export function avatar(user, size = "") {
  const initial = [...(user?.display_name || user?.name || "?")][0].toUpperCase();
  const hue = [...(user?.id ?? "")].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % HUES, 7);
  const shape = user?.is_bot ? "bot" : `hue-${hue}`;
  return element("span", {
    class: `avatar ${shape} ${size}`,
    "data-initial": user?.is_bot ? "◆" : initial, // drawn by the style, since it is no part of a button's name
    "aria-hidden": "true",
  });
}
