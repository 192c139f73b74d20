// A box to write in: grows with its text, Enter sends, `@` and `#` offer names.

import { avatar } from "./message.js";
import { element } from "./dom.js";

const MOST_CHOICES = 8;
const MOST_HEIGHT = 220; // pixels, as in frame.css

// `choices()` gives {people, channels}; `send(text)` resolves when the text may be forgotten.
export function composer({ form, box, list, choices, send }) {
  let offered = [];
  let chosen = 0;

  const close = () => {
    offered = [];
    list.hidden = true;
    box.removeAttribute("aria-activedescendant");
  };

  const begun = () => /(^|\s)([@#])([\w.\-]*)$/.exec(box.value.slice(0, box.selectionStart));

  function offer() {
    const found = begun();
    if (!found) return close();
    const start = found[3].toLowerCase();
    const { people, channels } = choices();
    const known = found[2] === "@" ? people : channels;
    offered = known.filter((one) => one.name.toLowerCase().startsWith(start)).slice(0, MOST_CHOICES);
    chosen = 0;
    return offered.length ? draw(found[2]) : close();
  }

  function draw(sign) {
    list.hidden = false;
    list.replaceChildren(...offered.map((one, place) => choice(one, place, sign)));
    mark();
  }

  function choice(one, place, sign) {
    return element(
      "li",
      { role: "option", id: `${list.id}-${place}`, onmousedown: (event) => { event.preventDefault(); take(place); } },
      sign === "@" ? avatar(one, "small") : "#",
      element("strong", {}, one.name),
      one.is_bot && element("span", { class: "badge" }, "APP"),
    );
  }

  function mark() {
    [...list.children].forEach((child, place) => child.setAttribute("aria-selected", String(place === chosen)));
    box.setAttribute("aria-activedescendant", `${list.id}-${chosen}`);
  }

  function take(place) {
    const found = begun();
    if (found) {
      const end = box.selectionStart;
      box.setRangeText(`${offered[place].name} `, end - found[3].length, end, "end");
    }
    close();
    box.focus();
  }

  function grow() {
    box.style.height = "";
    if (box.value) box.style.height = `${Math.min(box.scrollHeight, MOST_HEIGHT)}px`;
  }

  const KEYS = {
    ArrowDown: () => { chosen = (chosen + 1) % offered.length; mark(); },
    ArrowUp: () => { chosen = (chosen + offered.length - 1) % offered.length; mark(); },
    Enter: () => take(chosen),
    Tab: () => take(chosen),
    Escape: close,
  };

  box.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (offered.length && KEYS[event.key]) {
      event.preventDefault();
      event.stopPropagation();
      KEYS[event.key]();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  box.addEventListener("input", () => { grow(); offer(); });
  box.addEventListener("blur", close);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = box.value;
    if (!text.trim()) return;
    box.value = "";
    grow();
    close();
    if (!(await send(text))) {
      box.value = text;
      grow();
    }
  });

  return {
    fill(text) { box.value = text; grow(); box.focus(); },
    clear() { box.value = ""; grow(); close(); },
  };
}
