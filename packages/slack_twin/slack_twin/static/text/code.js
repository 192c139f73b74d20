// A block of code, with a button that copies it.

import { element } from "../dom.js";

export function codeBlock(text, language = "") {
  const about = { type: "button", class: "copy", "aria-label": "Copy code", title: "Copy" };
  const copy = element("button", about, "⧉");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "✓";
    copy.addEventListener(
      "blur",
      () => {
        copy.textContent = "⧉";
      },
      { once: true },
    );
  });
  return element(
    "div",
    { class: "code" },
    element("pre", { tabindex: "0", "aria-label": language ? `Code, ${language}` : "Code" }, element("code", {}, text)),
    language && element("span", { class: "language", "aria-hidden": "true" }, language),
    copy,
  );
}
