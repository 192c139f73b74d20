// An edit field in place of a message. Enter saves, Escape cancels.

import { element } from "../dom.js";

// `done()` is called when the field is removed, because changes in the meantime were not drawn.
export function startEdit(article, text, save, done) {
  const content = article.querySelector(".content");
  if (!content || content.querySelector(".editing")) return;
  const before = [...content.childNodes];
  const field = element("textarea", { class: "editing", "aria-label": "Edit the message" });
  const finish = () => {
    content.replaceChildren(...before);
    done();
  };
  const submit = async () => {
    if (await save(field.value)) finish();
  };
  field.value = text;
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      finish();
      article.focus();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  content.replaceChildren(
    field,
    element(
      "div",
      { class: "edit-foot" },
      element("button", { type: "button", class: "kit", onclick: finish }, "Cancel"),
      element("button", { type: "button", class: "kit primary", onclick: submit }, "Save"),
      element("small", {}, "Enter saves, Escape cancels"),
    ),
  );
  field.focus();
  field.setSelectionRange(text.length, text.length);
}
