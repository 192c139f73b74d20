// The steps of an agent: task cards, alone or below the title of a plan.

import { element, link } from "../dom.js";
import { richText } from "./rich_text.js";
import { plain, words } from "./words.js";

const STATES = {
  pending: ["○", "waiting"],
  in_progress: ["", "in progress"],
  complete: ["✓", "done"],
  error: ["!", "failed"],
};

export function taskCard(task, kit) {
  const state = Object.hasOwn(STATES, task.status) ? task.status : "pending";
  const [sign, spoken] = STATES[state];
  const more = [part(task.details, kit), part(task.output, kit), sources(task.sources)].flat().filter(Boolean);
  const head = [
    element("span", { class: `task-sign ${state}`, role: "img", "aria-label": spoken }, sign),
    element("span", { class: "task-title" }, plain(task.title)),
  ];
  if (!more.length)
    return element("div", { class: "task", "data-status": state }, element("div", { class: "task-head" }, head));
  return element(
    "details",
    {
      class: "task",
      "data-status": state,
      "data-keep": `task-${task.task_id ?? task.id}`,
      open: state === "in_progress" || state === "error",
    },
    element("summary", { class: "task-head" }, head),
    element("div", { class: "task-more" }, more),
  );
}

export function plan(block, kit) {
  const tasks = block.tasks ?? [];
  const done = tasks.filter((task) => task.status === "complete").length;
  return element(
    "section",
    { class: "plan", "aria-label": plain(block.title) },
    element(
      "header",
      {},
      element("strong", {}, plain(block.title)),
      tasks.length > 0 && element("span", { class: "quiet" }, `${done} of ${tasks.length}`),
    ),
    tasks.length > 0 && element("progress", { max: tasks.length, value: done, "aria-label": "Progress" }),
    tasks.map((task) => taskCard(task, kit)),
  );
}

function part(value, kit) {
  if (!value) return null;
  return element(
    "div",
    { class: "task-part" },
    value.type === "rich_text"
      ? richText(value, kit.names)
      : words(typeof value === "string" ? { type: "mrkdwn", text: value } : value, kit.names),
  );
}

function sources(given) {
  if (!given?.length) return null;
  return element(
    "div",
    { class: "sources" },
    given.map((source) =>
      link(String(source.url ?? ""), element("span", { class: "source" }, plain(source.text ?? source.url))),
    ),
  );
}
