// The state of the server, followed through its events.
import { token, refused } from "./api.js";

export const state = { server: null, devices: new Map(), models: new Map(), programs: new Map(),
  jobs: new Map(),
  time: 0, period: 500, live: false };
const lanes = new Map(); // device, then name, to a list of [time, part of the device]
const kept = 120000;     // milliseconds of a lane
let skew = 0;            // of the server's clock against this one

const listeners = new Set();

// Calls f after each change until what it returns is called.
export function follow(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}
const tell = () => listeners.forEach(f => f());

// The server's time now.
export const now = () => Date.now() + skew;

// What had a part of a device of late, by name.
export const lanesOf = device => lanes.get(device) || new Map();

function take(message, whole) {
  skew = message.time_ms - Date.now();
  state.time = message.time_ms;
  state.period = message.period_ms;
  if (message.server) state.server = message.server;
  const keys = { programs: row => row.device + " " + row.name, jobs: row => row.id + " " + (row.owner || "") };
  for (const list of ["devices", "models", "programs", "jobs"]) {
    const key = keys[list] || (row => row.name);
    if (whole) state[list].clear();
    for (const name of (message.gone || {})[list] || []) state[list].delete(name);
    for (const row of message[list] || []) state[list].set(key(row), row);
  }
  if (whole) lanes.clear();
  for (const [device, byName] of Object.entries(message.lanes || {})) {
    if (!lanes.has(device)) lanes.set(device, new Map());
    for (const [name, values] of Object.entries(byName)) {
      const lane = lanes.get(device).get(name) || [];
      values.forEach((v, i) => {
        if (v > 0) lane.push([message.time_ms - (values.length - 1 - i) * message.period_ms, v]);
      });
      lanes.get(device).set(name, lane);
    }
  }
  for (const byName of lanes.values()) {
    for (const [name, lane] of byName) {
      while (lane.length && lane[0][0] < message.time_ms - kept) lane.shift();
      if (!lane.length) byName.delete(name);
    }
  }
}

function live(yes) {
  if (state.live !== yes) {
    state.live = yes;
    tell();
  }
}

// A page that is not seen holds no connection, of which browsers have six for a server. What it
// missed comes when it is seen again.
let stream = new AbortController(), seen = Promise.withResolvers();
function look() {
  if (document.visibilityState === "visible") seen.resolve();
  else hide();
}
function hide() {
  stream.abort();
  seen = Promise.withResolvers();
}
document.addEventListener("visibilitychange", look);
addEventListener("pagehide", hide);
addEventListener("pageshow", look);

// The id of the last event.
let last = "";

// Reads one stream of events to its end.
async function read() {
  const headers = { Accept: "text/event-stream", ...token.header() };
  if (last) headers["Last-Event-ID"] = last;
  stream = new AbortController();
  const answer = await fetch("v1/events", { headers, cache: "no-store", signal: stream.signal });
  if (answer.status === 401 || answer.status === 403) {
    last = "";
    return refused();
  }
  if (!answer.ok) throw new Error(answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = {};
      for (const line of text.slice(0, end).split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
      }
      if (!event.data) continue;
      take(JSON.parse(event.data), event.event === "state");
      last = event.id;
      state.live = true;
      tell();
    }
  }
}

// Follows the server for as long as the page is open.
export async function run() {
  look();
  for (let wait = 250; ;) {
    await seen.promise;
    try {
      await read();
      wait = 250;
    } catch { // the server is gone, or will not: it is asked again; or nobody looks
      if (stream.signal.aborted) continue;
      live(false);
      wait = Math.min(10000, 2 * wait);
    }
    await new Promise(done => setTimeout(done, wait));
  }
}
