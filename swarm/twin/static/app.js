// The page: which conversation is open, what arrives in it, and what its reader does.

import * as api from "./api.js";
import { composer } from "./composer.js";
import { byId, element } from "./dom.js";
import { ReadMarks, drawPeople, drawSidebar, nameOf } from "./sidebar.js";
import { Timeline } from "./timeline.js";

const wanted = new URLSearchParams(location.search).get("user");

let people = new Map();
let channels = new Map();
let me = null;
let marks = null;
let current = null; // the id of the open channel
let thread = null; // the root of the open thread
const working = new Map(); // "channel thread_ts" -> {app, text}

const names = {
  get me() { return me?.id; },
  person: (id) => people.get(id),
  user: (id) => people.get(id)?.name ?? id,
  channel: (id) => channels.get(id)?.name || id,
};

const act = {
  openThread,
  react: (message, name, remove) => attempt(api.react({ user: me.name, channel: message.channel, ts: message.ts, name, remove })),
  edit: startEdit,
  remove: (message) => confirm("Delete this message?") && attempt(api.remove({ user: me.name, channel: message.channel, ts: message.ts })),
};

const context = () => ({ names, act });
const timeline = new Timeline(byId("log"), { context, empty: welcome });
const replies = new Timeline(byId("thread-log"), { context, empty: () => null, inThread: true });

const choices = () => {
  const members = channels.get(current)?.members ?? [];
  return { people: members.map((id) => people.get(id)).filter((one) => one && one !== me), channels: [...channels.values()].filter((one) => one.name) };
};
const box = composer({ form: byId("composer"), box: byId("text"), list: byId("choices"), choices, send: (text) => say(text) });
const replyBox = composer({
  form: byId("thread-composer"), box: byId("thread-text"), list: byId("thread-choices"), choices,
  send: async (text) => {
    const sent = await say(text, { thread_ts: thread, broadcast: byId("broadcast").checked });
    if (sent) byId("broadcast").checked = false;
    return sent;
  },
});

const say = (text, more = {}) => attempt(api.post({ user: me.name, channel: current, text, ...more }));

// Do something with the twin; a refusal is shown instead of thrown.
async function attempt(doing) {
  try {
    await doing;
    tell("");
    return true;
  } catch (error) {
    tell(error.message);
    return false;
  }
}

function tell(message) {
  byId("notice").textContent = message;
  byId("notice").hidden = !message;
}

// -- opening things --------------------------------------------------------------------------------------------------

async function load() {
  const state = await api.state(wanted);
  people = new Map(state.users.map((user) => [user.id, user]));
  channels = new Map(state.channels.map((channel) => [channel.id, channel]));
  me = people.get(state.me);
  marks ??= new ReadMarks(me.id);
  working.clear();
  for (const status of state.statuses) working.set(`${status.channel} ${status.thread_ts}`, status);
  drawPeople(state.users.filter((user) => !user.is_bot), me.id);
  const [channel, ts, root] = location.hash.slice(1).split("/");
  await openChannel(channels.has(channel) ? channel : [...channels.keys()].find((id) => channels.get(id).name) ?? [...channels.keys()][0]);
  if (root || thread) await openThread(root || thread);
  if (ts) (root ? replies : timeline).reveal(ts);
}

async function openChannel(id) {
  if (id !== current) {
    closeThread();
    box.clear();
  }
  current = id;
  const channel = channels.get(id);
  closeSidebar();
  if (!location.hash.startsWith(`#${id}`)) history.replaceState(null, "", `#${id}`);
  drawHead(channel);
  const messages = await api.messages(me.name, id);
  if (id !== current) return; // somebody was faster
  timeline.show(messages);
  marks.read(id, channel.latest);
  drawFrame();
}

function drawHead(channel) {
  const name = nameOf(channel, names);
  const app = channel.members.map((id) => people.get(id)).find((one) => one?.is_bot);
  byId("title").textContent = channel.name ? `# ${name}` : name;
  byId("topic").textContent = channel.topic || (channel.name ? "" : "Direct messages");
  byId("members").textContent = channel.name ? `${channel.members.length} members` : "";
  const example = app ? ` · try “${channel.name ? `@${app.name} ` : ""}hello”` : "";
  byId("text").placeholder = `Message ${channel.name ? "#" : ""}${name}${example}`;
  byId("text").setAttribute("aria-label", `Message ${name}`);
  document.title = `${channel.name ? "#" : ""}${name} · Twin`;
}

function drawFrame() {
  drawSidebar({ channels: [...channels.values()], current, marks, names, choose: openChannel });
  drawWorking();
}

async function openThread(root) {
  thread = root;
  byId("frame").classList.add("with-thread");
  byId("thread").hidden = false;
  byId("thread-place").textContent = byId("title").textContent;
  const messages = await api.messages(me.name, current, root);
  if (thread !== root) return;
  replies.show(messages);
  drawWorking();
  byId("thread-text").focus();
}

function closeThread() {
  thread = null;
  byId("thread").hidden = true;
  byId("frame").classList.remove("with-thread");
  replyBox.clear();
}

// What a newcomer sees in an empty channel: what to do, and a button that begins it.
function welcome() {
  const channel = channels.get(current);
  const app = channel?.members.map((id) => people.get(id)).find((one) => one?.is_bot);
  if (!app) return element("div", { class: "welcome" }, element("p", {}, "Nothing was said here yet."));
  const text = channel.name ? `@${app.name} hello` : "hello";
  return element(
    "div",
    { class: "welcome" },
    element("div", { class: "wave", "aria-hidden": "true" }, "👋"),
    element("h2", {}, `Say hello to ${app.name}`),
    element("p", {}, "Type ", element("kbd", {}, text), ` ${channel.name ? `in #${channel.name}` : "here"} and press Enter. The answer comes ${channel.name ? "in a thread below your message" : "here"}.`),
    element("button", { type: "button", class: "begin", onclick: () => box.fill(text) }, `Write “${text}” for me`),
  );
}

// What apps say they are doing: in the open thread, else in the open channel.
function drawWorking() {
  const here = [...working.values()].filter((status) => status.channel === current);
  const line = (statuses) => statuses.map(({ app, text }) => element("span", {}, element("i", { class: "dots", "aria-hidden": "true" }), `${app} ${text}`));
  byId("thread-working").replaceChildren(...line(here.filter((status) => status.thread_ts === thread)));
  byId("working").replaceChildren(...line(here.filter((status) => status.thread_ts !== thread)));
}

function startEdit(message) {
  const drawn = document.querySelector(`#${message.thread_ts === thread && thread ? "thread-log" : "log"} article[data-ts="${CSS.escape(message.ts)}"] .content`);
  const field = element("textarea", { class: "editing", "aria-label": "Edit the message" });
  field.value = message.text;
  field.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") finish();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (await attempt(api.edit({ user: me.name, channel: message.channel, ts: message.ts, text: field.value }))) finish();
  });
  const before = [...drawn.childNodes];
  const finish = () => drawn.replaceChildren(...before);
  drawn.replaceChildren(field, element("small", { class: "quiet" }, "Enter saves, Escape cancels"));
  field.focus();
}

// -- what arrives ----------------------------------------------------------------------------------------------------

const ARRIVALS = {
  posted: (update) => {
    const { message } = update;
    const isShown = !message.thread_ts || message.subtype === "thread_broadcast";
    if (update.channel === current) {
      if (isShown) timeline.put(message, { append: true });
      if (update.root) timeline.put(update.root, { append: false });
      if (thread && message.thread_ts === thread) replies.put(message, { append: true });
      if (thread && update.root?.ts === thread) replies.put(update.root, { append: false });
    }
    note(update, isShown);
  },
  changed: ({ channel, message }) => {
    if (channel !== current) return;
    timeline.put(message, { append: false });
    replies.put(message, { append: false });
  },
  deleted: ({ channel, message, root }) => {
    if (channel !== current) return;
    timeline.drop(message.ts);
    replies.drop(message.ts);
    if (root) timeline.put(root, { append: false });
    if (thread === message.ts) closeThread();
  },
  ephemeral: ({ channel, message }) => {
    if (channel !== current) return;
    if (!message.thread_ts) timeline.put(message, { append: true });
    else if (message.thread_ts === thread) replies.put(message, { append: true });
  },
  status: (status) => {
    const key = `${status.channel} ${status.thread_ts}`;
    if (status.text) working.set(key, status);
    else working.delete(key);
    drawWorking();
  },
  channels: () => load(),
  reload: () => load(),
};

// Keep the list of conversations up to date with what was just said.
function note({ channel: id, message, is_direct }, isShown) {
  const channel = channels.get(id);
  if (!channel) return load();
  if (isShown) channel.latest = message.ts;
  if (id === current && document.visibilityState === "visible") marks.read(id, message.ts);
  else if (message.user !== me.id) marks.add(id, is_direct || message.raw.includes(`<@${me.id}>`));
  return drawFrame();
}

function listen() {
  const stream = api.stream(me.name);
  let greeted = false;
  stream.onmessage = ({ data }) => {
    const update = JSON.parse(data);
    if (update.kind !== "hello") return ARRIVALS[update.kind](update);
    if (greeted) load(); // the stream was lost for a while: what came in between is missing here
    greeted = true;
    return tell("");
  };
  stream.onerror = () => tell("The twin cannot be reached; trying again…");
}

// -- the frame -------------------------------------------------------------------------------------------------------

function closeSidebar() {
  byId("frame").classList.remove("with-sidebar");
  byId("menu").setAttribute("aria-expanded", "false");
}

function step(direction) {
  const order = [...document.querySelectorAll("[data-channel]")].map((entry) => entry.dataset.channel);
  openChannel(order[(order.indexOf(current) + direction + order.length) % order.length]);
}

byId("menu").addEventListener("click", () => {
  const open = byId("frame").classList.toggle("with-sidebar");
  byId("menu").setAttribute("aria-expanded", String(open));
});
byId("veil").addEventListener("click", closeSidebar);
byId("close").addEventListener("click", closeThread);
byId("back").addEventListener("click", closeThread);
byId("person").addEventListener("change", (event) => {
  location.href = `/?user=${encodeURIComponent(event.target.value)}${location.hash.split("/")[0]}`;
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && current) {
    marks.read(current, channels.get(current)?.latest);
    drawFrame();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && thread) closeThread();
  if (event.altKey && event.key === "ArrowDown") step(1);
  if (event.altKey && event.key === "ArrowUp") step(-1);
});
window.addEventListener("hashchange", () => load());

try {
  await load();
  listen();
  byId("text").focus({ preventScroll: true });
  document.body.dataset.ready = "true";
} catch (error) {
  tell(error.message);
}
