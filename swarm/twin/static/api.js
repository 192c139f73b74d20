// The page's calls to the twin. Every refusal becomes an Error that says what was wrong.

async function call(verb, path, body) {
  const options = { method: verb };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error([value.error.message, value.error.hint].filter(Boolean).join("; "));
  return value;
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();

export const state = (user) => call("GET", "/page/state?" + query({ user }));
export const messages = (user, channel, thread_ts) =>
  call("GET", "/page/messages?" + query({ user, channel, thread_ts })).then((value) => value.messages);
export const post = (message) => call("POST", "/twin/messages", message);
export const edit = (message) => call("PATCH", "/twin/messages", message);
export const remove = (message) => call("DELETE", "/twin/messages", message);
export const react = (reaction) => call("POST", "/twin/reactions", reaction);
export const stream = (user) => new EventSource("/page/stream?" + query({ user }));
