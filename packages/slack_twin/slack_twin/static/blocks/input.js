// An input block: a label, its control, a hint, and its error.

import { element } from "../dom.js";
import { control } from "./controls.js";
import { plain } from "./words.js";

let made = 0;

export function input(block, kit) {
  const id = `input-${++made}`;
  const error = kit.errors?.[block.block_id];
  const field = control(block, block.element, { ...kit, silent: !block.dispatch_action });
  const isGroup = describe(field, { id, error });
  const optional = block.optional && element("span", { class: "quiet" }, " (optional)");
  const label = { id: `${id}-label`, class: "label", for: isGroup ? null : id };
  const about = { id: `${id}-about`, class: error ? "error" : "quiet", role: error ? "alert" : null };
  return element(
    "div",
    { class: error ? "input wrong" : "input", "data-block": block.block_id },
    element(isGroup ? "div" : "label", label, plain(block.label), optional),
    field,
    element("p", about, error ?? plain(block.hint ?? "")),
  );
}

// Connects a control with its label, hint and error. Returns whether it is a group of choices.
function describe(field, { id, error }) {
  const isGroup = field.matches("fieldset");
  const target = isGroup || field.matches("input, select, textarea") ? field : field.querySelector("input, select");
  if (!target) return isGroup;
  target.id = isGroup ? "" : id;
  target.removeAttribute("aria-label");
  target.setAttribute("aria-describedby", `${id}-about`);
  if (isGroup) target.setAttribute("aria-labelledby", `${id}-label`);
  if (error) target.setAttribute("aria-invalid", "true");
  return isGroup;
}
