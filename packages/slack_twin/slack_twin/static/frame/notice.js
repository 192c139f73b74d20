// What the page has to say itself: refusals, and how the line to the twin is.

import { byId } from "../dom.js";

const SHOWN_MILLISECONDS = 2500;

// Show what went wrong; an empty text takes it away.
export function tell(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

// Do something with the twin; a refusal is shown instead of thrown. Resolves to whether it went well.
export async function attempt(doing) {
  try {
    await doing;
    tell("");
    return true;
  } catch (error) {
    tell(error.message);
    return false;
  }
}

let fading = 0;

export function connection(text, { fades = false } = {}) {
  clearTimeout(fading);
  byId("connection").textContent = text;
  byId("connection").hidden = !text;
  if (fades) fading = setTimeout(() => connection(""), SHOWN_MILLISECONDS);
}
