// Files for a message: chosen, dropped or pasted, uploaded immediately, shared with the message.

import * as api from "../api.js";
import { element } from "../dom.js";
import { size } from "../message/files.js";

export class Uploads {
  // `owner()` returns the uploading person; `fail(message)` reports errors.
  constructor({ list, owner, fail }) {
    Object.assign(this, { list, owner, fail });
    this.files = [];
  }

  get isEmpty() {
    return !this.files.length;
  }

  add(files) {
    for (const file of files) {
      const one = { file, done: api.upload(this.owner(), file) };
      one.chip = this.chip(one);
      one.done.then(
        () => one.chip.removeAttribute("aria-busy"),
        (error) => {
          one.failed = true;
          this.fail(`${file.name}: ${error.message}`);
          this.drop(one);
        },
      );
      this.files.push(one);
    }
    this.draw();
  }

  chip(one) {
    return element(
      "li",
      { class: "file", "aria-busy": "true" },
      element(
        "span",
        { class: "file-name" },
        element("strong", {}, one.file.name),
        element("small", {}, size(one.file.size)),
      ),
      element(
        "button",
        { type: "button", class: "icon", "aria-label": `Remove ${one.file.name}`, onclick: () => this.drop(one) },
        "✕",
      ),
    );
  }

  drop(one) {
    this.files = this.files.filter((other) => other !== one);
    this.draw();
  }

  draw() {
    this.list.hidden = this.isEmpty;
    this.list.replaceChildren(...this.files.map((one) => one.chip));
  }

  // Removes and returns all files of the list.
  take() {
    const { files } = this;
    this.clear();
    return files;
  }

  putBack(files) {
    this.files = [...files.filter((one) => !one.failed), ...this.files];
    this.draw();
  }

  clear() {
    this.files = [];
    this.draw();
  }
}

// Accepts dropped files on `pane`, which highlights the drop area.
export function takeDrops(pane, uploads) {
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  pane.addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    pane.classList.add("dropping");
  });
  pane.addEventListener(
    "dragleave",
    (event) => !pane.contains(event.relatedTarget) && pane.classList.remove("dropping"),
  );
  pane.addEventListener("drop", (event) => {
    pane.classList.remove("dropping");
    if (!carries(event)) return;
    event.preventDefault();
    uploads.add(event.dataTransfer.files);
  });
}
