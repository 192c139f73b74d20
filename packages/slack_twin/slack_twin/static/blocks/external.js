// Menus with options from their app for the typed text.

import { OptionList } from "../compose/options.js";
import { element } from "../dom.js";
import { chips } from "./chips.js";
import { begin, entry, isMany, tell } from "./chosen.js";
import { plain } from "./words.js";

const WAIT_MILLISECONDS = 250; // between the last key and the request to the app
const LEAST_CHARACTERS = 3; // Slack's default

let made = 0;

export function externalSelect(block, value, kit) {
  const { list, typed } = fields(value);
  const { box, add } = isMany(value) ? many(block, value, kit) : one(block, value, kit, typed);
  const options = new OptionList(list, typed, ({ option }) => {
    add(option);
    typed.value = isMany(value) ? "" : plain(option.text);
    options.close();
  });
  const offer = async () => {
    const asked = typed.value;
    if (asked.length < (value.min_query_length ?? LEAST_CHARACTERS)) return options.close();
    const found = await kit.options(block, value, asked);
    if (typed.value !== asked) return null; // the typed text has changed in the meantime
    return options.show(found.map((option) => ({ option, draw: () => [plain(option.text)] })));
  };
  let waiting = 0;
  typed.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(offer, WAIT_MILLISECONDS);
  });
  typed.addEventListener("keydown", (event) => options.steer(event));
  typed.addEventListener("blur", () => options.close());
  box.append(typed, list);
  return box;
}

function fields(value) {
  const id = `external-${++made}`;
  const placeholder = plain(value.placeholder) || "Type to search…";
  const list = element("ul", { id, class: "options", role: "listbox", "aria-label": placeholder, hidden: true });
  const about = { role: "combobox", "aria-controls": id, "aria-label": placeholder, autocomplete: "off" };
  return { list, typed: element("input", { type: "text", placeholder, ...about }) };
}

function one(block, value, kit, typed) {
  typed.value = plain(begin(block, value, kit)?.text);
  return { box: element("div", { class: "multi" }), add: (option) => tell(block, value, kit, option) };
}

function many(block, value, kit) {
  return chips({
    chosen: begin(block, value, kit) ?? [],
    keyOf: (option) => entry(option).value,
    textOf: (option) => entry(option).text,
    change: (now) => tell(block, value, kit, now),
    most: value.max_selected_items,
  });
}
