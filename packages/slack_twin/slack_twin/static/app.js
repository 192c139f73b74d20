// The page: one window of one person in the workspace.

import { acts } from "./acts.js";
import { arrivals } from "./arrivals.js";
import { Desk } from "./desk.js";
import { byId } from "./dom.js";
import { attempt, connection, tell } from "./frame/notice.js";
import { openSwitcher } from "./frame/switcher.js";
import { applyTheme } from "./frame/theme.js";
import { listen } from "./live.js";

applyTheme();
const asked = new URLSearchParams(location.search);
const desk = new Desk(asked.get("as") ?? asked.get("user"), acts);

function closeSidebar() {
  byId("frame").classList.remove("with-sidebar");
  byId("menu").setAttribute("aria-expanded", "false");
}

function toggleSidebar() {
  const isOpen = byId("frame").classList.toggle("with-sidebar");
  byId("menu").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) document.querySelector(".entry[aria-current]")?.focus();
}

function step(direction) {
  const order = [...document.querySelectorAll("[data-channel]")].map((entry) => entry.dataset.channel);
  desk.open(order[(order.indexOf(desk.current) + direction + order.length) % order.length]);
}

const find = () =>
  openSwitcher({
    roster: desk.roster,
    unread: desk.unread,
    choose: (id) => desk.open(id).then(() => byId("text").focus()),
    startWith: (one) => desk.startWith(one),
  });

// Escape closes the innermost open element first; dialogs and menus handle Escape themselves.
function escape() {
  if (document.querySelector("dialog[open], :popover-open")) return;
  if (byId("frame").classList.contains("with-sidebar")) closeSidebar();
  else desk.closeThread();
}

// Opens a link to a message of this workspace in this window, as its person.
function follow(event) {
  const link = event.target.closest?.("a[href]");
  const found = /^\/archives\/(\w+)\/p(\d+)(\d{6})$/.exec(link?.pathname ?? "");
  if (!found || link.origin !== location.origin || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const [, channel, seconds, micros] = found;
  const root = new URLSearchParams(link.search).get("thread_ts") ?? "";
  location.hash = `${channel}/${seconds}.${micros}/${root}`.replace(/\/$/, "");
}

document.addEventListener("click", follow);
byId("menu").addEventListener("click", toggleSidebar);
byId("veil").addEventListener("click", closeSidebar);
byId("sidebar").addEventListener("click", (event) => event.target.closest("[data-channel]") && closeSidebar());
byId("find").addEventListener("click", find);
byId("close").addEventListener("click", () => desk.closeThread());
byId("back").addEventListener("click", () => desk.closeThread());
byId("to-end").addEventListener("click", () => desk.timeline.toEnd());
byId("log").addEventListener("scroll", () => {
  byId("to-end").hidden = desk.timeline.atEnd();
});
window.addEventListener("hashchange", () => attempt(desk.load()));
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible" || !desk.current) return;
  desk.markRead();
  desk.markThreadRead();
  desk.drawFrame();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") escape();
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) find();
  }
  if (event.altKey && event.key === "ArrowDown") step(1);
  if (event.altKey && event.key === "ArrowUp") step(-1);
});

if (navigator.platform.startsWith("Mac")) byId("find").querySelector("kbd").textContent = "⌘K";

try {
  await desk.load();
  listen(desk.me.name, {
    seen: () => desk.seen,
    arrive: arrivals(desk),
    lost: () => connection("Connection lost. Trying again…"),
    back: () => desk.load(),
    restored: () => connection("Connected again; everything is up to date.", { fades: true }),
  });
  byId("text").focus({ preventScroll: true });
  document.body.dataset.ready = "true";
} catch (error) {
  tell(error.message);
}
