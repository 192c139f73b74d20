// The connection for updates. When it breaks, it is reopened, and missed changes are loaded.

import * as api from "./api.js";

const PAUSES = [500, 1000, 2000, 5000]; // milliseconds before the next attempt
const SILENCE_MILLISECONDS = 45_000; // the twin sends every 15 s, so a connection this silent is dead

// `arrive(update)` receives updates. `seen()` returns the number of the last known change: if the connection starts
// later, `back()` loads the missing changes. `lost()` is called when the connection breaks, `restored()` when it is
// restored.
export function listen(user, { seen, arrive, lost, back, restored }) {
  let line = null;
  let attempts = 0;
  let wasLost = false;
  let watch = 0;

  const fail = (broken) => {
    if (broken !== line) return; // it was replaced already
    clearTimeout(watch);
    line.onclose = line.onmessage = null;
    line.close();
    line = null;
    if (!wasLost) lost();
    wasLost = true;
    setTimeout(open, PAUSES[Math.min(attempts++, PAUSES.length - 1)]);
  };

  const greet = async (greeting, { seen: begins }) => {
    if (wasLost || begins !== seen()) await back();
    if (greeting !== line) return; // the connection broke again during loading
    if (wasLost) restored();
    attempts = 0;
    wasLost = false;
  };

  const take = ({ target, data }) => {
    clearTimeout(watch);
    watch = setTimeout(fail, SILENCE_MILLISECONDS, target);
    const update = JSON.parse(new TextDecoder().decode(data));
    return update.kind === "hello" ? greet(target, update).catch(() => fail(target)) : arrive(update);
  };

  function open() {
    line = api.line(user);
    line.binaryType = "arraybuffer";
    line.onmessage = take;
    line.onclose = ({ target }) => fail(target);
  }
  open();
}
