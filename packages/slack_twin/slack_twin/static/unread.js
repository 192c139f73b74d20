// What this person has not read yet: the twin keeps it, so that every window of theirs shows the same.

import * as api from "./api.js";

const TELL_MILLISECONDS = 250; // many messages are read with one mark
const NOTHING = { read: "", count: 0, loud: 0, latest: "" };
const FOR_EVERYBODY = /<!(here|channel|everyone)/;

export class Unread {
  constructor(roster) {
    this.roster = roster;
    this.channels = new Map(); // channel -> {read, count, loud, latest}
    this.threads = new Map(); // "channel root" -> {count, latest}
    this.readReplies = new Map(); // "channel root" -> up to where
    this.marks = new Map(); // what the twin has not been told yet
    window.addEventListener("pagehide", () => this.tell());
  }

  take(state) {
    const threads = ({ channel, threads }) =>
      Object.entries(threads).map(([root, count]) => [`${channel} ${root}`, { count, latest: "" }]);
    this.channels = new Map(state.unread.map(({ channel, ...waiting }) => [channel, { ...NOTHING, ...waiting }]));
    this.threads = new Map(state.unread.flatMap(threads));
    for (const mark of this.marks.values()) this.forget(mark);
  }

  of(channel) {
    return this.channels.get(channel) ?? NOTHING;
  }

  inThread(channel, root) {
    return this.threads.get(`${channel} ${root}`)?.count ?? 0;
  }

  // How many things in a conversation want its reader: mentions, direct messages, replies to them.
  badge(channel) {
    const replies = [...this.threads].filter(([key]) => key.startsWith(channel + " ")).map(([, { count }]) => count);
    return replies.reduce((sum, count) => sum + count, this.of(channel).loud);
  }

  total() {
    return [...this.channels.keys()].reduce((sum, channel) => sum + this.badge(channel), 0);
  }

  // Count a message that arrived where nobody is looking. `root` is what it replies to.
  arrive({ channel, message, root, is_direct }) {
    const { me } = this.roster;
    if (message.user === me) return;
    const isLoud = is_direct || message.raw.includes(`<@${me}>`) || FOR_EVERYBODY.test(message.raw);
    const isMine = isLoud || root?.user === me || root?.reply_users.includes(me);
    if (message.thread_ts && isMine) this.countReply(channel, message);
    if (!message.thread_ts || message.subtype === "thread_broadcast") this.count(channel, message, isLoud);
  }

  countReply(channel, { ts, thread_ts }) {
    const key = `${channel} ${thread_ts}`;
    this.threads.set(key, { count: this.inThread(channel, thread_ts) + 1, latest: ts });
  }

  count(channel, { ts }, isLoud) {
    const { read, count, loud } = this.of(channel);
    this.channels.set(channel, { read, count: count + 1, loud: loud + Number(isLoud), latest: ts });
  }

  // Everything up to `ts` has been seen. The twin hears of it soon, and so do the other windows of this person.
  read(channel, ts, root = null) {
    if (!ts || !this.forget({ channel, ts, thread_ts: root })) return;
    if (!this.marks.size) setTimeout(() => this.tell(), TELL_MILLISECONDS);
    this.marks.set(`${channel} ${root}`, { user: this.roster.self.name, channel, ts, thread_ts: root });
  }

  tell() {
    const marks = [...this.marks.values()];
    this.marks.clear();
    for (const mark of marks) api.markRead(mark).catch(() => {}); // a later mark makes up for one that was lost
  }

  // Take away what was counted up to `ts`; what came after it stays. Returns whether there was anything to read.
  forget({ channel, ts, thread_ts }) {
    return thread_ts ? this.forgetReplies(`${channel} ${thread_ts}`, ts) : this.forgetMessages(channel, ts);
  }

  forgetReplies(key, ts) {
    const isNew = ts > (this.readReplies.get(key) ?? "");
    if (isNew) this.readReplies.set(key, ts);
    if (this.threads.get(key)?.latest <= ts) this.threads.delete(key);
    return isNew;
  }

  forgetMessages(channel, ts) {
    const before = this.of(channel);
    const isNew = before.count > 0 || ts > before.read;
    const read = ts > before.read ? ts : before.read;
    this.channels.set(channel, before.latest > ts ? { ...before, read } : { ...NOTHING, read });
    return isNew;
  }
}
