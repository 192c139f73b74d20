// Live updates of the workspace.

import { tell } from "./frame/notice.js";

export function arrivals(desk) {
  const isHere = (update) => update.channel === desk.current;

  const shown = {
    posted: (update) => {
      const { message } = update;
      if (!desk.roster.conversation(update.channel)) return desk.look();
      if (isHere(update)) place(desk, update);
      return note(desk, update);
    },
    changed: (update) => {
      if (!isHere(update)) return;
      desk.timeline.put(update.message, { append: false });
      desk.replies.put(update.message, { append: false });
      if (update.root) desk.timeline.put(update.root, { append: false });
    },
    deleted: (update) => {
      if (!isHere(update)) return;
      desk.timeline.drop(update.message.ts);
      desk.replies.drop(update.message.ts);
      if (update.root) desk.timeline.put(update.root, { append: false });
      if (desk.thread === update.message.ts) desk.closeThread();
    },
    ephemeral: (update) => {
      if (!isHere(update)) return;
      const { message } = update;
      if (!message.thread_ts) desk.timeline.put(message, { append: true });
      else if (message.thread_ts === desk.thread) desk.replies.put(message, { append: true });
    },
    status: (update) => {
      desk.working.setStatus(update);
      desk.drawWorking();
    },
    assistant: (update) => {
      desk.working.setAssistance(update);
      if (isHere(update)) desk.timeline.refresh(update.thread_ts);
      desk.drawWorking();
    },
    views: (update) => desk.views.take(update),
    read: (update) => {
      desk.unread.forget(update);
      if (isHere(update) && update.thread_ts) desk.timeline.refresh(update.thread_ts);
      desk.drawFrame();
    },
    channels: () => desk.look(),
    reload: () => desk.load(),
  };
  // Updates are applied in order, but never to a list that is being loaded, where they would be lost.
  let line = Promise.resolve();
  return (update) => {
    line = line
      .then(() => desk.loading)
      .then(() => shown[update.kind]?.(update))
      .catch((error) => tell(error.message));
    return line;
  };
}

function place(desk, { message, root }) {
  if (!message.thread_ts || message.subtype === "thread_broadcast") desk.timeline.put(message, { append: true });
  if (root) desk.timeline.put(root, { append: false });
  if (!desk.thread) return;
  if (message.thread_ts === desk.thread) desk.replies.put(message, { append: true });
  if (root?.ts === desk.thread) desk.replies.put(root, { append: false });
}

// Marks visible messages as read, and counts the others.
function note(desk, update) {
  const { message, channel } = update;
  const isLooking = channel === desk.current && document.visibilityState === "visible";
  const inChannel = !message.thread_ts || message.subtype === "thread_broadcast";
  const isSeen = isLooking && (inChannel || desk.thread === message.thread_ts);
  if (!isSeen && update.seen > desk.seen) desk.unread.arrive(update);
  if (isLooking && inChannel) desk.markRead();
  if (isLooking && desk.thread === message.thread_ts) desk.markThreadRead();
  if (isLooking && !isSeen) desk.timeline.refresh(message.thread_ts);
  desk.drawFrame();
}
