// Text objects: plain text with emoji, or mrkdwn.

import { emojiOrName } from "../text/emoji.js";
import { mrkdwn } from "../text/mrkdwn.js";

export function words(value, names) {
  if (typeof value === "string") return plain(value);
  const text = String(value?.text ?? "");
  return value?.type === "mrkdwn" ? mrkdwn(text, names) : plain(text);
}

export const plain = (value) =>
  String(value?.text ?? value ?? "").replace(/:([a-z0-9_+-]{1,60}):/g, (_, name) => emojiOrName(name));
