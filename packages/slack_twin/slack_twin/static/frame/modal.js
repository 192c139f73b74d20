// An app's modal: its blocks, the errors in its input, submitting and closing.

import { drawBlocks } from "../blocks/block.js";
import { forget, formOf } from "../blocks/form.js";
import { plain } from "../blocks/words.js";
import { element } from "../dom.js";
import { tell } from "./notice.js";

// `view` is Slack's view; `kitOf(view, errors)` returns the kit for its blocks; `submit(view, form)` and `close(view)`
// resolve to {errors?}. An update then shows another view, or none.
export class Modal {
  constructor({ kitOf, submit, close }) {
    Object.assign(this, { kitOf, submitView: submit, closeView: close });
    this.view = null;
    this.box = null;
  }

  show(view) {
    if (!view) return this.end();
    if (this.view && JSON.stringify(this.view) === JSON.stringify(view)) return null;
    if (this.view?.hash !== view.hash) this.errors = {};
    this.view = view;
    if (!this.box) this.open();
    return this.draw();
  }

  open() {
    this.before = document.activeElement;
    this.box = element("dialog", { class: "dialog modal" });
    this.box.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    document.body.append(this.box);
    this.box.showModal();
  }

  draw() {
    const { view } = this;
    const focus = this.box.contains(document.activeElement)
      ? document.activeElement.closest("[data-action]")?.dataset.action
      : null;
    const title = plain(view.title);
    this.box.setAttribute("aria-label", title);
    const form = element(
      "form",
      { class: "modal-form", novalidate: true },
      element(
        "header",
        { class: "bar" },
        element("h2", {}, title),
        element("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => this.close() }, "✕"),
      ),
      element("div", { class: "modal-body" }, drawBlocks(view.blocks, this.kitOf(view, this.errors ?? {}))),
      element(
        "footer",
        { class: "dialog-foot" },
        element("button", { type: "button", class: "kit", onclick: () => this.close() }, plain(view.close) || "Close"),
        view.submit && element("button", { type: "submit", class: "kit primary" }, plain(view.submit)),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.replaceChildren(form);
    const again = focus && this.box.querySelector(`[data-action="${CSS.escape(focus)}"]`);
    (
      again ??
      this.box.querySelector(".modal-body :is(input, textarea, select, button)") ??
      this.box.querySelector("[type=submit]")
    )?.focus();
  }

  async submit() {
    const { view } = this;
    const button = this.box.querySelector("[type=submit]");
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    try {
      const { errors } = await this.submitView(view, formOf(view.id));
      this.errors = errors ?? {};
    } catch (error) {
      tell(error.message);
      this.errors = {};
      this.complain(error.message);
    }
    if (this.view?.id === view.id && this.box) {
      if (Object.keys(this.errors).length) this.draw();
      this.box.querySelector("[aria-invalid]")?.focus();
      this.box.querySelector("[type=submit]")?.removeAttribute("aria-busy");
      if (button.isConnected) button.disabled = false;
    }
  }

  complain(message) {
    this.box.querySelector(".modal-body").prepend(element("p", { class: "alert error", role: "alert" }, message));
  }

  async close() {
    await this.closeView(this.view).catch((error) => tell(error.message));
  }

  end() {
    if (this.view) forget(this.view.id);
    this.view = null;
    this.errors = {};
    this.box?.remove();
    this.box = null;
    if (this.before?.isConnected) this.before.focus();
  }
}
