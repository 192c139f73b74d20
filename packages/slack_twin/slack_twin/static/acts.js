// A person's actions on messages: post, edit, delete, react, and use interactive elements.

import * as api from "./api.js";
import { formOf, plainOf } from "./blocks/form.js";
import { byId } from "./dom.js";
import { askForward, choose } from "./frame/dialogs.js";
import { attempt, connection, tell } from "./frame/notice.js";
import { startEdit } from "./message/editing.js";

const IS_COMMAND = /^\/[a-z]/i;

export function acts(desk) {
  const user = () => desk.me.name;
  const about = (message) => ({ user: user(), channel: message.channel, ts: message.ts });

  return {
    openThread: (root) => desk.openThread(root),
    say: ({ text, files, table, place }) =>
      IS_COMMAND.test(text)
        ? runCommand(user(), place, text)
        : attempt(api.post({ user: user(), channel: place, text, files, table })),
    reply: (said) => sendReply(desk, said),
    react: (message, name, remove) => attempt(api.react({ ...about(message), name, remove })),
    edit: (message) => edit(desk, message),
    editLast: (timeline) => {
      const own = [...timeline.messages.values()]
        .filter((message) => message.user === desk.me.id && !message.subtype)
        .at(-1);
      if (own) edit(desk, own);
    },
    remove: async (message) => {
      const isSure = await choose({
        title: "Delete this message?",
        text: "It will be deleted for everyone.",
        yes: "Delete",
        danger: true,
      });
      return isSure && attempt(api.remove(about(message)));
    },
    forward: async (message) => {
      const chosen = await askForward(desk.roster);
      const forward = { channel: message.channel, ts: message.ts };
      return chosen && attempt(api.post({ user: user(), ...chosen, forward }));
    },
    copyLink: async (message) => {
      await navigator.clipboard.writeText(permalink(message));
      connection("The link was copied to the clipboard.", { fades: true });
    },
    stop: (message) => stopThread(desk, message.thread_ts ?? message.ts),
    stopThread: (thread_ts) => stopThread(desk, thread_ts),
    kitOf: (message) => kitOf(desk, message),
  };
}

const stopThread = (desk, thread_ts) => attempt(api.stop({ user: desk.me.name, channel: desk.current, thread_ts }));

function permalink(message) {
  const thread = message.thread_ts ? `?thread_ts=${message.thread_ts}` : "";
  return `${location.origin}/archives/${message.channel}/p${message.ts.replace(".", "")}${thread}`;
}

// `place` is the channel and the root of the thread: the open conversation may have changed during an upload.
async function sendReply(desk, { text, files, table, place }) {
  const [channel, thread_ts] = place.split(" ");
  if (isKnownCommand(desk.roster, text)) {
    tell("Commands work in the channel, not in a thread.");
    return false;
  }
  const broadcast = byId("broadcast").checked;
  const sent = await attempt(api.post({ user: desk.me.name, channel, text, files, table, thread_ts, broadcast }));
  if (sent) byId("broadcast").checked = false;
  return sent;
}

function isKnownCommand(roster, text) {
  const [first] = text.split(/\s/);
  return IS_COMMAND.test(text) && roster.apps.some((app) => app.commands.some((one) => one.command === first));
}

function runCommand(user, channel, typed) {
  const [, command, text] = /^(\/\S+)\s*([\s\S]*)$/.exec(typed);
  return attempt(api.command({ user, channel, command, text }).then(refuse));
}

function edit(desk, message) {
  const pane = desk.paneOf(message);
  const article = pane.article(message.ts);
  const save = (text) => attempt(api.edit({ user: desk.me.name, channel: message.channel, ts: message.ts, text }));
  if (article) startEdit(article, message.text, save, () => pane.refresh(message.ts));
}

// Reports an app that did not respond in time; the app reports its own errors.
function refuse(answer) {
  if (answer.ok === false) throw new Error(`The app did not accept this: ${answer.error ?? "no response within 3 s"}`);
  return answer;
}

// Returns the kit for the blocks of a message.
function kitOf(desk, message) {
  const where = { user: desk.me.name, channel: message.channel, ts: message.ts };
  return kit(desk, where, formOf(`${message.channel} ${message.ts}`), message.blocks);
}

// Returns the kit for a modal or a home tab; `errors` are by block.
export function kitOfView(desk, view, errors = {}) {
  return { ...kit(desk, { user: desk.me.name, view_id: view.id }, formOf(view.id), view.blocks), errors };
}

function kit(desk, where, form, blocks) {
  const about = (block, control) => ({ ...where, block_id: block.block_id, action_id: control.action_id });
  return {
    names: desk.roster,
    form,
    act: (block, control, value) => {
      form.set(block, control, value);
      return attempt(
        api.act({ ...about(block, control), value: plainOf(value), state: form.entered(blocks) }).then(refuse),
      );
    },
    options: async (block, control, typed) => {
      let found = [];
      await attempt(api.options({ ...about(block, control), value: typed }).then(({ options }) => (found = options)));
      return found;
    },
  };
}

export async function submitView(desk, view) {
  const answer = await api.act({
    user: desk.me.name,
    view_id: view.id,
    submit: true,
    state: formOf(view.id).entered(view.blocks),
  });
  return answer.errors ? answer : refuse(answer);
}

export const closeView = (desk, view) => api.act({ user: desk.me.name, view_id: view.id, close: true });
