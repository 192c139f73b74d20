// The selected values of menus in Slack's state, and their initial values.

import { plain } from "./words.js";

const SINGULAR = {
  users: "user",
  channels: "channel",
  conversations: "conversation",
  static: "option",
  external: "option",
};

export const isMany = (value) => value.type.startsWith("multi_");
export const kindOf = (value) => value.type.replace("multi_", "").replace("_select", "");
const nameOf = (value) => SINGULAR[kindOf(value)] + (isMany(value) ? "s" : "");
const keyOf = (value) => `selected_${nameOf(value)}`;

// Menus of people and channels contain ids, other menus complete options: here both are {value, text, given}.
export function entry(given) {
  if (typeof given === "string") return { value: given, text: given, given };
  return { value: given.value, text: plain(given.text), given };
}

// The initial value of a menu, or its current selection.
export function begin(block, value, kit) {
  const initial = value[`initial_${nameOf(value)}`];
  return kit.form.begin(block, value, initial && { [keyOf(value)]: initial })?.[keyOf(value)];
}

export function tell(block, value, kit, chosen) {
  const told = { [keyOf(value)]: chosen };
  kit.form.set(block, value, told);
  if (!kit.silent) kit.act(block, value, told);
}
