// The state of the server, followed through its events.
import { token, refused } from "./api.js";

export const state = { server: null, devices: new Map(), models: new Map(), programs: new Map(),
  jobs: new Map(),
  time: 0, period: 500, live: false, // whether it is followed now
  why: "",   // the server's words where it will not be followed
  whole: 0 }; // how often all of it came: where the server is another, or the rights are others
const lanes = new Map(); // device, then name, to a list of [time, part of the device]
const kept = 120000;     // milliseconds of a lane
const silence = 40000;   // milliseconds without a word, of which a server has one every 15 s
let skew = 0;            // of the server's clock against this one

const listeners = new Set();

// Calls f after each change until what it returns is called.
export function follow(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}
// A fault of one is said on the console, and keeps nothing from the others or from the next event.
const tell = () => listeners.forEach(f => {
  try { f(); } catch (e) { reportError(e); }
});

// The server's time now.
export const now = () => Date.now() + skew;

// What had a part of a device of late, by name.
export const lanesOf = device => lanes.get(device) || new Map();

function take(message, whole) {
  if (whole) state.whole++;
  if (whole || message.time_ms < state.time) lanes.clear(); // or the server's clock went back
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

function live(yes, why = "") {
  if (state.live !== yes || state.why !== why) {
    state.live = yes;
    state.why = why;
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

// Reads one stream of events to its end. A connection that nothing comes through is given up: it may
// be one that went while this machine slept, of which nobody told it.
async function read() {
  const headers = { Accept: "text/event-stream", ...token.header() };
  if (last) headers["Last-Event-ID"] = last;
  const here = stream = new AbortController();
  let clock = 0;
  const heard = () => {
    clearTimeout(clock);
    clock = setTimeout(() => here.abort(silence), silence);
  };
  try {
    heard();
    const answer = await fetch("v1/events", { headers, cache: "no-store", signal: here.signal });
    if (answer.ok) return await events(answer.body, heard);
    if (answer.status !== 401 && answer.status !== 403) {
      throw Object.assign(new Error((await answer.json()).error), { said: true });
    }
  } finally {
    clearTimeout(clock);
  }
  last = "";
  state.server = null; // what one account saw is not for the next
  for (const list of [state.devices, state.models, state.programs, state.jobs, lanes]) list.clear();
  live(false);
  await refused();
}

// Takes the events of a stream.
async function events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
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
      state.why = "";
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
    } catch (e) { // the server is gone, or will not: it is asked again; or nobody looks
      if (stream.signal.aborted && stream.signal.reason !== silence) continue;
      wait = state.live ? 250 : Math.min(10000, 2 * wait);
      live(false, e.said && e.message);
    }
    await new Promise(done => setTimeout(done, wait));
  }
}
