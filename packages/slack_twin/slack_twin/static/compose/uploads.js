// Files for a message: chosen, dropped or pasted, uploaded immediately, shared with the message.

import * as api from "../api.js";
import { element } from "../dom.js";
import { size } from "../message/files.js";

export class Uploads {
  // `owner()` returns the uploading person; `fail(message)` reports errors.
  constructor({ list, owner, fail }) {
    Object.assign(this, { list, owner, fail });
    this.files = [];
    this.table = undefined; // the rows of a pasted table
  }

  get isEmpty() {
    return !this.files.length && !this.table;
  }

  // Keeps a pasted table for the message.
  hold(rows) {
    this.table = rows;
    this.draw();
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
      kindOf(one),
      removal(one.file.name, () => this.drop(one)),
    );
  }

  tableChip() {
    const name = `Table, ${this.table.length} rows`;
    return element("li", { class: "file" }, element("strong", {}, name), removal(name, () => this.hold(undefined)));
  }

  drop(one) {
    this.files = this.files.filter((other) => other !== one);
    this.draw();
  }

  draw() {
    this.list.hidden = this.isEmpty;
    this.list.replaceChildren(...this.files.map((one) => one.chip), ...(this.table ? [this.tableChip()] : []));
  }

  // Removes and returns all files of the list.
  take() {
    const { files } = this;
    this.clear();
    return files;
  }

  putBack(files, table) {
    this.table ??= table;
    this.files = [...files.filter((one) => !one.failed), ...this.files];
    this.draw();
  }

  clear() {
    this.table = undefined;
    this.files = [];
    this.draw();
  }
}

const removal = (name, onclick) =>
  element("button", { type: "button", class: "icon", "aria-label": `Remove ${name}`, onclick }, "✕");

const KINDS = {
  file: ["File"],
  voice: ["Voice clip", "transcript"],
  video: ["Video clip", "transcript"],
  email: ["E-mail", "subject", "from"],
  connect: ["Slack Connect"],
};

// A menu for the kind of a file, and the fields of the chosen kind.
function kindOf(one) {
  const options = Object.entries(KINDS).map(([value, [name]]) => element("option", { value }, name));
  const fields = element("span", {});
  const field = (name) =>
    element("input", { "aria-label": name, placeholder: name, oninput: (typed) => (one.kind[name] = typed.target.value) });
  const change = () => {
    one.kind = { kind: menu.value };
    fields.replaceChildren(...KINDS[menu.value].slice(1).map(field));
  };
  const menu = element("select", { "aria-label": `Kind of ${one.file.name}`, onchange: change }, options);
  return [menu, fields];
}

// An uploaded file as the message names it.
export const described = async (one) => ({ id: (await one.done).id, ...one.kind });

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
