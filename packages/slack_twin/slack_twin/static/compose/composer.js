// The message composer: grows with its text, sends on Enter, completes names, attaches files, keeps drafts.

import { completion } from "./completion.js";
import { OptionList } from "./options.js";
import { tableIn } from "./table.js";
import { Uploads, described, takeDrops } from "./uploads.js";

const MOST_HEIGHT = 240; // pixels, as in composer.css

export class Composer {
  // `parts` are the elements {form, box, list, files, attach, pick, pane}; `known()` returns {roster, channel};
  // `send({text, files, place})` resolves to true if the text may be discarded; `fail(message)` reports errors.
  constructor(parts, { known, send, fail, editLast = () => {} }) {
    Object.assign(this, parts, { known, send, editLast });
    this.place = "";
    this.sending = Promise.resolve();
    this.options = new OptionList(this.list, this.box, (option) => this.complete(option));
    this.uploads = new Uploads({ list: this.files, owner: () => known().roster.self.name, fail });
    this.listen();
    takeDrops(this.pane, this.uploads);
  }

  listen() {
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("input", () => {
      this.changed();
      this.offer();
    });
    this.box.addEventListener("blur", () => this.options.close());
    this.box.addEventListener("paste", (event) => this.paste(event));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.attach.addEventListener("click", () => this.pick.click());
    this.pick.addEventListener("change", () => {
      this.uploads.add(this.pick.files);
      this.pick.value = "";
      this.box.focus();
    });
  }

  // Pasted cells, as from a spreadsheet, become a table below the text; a pasted file is attached.
  paste(event) {
    const rows = tableIn(event.clipboardData);
    if (rows) event.preventDefault();
    if (rows) this.uploads.hold(rows);
    else if (event.clipboardData.files.length) this.uploads.add(event.clipboardData.files);
  }

  key(event) {
    if (event.isComposing || this.options.steer(event, { tab: true })) return;
    if (event.key === "Escape" && this.options.isOpen) {
      event.stopPropagation();
      this.options.close();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.form.requestSubmit();
    } else if (event.key === "ArrowUp" && !this.box.value && !event.altKey) {
      event.preventDefault();
      this.editLast();
    }
  }

  get before() {
    return this.box.value.slice(0, this.box.selectionStart);
  }

  offer() {
    const found = completion(this.before, this.known());
    if (found) this.options.show(found.options.map((option) => ({ ...option, typed: found.typed })));
    else this.options.close();
  }

  complete({ text, typed }) {
    const end = this.box.selectionStart;
    this.box.setRangeText(`${text} `, end - typed.length, end, "end");
    this.options.close();
    this.changed();
    this.box.focus();
  }

  // Messages are sent in the order of pressing Enter. An unsent message returns to the box.
  submit() {
    const text = this.box.value;
    if (!text.trim() && this.uploads.isEmpty) return;
    const { table } = this.uploads;
    const uploads = this.uploads.take();
    this.fill("", { focus: false });
    const place = this.place;
    this.sending = this.sending
      .then(() => this.sendNow(text, uploads, table, place))
      .then((isSent) => isSent || this.restore(place, text, uploads, table));
  }

  async sendNow(text, uploads, table, place) {
    const files = await Promise.all(uploads.map(described)).catch(() => null); // errors were reported already
    return Boolean(files) && this.send({ text, files, table, place });
  }

  restore(place, text, uploads, table) {
    if (place !== this.place) {
      sessionStorage.setItem(this.draftOf(place), text);
      return;
    }
    this.uploads.putBack(uploads, table);
    this.fill([text, this.box.value].filter(Boolean).join("\n"));
  }

  changed() {
    this.box.style.height = "";
    if (this.box.value) this.box.style.height = `${Math.min(this.box.scrollHeight, MOST_HEIGHT)}px`;
    this.form.classList.toggle("written", Boolean(this.box.value.trim()));
    if (this.box.value) sessionStorage.setItem(this.draft, this.box.value);
    else sessionStorage.removeItem(this.draft);
  }

  get draft() {
    return this.draftOf(this.place);
  }
  draftOf(place) {
    return `twin-draft ${this.known().roster.me} ${place}`;
  }

  // Switches to another conversation and restores its draft.
  enter(place) {
    if (place === this.place) return;
    this.place = place;
    this.uploads.clear();
    this.options.close();
    this.fill(sessionStorage.getItem(this.draft) ?? "", { focus: false });
  }

  fill(text, { focus = true } = {}) {
    this.box.value = text;
    this.changed();
    if (focus) this.box.focus();
  }
}
