// Menus with static options, or with people and channels.

import { element } from "../dom.js";
import { chips } from "./chips.js";
import { begin, entry, kindOf, tell } from "./chosen.js";
import { plain } from "./words.js";

const person = (one) => ({ value: one.id, text: one.display_name || one.name, given: one.id });
const place = (names) => (one) => ({ value: one.id, text: (one.name ? "# " : "") + names.title(one), given: one.id });

// Groups of options, usually a single group without a label.
function groupsOf(value, names) {
  const kind = kindOf(value);
  if (kind === "users") return [{ entries: names.people().map(person) }];
  if (kind === "channels")
    return [
      {
        entries: names
          .channels()
          .filter((one) => one.name)
          .map(place(names)),
      },
    ];
  if (kind === "conversations") return [{ entries: names.channels().map(place(names)) }];
  const groups = value.option_groups ?? [{ options: value.options ?? [] }];
  return groups.map((group) => ({ label: plain(group.label), entries: group.options.map(entry) }));
}

function menuOf(value, kit) {
  const groups = groupsOf(value, kit.names);
  const placeholder = plain(value.placeholder) || "Choose…";
  const option = (one) => element("option", { value: one.value }, one.text);
  const drawn = groups.map(({ label, entries }) =>
    label ? element("optgroup", { label }, entries.map(option)) : entries.map(option),
  );
  const known = new Map(groups.flatMap(({ entries }) => entries).map((one) => [one.value, one]));
  const first = element("option", { value: "" }, placeholder);
  return { menu: element("select", { "aria-label": placeholder }, first, drawn), known };
}

export function select(block, value, kit) {
  const { menu, known } = menuOf(value, kit);
  const begun = begin(block, value, kit);
  menu.value = begun ? entry(begun).value : "";
  menu.addEventListener("change", () => tell(block, value, kit, known.get(menu.value)?.given ?? null));
  return menu;
}

// Menus with several values: the selected values precede the menu.
export function multiSelect(block, value, kit) {
  const { menu, known } = menuOf(value, kit);
  const { box, add } = chips({
    chosen: begin(block, value, kit) ?? [],
    keyOf: (given) => entry(given).value,
    textOf: (given) => (known.get(entry(given).value) ?? entry(given)).text,
    change: (now) => tell(block, value, kit, now),
    most: value.max_selected_items,
  });
  menu.addEventListener("change", () => {
    if (known.has(menu.value)) add(known.get(menu.value).given);
    menu.value = "";
  });
  box.append(menu);
  return box;
}
