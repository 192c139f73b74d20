// Completions while typing: people and apps after @, channels after #, emoji after :, commands after a leading /.

import { element } from "../dom.js";
import { avatar } from "../message/avatar.js";
import { emoji, emojiNamed } from "../text/emoji.js";

const MOST = 8;
const BEGUN = /(^|[\s(])([@#:]|^\/)([\w.+\-]*)$/;

// Takes {roster, channel} and the text before the cursor; returns {typed, options}, or null. Options have the text to
// insert.
export function completion(before, { roster, channel }) {
  const found = BEGUN.exec(before);
  if (!found) return null;
  const [, , sign, typed] = found;
  const options = OFFERS[sign](typed.toLowerCase(), roster, channel);
  return options.length ? { typed, options: options.slice(0, MOST) } : null;
}

const OFFERS = { "@": people, "#": channels, "/": commands, ":": emojis };

const sign = (text) => element("span", { class: "sign" }, text);

const EVERYBODY = [
  ["here", "Notifies everyone who is online"],
  ["channel", "Notifies everyone in this channel"],
];

// Members come first, followed by everyone else; apps rank like people.
function people(part, roster, channel) {
  const members = new Set(roster.members(channel).map((one) => one.id));
  const known = roster.people().filter((one) => one.id !== roster.me && one.id !== "USLACKBOT" && matches(one, part));
  known.sort((one, other) => Number(members.has(other.id)) - Number(members.has(one.id)));
  return [
    ...known
      .filter((one) => part || members.has(one.id))
      .map((one) => ({
        text: one.name,
        draw: () =>
          [
            avatar(one, "small"),
            element("strong", {}, one.name),
            one.is_bot
              ? element("span", { class: "badge" }, "APP")
              : element("span", { class: "quiet" }, one.real_name ?? ""),
            !members.has(one.id) && element("small", {}, "not in this channel"),
          ].filter(Boolean),
      })),
    ...EVERYBODY.filter(([name]) => part && name.startsWith(part)).map(([name, about]) => ({
      text: name,
      draw: () => [sign("📣"), element("strong", {}, name), element("small", {}, about)],
    })),
  ];
}

const matches = (one, part) =>
  one.name.toLowerCase().startsWith(part) || (part && (one.display_name ?? "").toLowerCase().startsWith(part));

function channels(part, roster) {
  return roster
    .channels()
    .filter((one) => one.name.toLowerCase().startsWith(part) && one.name)
    .map((one) => ({
      text: one.name,
      draw: () => [sign("#"), element("strong", {}, one.name), element("small", {}, one.topic)],
    }));
}

function commands(part, roster) {
  return roster.apps
    .flatMap((app) => (app.commands ?? []).map((one) => ({ ...one, app: app.name })))
    .filter((one) => one.command.slice(1).startsWith(part))
    .map((one) => ({
      text: one.command.slice(1),
      draw: () => [
        sign("/"),
        element("strong", {}, one.command.slice(1)),
        element("span", { class: "quiet" }, one.usage_hint ?? ""),
        element("small", {}, one.description || one.app),
      ],
    }));
}

function emojis(part) {
  if (part.length < 2) return [];
  return emojiNamed(part).map((name) => ({
    text: `${name}:`,
    draw: () => [sign(emoji(name)), element("strong", {}, `:${name}:`)],
  }));
}
