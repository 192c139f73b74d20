// The page's requests to the twin. Every refusal becomes an Error with its explanation.

async function call(verb, path, body) {
  const options = { method: verb, keepalive: path === "/page/read" }; // a read mark is still sent while the page closes
  if (body instanceof Blob) options.body = body;
  else if (body) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  return read(
    await fetch(path, options).catch(() => {
      throw new Error("The twin cannot be reached. Is it still running?");
    }),
  );
}

async function read(answer) {
  const value = await answer.json().catch(() => ({ error: { message: `the twin answered ${answer.status}` } }));
  if (!answer.ok) throw new Error([value.error?.message, value.error?.hint].filter(Boolean).join("; "));
  return value;
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();

export const state = (user) => call("GET", "/page/state?" + query({ user }));
export const messages = (user, channel, { thread_ts, before } = {}) =>
  call("GET", "/page/messages?" + query({ user, channel, thread_ts, before }));
export const openDirect = (user, other) => call("POST", "/page/direct", { user, with: other });
export const markRead = (mark) => call("POST", "/page/read", mark);
export const upload = (user, file) => call("POST", "/page/files?" + query({ user, name: file.name }), file);
export const options = (asked) => call("POST", "/twin/suggestions", asked);
export const openHome = (user, app) => call("POST", "/twin/homes", { user, app });
export const openMessages = (user, app, channel) => call("POST", "/twin/homes", { user, app, tab: "messages", channel });
export const openPane = (user, app, channel) => call("POST", "/twin/assistant", { user, app, channel });
export const post = (message) => call("POST", "/page/messages", message);
export const edit = (message) => call("PATCH", "/twin/messages", message);
export const remove = (message) => call("DELETE", "/twin/messages", message);
export const react = (reaction) => call("POST", "/twin/reactions", reaction);
export const act = (action) => call("POST", "/twin/actions", action);
export const command = (command) => call("POST", "/twin/commands", command);
export const stop = (thread) => call("POST", "/twin/stop", thread);
export const line = (user) => new WebSocket(`${location.origin.replace(/^http/, "ws")}/page/live?${query({ user })}`);
