// Check boxes and radio buttons.

import { element } from "../dom.js";
import { words } from "./words.js";

let groups = 0;

export function checkboxes(block, value, kit) {
  return group(block, value, kit, "checkbox", value.initial_options, (chosen) => ({ selected_options: chosen }));
}

export function radioButtons(block, value, kit) {
  return group(block, value, kit, "radio", value.initial_option && [value.initial_option], (chosen) => ({
    selected_option: chosen[0] ?? null,
  }));
}

function group(block, value, kit, type, initial, told) {
  const name = `group-${++groups}`;
  const options = value.options ?? [];
  const begun = kit.form.begin(block, value, initial?.length && told(initial));
  const chosen = new Set(
    (begun?.selected_options ?? [begun?.selected_option]).filter(Boolean).map((option) => option.value),
  );
  const made = element(
    "fieldset",
    { class: "choices-group" },
    options.map((option) => choice(option, { type, name, checked: chosen.has(option.value), names: kit.names })),
  );
  made.addEventListener("change", () => {
    const boxes = [...made.querySelectorAll("input")];
    const now = told(options.filter((_, place) => boxes[place].checked));
    kit.form.set(block, value, now);
    if (!kit.silent) kit.act(block, value, now);
  });
  return made;
}

function choice(option, { type, name, checked, names }) {
  const box = element("input", { type, name, value: option.value });
  box.checked = checked;
  const about = option.description && element("span", { class: "quiet" }, words(option.description, names));
  return element("label", { class: "choice" }, box, element("span", {}, words(option.text, names), about));
}
