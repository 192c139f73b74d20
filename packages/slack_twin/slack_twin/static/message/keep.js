// Keeps the reader's state when an element is redrawn: opened parts and the focus.

const STOPS = "a, button, input, select, summary, textarea, pre";

// Replaces `before` with `made` using `swap`, and restores the reader's state.
export function keepState(before, made, swap) {
  for (const part of before.querySelectorAll("details[data-keep]")) {
    const same = made.querySelector(`details[data-keep="${CSS.escape(part.dataset.keep)}"]`);
    if (same && part.dataset.touched) Object.assign(same, { open: part.open });
    if (same && part.dataset.touched) same.dataset.touched = "true";
  }
  const focused = document.activeElement;
  const place = before === focused ? -1 : [...before.querySelectorAll(STOPS)].indexOf(focused);
  const selection =
    focused.selectionStart !== undefined && place >= 0 ? [focused.selectionStart, focused.selectionEnd] : null;
  swap();
  if (before === focused) made.focus({ preventScroll: true });
  const again = place >= 0 ? made.querySelectorAll(STOPS)[place] : null;
  again?.focus({ preventScroll: true });
  if (selection && again?.setSelectionRange && selection[0] !== null) again.setSelectionRange(...selection);
}

// A part that the reader opened or closed keeps its state; untouched parts follow the message.
document.addEventListener("click", (event) => {
  const part = event.target.closest?.("summary")?.parentElement;
  if (part?.dataset.keep) part.dataset.touched = "true";
});
