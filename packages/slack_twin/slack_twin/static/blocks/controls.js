// All interactive elements of blocks.
// https://docs.slack.dev/reference/block-kit/block-elements

import { element } from "../dom.js";
import { button, feedbackButtons, iconButton, overflow, workflowButton } from "./buttons.js";
import { checkboxes, radioButtons } from "./choices.js";
import { externalSelect } from "./external.js";
import { dateField, fileField, numberField, textField } from "./fields.js";
import { image } from "./media.js";
import { multiSelect, select } from "./selects.js";

const CONTROLS = {
  button,
  checkboxes,
  channels_select: select,
  conversations_select: select,
  datepicker: dateField,
  datetimepicker: dateField,
  email_text_input: textField,
  external_select: externalSelect,
  feedback_buttons: feedbackButtons,
  file_input: fileField,
  icon_button: iconButton,
  image: (block, value, kit) => image(value, kit),
  multi_channels_select: multiSelect,
  multi_conversations_select: multiSelect,
  multi_external_select: externalSelect,
  multi_static_select: multiSelect,
  multi_users_select: multiSelect,
  number_input: numberField,
  overflow,
  plain_text_input: textField,
  radio_buttons: radioButtons,
  rich_text_input: textField,
  static_select: select,
  timepicker: dateField,
  url_text_input: textField,
  users_select: select,
  workflow_button: workflowButton,
};

export function control(block, value, kit) {
  const draw = Object.hasOwn(CONTROLS, value?.type) ? CONTROLS[value.type] : null;
  if (!draw) return element("em", { class: "quiet" }, `(${value?.type ?? "element"})`);
  const made = draw(block, value, kit);
  made.dataset.action = value.action_id ?? "";
  return made;
}
