// The page's own messages: errors, and the state of the connection to the twin.

import { byId } from "../dom.js";

const SHOWN_MILLISECONDS = 2500;

// Shows an error; an empty text removes it.
export function tell(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

// Runs a request; shows its error instead of throwing it. Resolves to true on success.
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
