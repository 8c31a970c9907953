// A model's own view.
import { el, say, put, arrange, bytes, count, ms, percent, rate } from "./dom.js";
import { state, follow } from "./feed.js";
import { get, request, model as path, act, alarm, may } from "./api.js";
import { chart } from "./chart.js";
import { memoryBar, tile } from "./parts.js";
import { stateOf } from "./models.js";
import { attempt } from "./try.js";
import { graph } from "./graph.js";

const MiB = 1 << 20;
const charted = 600, rated = 10; // looks of the server, in a chart and in a rate

// Loads or unloads a model, and undoes that by the other.
export function turn(control, name, what) {
  const other = what === "load" ? "unload" : "load", done = { load: "is loaded", unload: "is no longer served" };
  return act(control, () => request("POST", `${path(name)}/${what}`, {}), () => `${name} ${done[what]}.`,
    () => request("POST", `${path(name)}/${other}`, {}).then(d => { what = other; return d; }));
}

// The form that changes a model's share.
function share(name) {
  const by = {
    class: el("select", { name: "class" }, ["latency", "standard", "opportunistic"].map(c => el("option", {}, c))),
    compute: el("input", { type: "number", name: "compute", min: 0, max: 100, step: "any", required: true }),
    limit: el("input", { type: "number", name: "limit", min: 0, max: 100, step: "any", required: true }),
    memory: el("input", { type: "number", name: "memory", min: 0, step: "any", required: true }),
  };
  const button = el("button", { class: "main" }, "Change the share");
  const form = el("form", { class: "share" },
    el("label", {}, "Class", by.class), el("label", {}, "Guaranteed, %", by.compute),
    el("label", {}, "At most, %", by.limit), el("label", {}, "Memory, MiB", by.memory), button);
  const root = el("section", { "aria-labelledby": "share" }, el("h2", { id: "share" }, "Share"), form);
  const values = m => ({ class: m.class, compute: m.compute, limit: m.limit, memory_bytes: m.memory_cap_bytes });
  const fields = { class: by.class, compute: by.compute, limit: by.limit, memory_bytes: by.memory };
  const texts = { class: v => v, compute: v => +(100 * v).toFixed(2), limit: v => +(100 * v).toFixed(2), memory_bytes: v => +(v / MiB).toFixed(2) };
  const read = { class: e => e.value, compute: e => e.value / 100, limit: e => e.value / 100, memory_bytes: e => Math.round(e.value * MiB) };
  const words = s => `${s.class}, ${percent(s.compute || 0)} guaranteed, ${percent(s.limit)} at most, ${bytes(s.memory_bytes)}`;
  const post = body => request("POST", path(name) + "/share", body);
  let told = {}, filled = {}; // the server's values, and what the fields had of them
  // Takes back what was changed, where it still is so, and no more: the rest may be another's by now.
  const back = (keys, d) => {
    const of = share => Object.fromEntries(keys.map(key => [key, share[key]]));
    return post({ ...of(d.before), if: of(d.now) });
  };
  form.addEventListener("submit", async e => {
    e.preventDefault();
    const sent = Object.keys(fields).filter(key => fields[key].value !== filled[key]);
    const body = Object.fromEntries(sent.map(key => [key, read[key](fields[key])]));
    const as = Object.fromEntries(sent.map(key => [key, fields[key].value]));
    const done = await act(button, () => post(body), d => `${name}: ${words(d.now)}.`, d => back(sent, d));
    if (!done) return;
    Object.assign(filled, as);
    // what the answer says was told, too: an undo may come before the next event, which then says as the last did
    for (const key of sent) told[key] = done.now[key];
  });
  // A field has what the server says, until a person has changed it.
  function update(m) {
    root.hidden = !m.class || !may("admin", name);
    const now = values(m), before = told;
    told = now;
    for (const key in fields) {
      if (now[key] === undefined || now[key] === before[key] || fields[key].value !== (filled[key] ?? fields[key].value)) continue;
      fields[key].value = texts[key](now[key]);
      filled[key] = fields[key].value;
    }
  }
  return { root, update };
}

function tensors(caption, list) {
  return el("table", { class: "cards" }, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ["Name", "Type", "Shape"].map(h => el("th", { scope: "col", class: "left" }, h)))),
    el("tbody", {}, list.map(t => el("tr", {}, el("th", { scope: "row" }, t.name),
      el("td", { class: "left", "data-label": "Type" }, t.datatype),
      el("td", { class: "left", "data-label": "Shape" }, t.shape.length ? t.shape.map(d => d < 0 ? "any" : d).join(" × ") : "one value")))));
}

// Shows a model in main, and returns what ends it.
export function model(main, name) {
  const badge = el("span", { class: "state" }), version = el("span", { class: "faint" });
  const button = el("button", { type: "button", onclick: () => turn(button, name, button.value) });
  const reason = el("p", { class: "bad" }), memory = memoryBar(), told = el("span");
  const figures = { rate: tile("Requests a second"), p50: tile("p50"), p99: tile("p99"), queue: tile("Waiting"),
    errors: tile("Errors"), used: tile("Of the device") };
  const charts = {
    rate: chart("Requests a second", [{ name: "requests", colour: 0 }], rate, 4),
    latency: chart("Latency", [{ name: "p50", colour: 2 }, { name: "p99", colour: 3 }], ms, .004),
    used: chart("Part of the device", [{ name: "used", colour: 0 }], percent, .04),
    queue: chart("Requests that wait", [{ name: "waiting", colour: 1 }], count, 4),
  };
  const versions = el("tbody"), terms = share(name), trial = el("div"), about = el("div"), drawn = el("div");
  const live = el("div", {},
    el("dl", { class: "tiles" }, Object.values(figures).map(f => f.box)),
    el("p", { class: "memory" }, memory.bar, told),
    el("div", { class: "charts" }, Object.values(charts).map(c => c.root)));
  const gone = el("p", { class: "lead", hidden: true }, `There is no model ${name}.`);
  const there = el("div", {}, reason, trial, live, terms.root,
    el("section", {}, el("h2", {}, "What it is"), about, el("table", { class: "cards" }, el("caption", {}, "Versions"),
      el("thead", {}, el("tr", {}, ["Version", "State", "Reason"].map(h => el("th", { scope: "col", class: "left" }, h)))), versions)), drawn);
  main.replaceChildren(el("p", { class: "back" }, el("a", { href: "#/" }, "← All models")),
    el("div", { class: "head" }, el("h1", { tabindex: -1 }, name), badge, version, button), gone, there);

  let series = null, described = "", ended = false;
  async function describe(m) {
    const now = m.version + m.state;
    if (described === now) return;
    described = now;
    if (m.state !== "READY") {
      trial.replaceChildren();
      return;
    }
    try {
      const data = await get("v2/models/" + encodeURIComponent(name));
      if (ended || described !== now) return;
      about.replaceChildren(el("div", { class: "pair" }, tensors("Inputs", data.inputs), tensors("Outputs", data.outputs)));
      trial.replaceChildren(...may("infer", name) ? [attempt(name, data)] : []);
      drawn.replaceChildren(...state.server.graphs ? [graph(name)] : []);
    } catch (e) {
      if (!ended && described === now) alarm(e.message);
    }
  }

  function update() {
    if (!state.server) return;
    const m = state.models.get(name);
    gone.hidden = !!m;
    there.hidden = badge.hidden = version.hidden = button.hidden = !m;
    if (!m) {
      described = "";
      return;
    }
    const [text, look] = stateOf(m), served = m.state === "READY";
    put(say(badge, text), "data-state", look);
    say(version, m.version ? `version ${m.version} on ${m.device}` : "");
    button.hidden = !may("load", name);
    button.value = served ? "unload" : "load";
    say(button, served ? "Unload" : "Load");
    say(reason, m.reason || "");
    reason.hidden = !m.reason;
    live.hidden = !m.class && !m.requests;
    figures.rate.set(rate(m.rate));
    figures.p50.set(ms(m.p50_ms));
    figures.p99.set(ms(m.p99_ms));
    figures.queue.set(count(m.queue));
    figures.errors.set(count(m.errors), m.errors > 0);
    figures.used.set(percent(m.device_share));
    memory.set(m.memory_held_bytes, 0, m.memory_cap_bytes);
    const shared = m.memory_shared_bytes ? `, ${bytes(m.memory_shared_bytes)} of it together with others` : "";
    say(told, `${bytes(m.memory_held_bytes)} held of ${bytes(m.memory_cap_bytes)}, ${bytes(m.memory_peak_bytes)} at most${shared}`);
    terms.update(m);
    arrange(versions, m.versions.map((v, i) => {
      const tr = versions.children[i] || el("tr", {}, el("th", { scope: "row" }), el("td", { class: "left", "data-label": "State" }), el("td", { class: "left", "data-label": "Reason" }));
      [v.version, v.state.toLowerCase(), v.reason || ""].forEach((t, k) => say(tr.children[k], t));
      return tr;
    }));
    describe(m);
  }

  function draw() {
    charts.rate.set([series.rate], state.period);
    charts.latency.set([series.p50, series.p99], state.period);
    charts.used.set([series.used], state.period);
    charts.queue.set([series.queue], state.period);
  }
  // The charts go on from what the server has kept with what the page is told. Where that stopped for
  // long, as it does while nobody looks or this machine sleeps, they begin with what is kept again.
  let newest = 0, asked = -Infinity, asking = false;
  function go() {
    const m = state.models.get(name);
    if (!m || !state.live || asking || document.visibilityState !== "visible") return;
    const n = Math.round((Date.now() - newest) / state.period);
    if (!series || n < 0 || n > 10) {
      if (performance.now() - asked > 5000) load();
      return;
    }
    newest += n * state.period;
    const next = { rate: m.rate, p50: m.p50_ms, p99: m.p99_ms, used: m.device_share, queue: m.queue };
    for (const key in next) {
      for (let i = 0; i < n; i++) series[key].push(next[key]);
      series[key].splice(0, series[key].length - charted);
    }
    draw();
  }
  async function load() {
    asking = true;
    asked = performance.now();
    try {
      const h = await get(path(name) + "/history"), late = v => v || null;
      series = { p50: h.p50_ms.map(late), p99: h.p99_ms.map(late), used: h.device_share, queue: h.queue,
        rate: h.requests.map((_, i) => h.requests.slice(Math.max(0, i + 1 - rated), i + 1).reduce((a, v) => a + v, 0) / (rated * h.period_ms / 1000)) };
      newest = Date.now();
      if (!ended) draw();
    } catch { /* it is asked again, where there is the model */ }
    asking = false;
  }
  load();
  const clock = setInterval(go, state.period), unfollow = follow(update);
  function stop() {
    ended = true;
    clearInterval(clock);
    unfollow();
    Object.values(charts).forEach(c => c.stop());
  }
  update();
  return stop;
}
