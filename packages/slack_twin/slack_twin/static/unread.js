// The unread messages of this person. The twin stores them, so that all windows of the person agree.

import * as api from "./api.js";

const TELL_MILLISECONDS = 250; // combines the marks of several messages
const NOTHING = { read: "", count: 0, loud: 0, latest: "" };
const FOR_EVERYBODY = /<!(here|channel|everyone)/;

export class Unread {
  constructor(roster) {
    this.roster = roster;
    this.channels = new Map(); // channel -> {read, count, loud, latest}
    this.threads = new Map(); // "channel root" -> {count, latest}
    this.readReplies = new Map(); // "channel root" -> timestamp of the last read reply
    this.marks = new Map(); // marks that were not sent to the twin yet
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

  // The number of unread messages for the reader in a conversation: mentions, direct messages, replies.
  badge(channel) {
    const replies = [...this.threads].filter(([key]) => key.startsWith(channel + " ")).map(([, { count }]) => count);
    return replies.reduce((sum, count) => sum + count, this.of(channel).loud);
  }

  total() {
    return [...this.channels.keys()].reduce((sum, channel) => sum + this.badge(channel), 0);
  }

  // Counts a message that arrived outside the visible conversation. `root` is the message that it replies to.
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

  // Marks everything up to `ts` as read. The twin and the person's other windows are updated shortly after.
  read(channel, ts, root = null) {
    if (!ts || !this.forget({ channel, ts, thread_ts: root })) return;
    if (!this.marks.size) setTimeout(() => this.tell(), TELL_MILLISECONDS);
    this.marks.set(`${channel} ${root}`, { user: this.roster.self.name, channel, ts, thread_ts: root });
  }

  tell() {
    const marks = [...this.marks.values()];
    this.marks.clear();
    for (const mark of marks) api.markRead(mark).catch(() => {}); // a later mark replaces a lost one
  }

  // Removes the counts up to `ts` and keeps later ones. Returns whether there were any.
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
