// Confirmation dialogs of the page: Escape means no, Enter means yes.

import { element } from "../dom.js";

// Asks a question; resolves to true for yes.
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

// Asks where a message is to be forwarded to; resolves to {channel, text}, or to null.
export function askForward(roster) {
  const places = roster.channels().map((one) => element("option", { value: one.id }, roster.title(one)));
  const channel = element("select", { "aria-label": "Forward to" }, places);
  const text = element("input", { "aria-label": "Add a message", placeholder: "Add a message" });
  const answer = choose({ title: "Forward this message", text: [channel, text], yes: "Forward" });
  channel.focus();
  return answer.then((isSure) => (isSure ? { channel: channel.value, text: text.value } : null));
}

// Opens a dialog with a title. The caller or Escape closes it.
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
