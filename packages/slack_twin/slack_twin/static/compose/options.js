// A list of options for the keyboard, while the focus stays in the text field.

import { element } from "../dom.js";

export class OptionList {
  // `take(option)` receives the selected option; options are {key, draw()} with any additional fields.
  constructor(list, field, take) {
    this.list = list;
    this.field = field;
    this.take = take;
    this.options = [];
    this.at = 0;
  }

  get isOpen() {
    return this.options.length > 0;
  }

  show(options) {
    this.options = options;
    this.at = 0;
    this.list.hidden = !options.length;
    this.list.replaceChildren(...options.map((option, place) => this.draw(option, place)));
    this.mark();
  }

  close() {
    this.show([]);
  }

  draw(option, place) {
    const choose = (event) => {
      event.preventDefault();
      this.take(option);
    };
    return element(
      "li",
      { role: "option", id: `${this.list.id}-${place}`, onmousedown: choose, onmousemove: () => this.move(place) },
      option.draw(),
    );
  }

  move(place) {
    if (place === this.at) return;
    this.at = place;
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((child, place) => child.setAttribute("aria-selected", String(place === this.at)));
    if (!this.isOpen) return this.field.removeAttribute("aria-activedescendant");
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
    return this.field.setAttribute("aria-activedescendant", `${this.list.id}-${this.at}`);
  }

  // Handles a key; returns whether the list used it.
  steer(event, { tab = false } = {}) {
    if (!this.isOpen || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.move((this.at + step + this.options.length) % this.options.length);
    else if (event.key === "Enter" || (tab && event.key === "Tab")) this.take(this.options[this.at]);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}
