// Input fields: text, numbers, dates and times, files.

import { upload } from "../api.js";
import { element } from "../dom.js";
import { plain } from "./words.js";

const KINDS = {
  email_text_input: "email",
  url_text_input: "url",
  datepicker: "date",
  timepicker: "time",
  datetimepicker: "datetime-local",
};

export function textField(block, value, kit) {
  const initial = value.type === "rich_text_input" ? null : value.initial_value;
  const begun = kit.form.begin(block, value, initial && { value: initial });
  const about = { placeholder: plain(value.placeholder), maxlength: value.max_length, minlength: value.min_length };
  const large = value.multiline || value.type === "rich_text_input";
  const made = large
    ? element("textarea", { rows: "4", ...about })
    : element("input", { type: KINDS[value.type] ?? "text", ...about });
  made.value = begun?.typed ?? begun?.value ?? "";
  made.addEventListener("input", () => kit.form.set(block, value, typed(value, made.value)));
  dispatch(made, block, value, kit, () => typed(value, made.value));
  return made;
}

// Rich text from this page has no styles.
function typed(value, text) {
  if (value.type !== "rich_text_input") return { value: text || null };
  const elements = [{ type: "rich_text_section", elements: text ? [{ type: "text", text }] : [] }];
  return { rich_text_value: { type: "rich_text", elements }, typed: text };
}

// Slack notifies an app on Enter, or on each character, according to `dispatch_action_config`.
function dispatch(made, block, value, kit, told) {
  if (kit.silent) return;
  const when = value.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
  if (when.includes("on_character_entered")) made.addEventListener("input", () => kit.act(block, value, told()));
  if (when.includes("on_enter_pressed")) {
    made.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      kit.act(block, value, told());
    });
  }
}

export function numberField(block, value, kit) {
  const begun = kit.form.begin(block, value, value.initial_value && { value: value.initial_value });
  const made = element("input", {
    type: "number",
    step: value.is_decimal_allowed ? "any" : "1",
    min: value.min_value,
    max: value.max_value,
    placeholder: plain(value.placeholder),
  });
  made.value = begun?.value ?? "";
  made.addEventListener("input", () => kit.form.set(block, value, { value: made.value || null }));
  dispatch(made, block, value, kit, () => ({ value: made.value || null }));
  return made;
}

const DATES = {
  datepicker: {
    initial: (value) => value.initial_date,
    told: (text) => ({ selected_date: text || null }),
    shown: (begun) => begun.selected_date,
  },
  timepicker: {
    initial: (value) => value.initial_time,
    told: (text) => ({ selected_time: text || null }),
    shown: (begun) => begun.selected_time,
  },
  datetimepicker: {
    initial: (value) => value.initial_date_time && local(value.initial_date_time),
    told: (text) => ({ selected_date_time: text ? Math.floor(new Date(text).getTime() / 1000) : null }),
    shown: (begun) => begun.selected_date_time && local(begun.selected_date_time),
  },
};

// Converts seconds since 1970 for a field with local date and time.
function local(seconds) {
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function dateField(block, value, kit) {
  const { initial, told, shown } = DATES[value.type];
  const start = initial(value);
  const begun = kit.form.begin(block, value, start && told(start));
  const made = element("input", { type: KINDS[value.type], "aria-label": plain(value.placeholder) || null });
  made.value = (begun && shown(begun)) || "";
  made.addEventListener("change", () => {
    kit.form.set(block, value, told(made.value));
    if (!kit.silent) kit.act(block, value, told(made.value));
  });
  return made;
}

export function fileField(block, value, kit) {
  const accept = (value.filetypes ?? []).map((type) => "." + type).join(",");
  const made = element("input", { type: "file", multiple: (value.max_files ?? 10) > 1, accept: accept || null });
  made.addEventListener("change", async () => {
    const files = await Promise.all([...made.files].map((file) => upload(kit.names.person(kit.names.me).name, file)));
    kit.form.set(block, value, { files });
  });
  return made;
}
