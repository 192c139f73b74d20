// Buttons: plain buttons, feedback buttons, icons, and overflow menus.

import { element } from "../dom.js";
import { choose } from "../frame/dialogs.js";
import { menu } from "../frame/menu.js";
import { plain } from "./words.js";

const STYLES = new Set(["primary", "danger"]);

// Performs the action of a control, after its `confirm` dialog if there is one; the button is disabled in the meantime.
async function press(pressed, block, value, kit, told) {
  if (value.confirm && !(await choose(confirmation(value.confirm)))) return;
  pressed.setAttribute("aria-busy", "true");
  try {
    await kit.act(block, value, told);
  } finally {
    pressed.removeAttribute("aria-busy");
  }
}

const confirmation = ({ title, text, confirm, deny, style }) => ({
  title: plain(title),
  text: plain(text),
  yes: plain(confirm),
  no: plain(deny),
  danger: style === "danger",
});

export function button(block, value, kit) {
  const style = STYLES.has(value.style) ? value.style : "";
  const made = element(
    "button",
    { type: "button", class: `kit ${style}`, "aria-label": value.accessibility_label },
    plain(value.text),
  );
  made.addEventListener("click", () => {
    if (/^https?:\/\//i.test(value.url ?? "")) window.open(value.url, "_blank", "noopener,noreferrer");
    press(made, block, value, kit, { value: value.value });
  });
  return made;
}

export const workflowButton = (block, value) =>
  element(
    "button",
    { type: "button", class: "kit", disabled: true, title: "Workflows are not supported here" },
    plain(value.text),
  );

const ICONS = { trash: "🗑" };

export function iconButton(block, value, kit) {
  const label = value.accessibility_label ?? plain(value.text);
  const made = element(
    "button",
    { type: "button", class: "kit icon-kit", "aria-label": label, title: plain(value.text) },
    ICONS[value.icon] ?? plain(value.text),
  );
  if (value.visible_to_user_ids?.length && !value.visible_to_user_ids.includes(kit.names.me)) made.hidden = true;
  made.addEventListener("click", () => press(made, block, value, kit, { value: value.value }));
  return made;
}

// Feedback buttons; the pressed button stays marked.
export function feedbackButtons(block, value, kit) {
  const given = kit.form.get(block, value)?.value;
  const thumb = (about, sign) => {
    const made = element(
      "button",
      {
        type: "button",
        class: "kit icon-kit",
        "aria-label": about.accessibility_label ?? plain(about.text),
        title: plain(about.text),
        "aria-pressed": String(given === about.value),
      },
      sign,
    );
    made.addEventListener("click", async () => {
      await press(made, block, value, kit, { value: about.value });
      for (const one of made.parentElement.children) one.setAttribute("aria-pressed", String(one === made));
    });
    return made;
  };
  return element(
    "span",
    { class: "feedback", role: "group", "aria-label": "Feedback" },
    thumb(value.positive_button, "👍"),
    thumb(value.negative_button, "👎"),
  );
}

export function overflow(block, value, kit) {
  const made = element(
    "button",
    { type: "button", class: "kit icon-kit", "aria-label": "More actions", "aria-haspopup": "menu" },
    "⋯",
  );
  made.addEventListener("click", () =>
    menu(
      made,
      (value.options ?? []).map((option) => ({
        text: plain(option.text),
        about: plain(option.description ?? ""),
        act: () => {
          if (/^https?:\/\//i.test(option.url ?? "")) window.open(option.url, "_blank", "noopener,noreferrer");
          press(made, block, value, kit, { selected_option: option });
        },
      })),
    ),
  );
  return made;
}
