// Questions in a dialog of the page: Escape says no, Enter yes.

import { element } from "../dom.js";

// Ask something; resolves to true for yes.
export function choose({ title, text, yes = "OK", no = "Cancel", danger = false }) {
  const confirm = element(
    "button",
    { type: "submit", value: "yes", class: danger ? "kit danger solid" : "kit primary" },
    yes,
  );
  const box = dialog(title, [
    element("p", {}, text),
    element(
      "form",
      { method: "dialog", class: "dialog-foot" },
      element("button", { type: "submit", value: "no", class: "kit", formnovalidate: true }, no),
      confirm,
    ),
  ]);
  confirm.focus();
  return new Promise((resolve) =>
    box.addEventListener("close", () => {
      box.remove();
      resolve(box.returnValue === "yes");
    }),
  );
}

// A dialog with a title, shown at once. Closing it is the caller's business, or Escape's.
export function dialog(title, content, { className = "" } = {}) {
  const before = document.activeElement;
  const box = element(
    "dialog",
    { class: `dialog ${className}`, "aria-label": title },
    title && element("h2", {}, title),
    content,
  );
  box.addEventListener("close", () => before?.isConnected && before.focus());
  document.body.append(box);
  box.showModal();
  return box;
}
