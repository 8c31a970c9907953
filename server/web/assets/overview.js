// The first view: figures, devices, models, programs.
import { el, say, put, arrange, bytes, percent, rate, count, ms, plural } from "./dom.js";
import { state, follow } from "./feed.js";
import { request, act, may } from "./api.js";
import { lanes } from "./lanes.js";
import { memoryBar, tile } from "./parts.js";
import { table } from "./models.js";

// Makes another policy decide. What somebody else has chosen since is not undone.
export function choose(select, policy) {
  return act(select, () => request("POST", "v1/policy", { policy }),
    d => `${d.now.policy} decides now, after ${d.before.policy}.`,
    d => request("POST", "v1/policy", { policy: d.before.policy, if: d.now.policy }));
}

function device(name) {
  const about = el("p", { class: "faint" }), policy = el("span", { class: "policy" });
  const memory = memoryBar(), told = el("span"), what = el("p", { class: "faint" }), fault = el("p", { class: "bad" });
  const rows = lanes(name);
  const root = el("section", { class: "panel", "aria-label": "Device " + name },
    el("div", { class: "head" }, el("h2", {}, name), policy),
    about, el("p", { class: "memory" }, memory.bar, told), rows.root, what, fault);
  let select = null, listed = "";

  function choices(d) {
    const names = (d.policies || []).map(p => p.name);
    if (names.join() === listed && select) return;
    listed = names.join();
    if (!names.length || !may("admin", "*")) {
      select = null;
      policy.replaceChildren(el("span", {}, "Policy " + d.policy));
      return;
    }
    select = el("select", { onchange: () => choose(select, select.value).then(done => { if (!done && state.devices.has(name)) select.value = state.devices.get(name).policy; }) },
      names.map(n => el("option", { value: n }, n)));
    policy.replaceChildren(el("label", {}, "Policy ", select));
  }

  function update() {
    const d = state.devices.get(name);
    if (!d) return;
    choices(d);
    const base = d.policy.split(":")[0];
    if (select && document.activeElement !== select) {
      if (![...select.options].some(o => o.value === d.policy)) select.append(el("option", { value: d.policy }, d.policy));
      select.value = d.policy;
    }
    say(about, d.label || "");
    about.hidden = !d.label;
    memory.set(d.held_bytes, d.promised_bytes, d.memory_bytes);
    say(told, `${bytes(d.held_bytes)} held, ${bytes(d.promised_bytes)} promised of ${bytes(d.memory_bytes)}`);
    const chosen = (d.policies || []).find(p => p.name === base);
    say(what, chosen ? `${base}: ${chosen.what}` : "");
    what.hidden = !chosen;
    say(fault, d.faults ? `The policy asked ${plural(d.faults, "time")} for what cannot be: ${d.fault}` : "");
    fault.hidden = !d.faults;
    rows.update();
  }
  return { root, update };
}

function programs() {
  const body = el("tbody");
  const heads = ["Program", "State", "Class", "Device", "Used", "Promised", "Memory"];
  const root = el("section", {}, el("h2", {}, "Programs"), el("table", { class: "cards" },
    el("caption", { class: "unseen" }, "Programs under weir exec"),
    el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: i < 4 ? "left" : null }, h)))), body));
  const rows = new Map();
  function update() {
    root.hidden = !state.programs.size;
    arrange(body, [...state.programs].sort(([a], [b]) => a < b ? -1 : 1).map(([key, p]) => {
      if (!rows.has(key)) rows.set(key, el("tr", {}, el("th", { scope: "row" }, p.name),
        heads.slice(1).map((h, i) => el("td", { "data-label": h, class: i < 3 ? "left" : null }))));
      const cells = rows.get(key).children;
      [null, p.state, p.class, p.device, percent(p.device_share), percent(p.compute),
        `${bytes(p.memory_held_bytes)} of ${bytes(p.memory_cap_bytes)}`].forEach((text, i) => i && say(cells[i], text));
      return rows.get(key);
    }));
    for (const key of rows.keys()) if (!state.programs.has(key)) rows.delete(key);
  }
  return { root, update };
}

// Shows the overview in main, and returns what ends it.
export function overview(main) {
  const figures = { rate: tile("Requests a second"), p99: tile("Slowest p99", "of the last ten seconds"),
    queue: tile("Waiting"), errors: tile("Errors"), used: tile("Devices in use"), models: tile("Models ready") };
  const places = el("div"), devices = new Map(), list = table(), others = programs();
  main.replaceChildren(el("h1", { tabindex: -1, class: "unseen" }, "Overview"),
    el("dl", { class: "tiles" }, Object.values(figures).map(f => f.box)), places, list.root, others.root);

  function update() {
    if (!state.server) return;
    const models = [...state.models.values()], sum = f => models.reduce((a, m) => a + f(m), 0);
    const slow = models.filter(m => m.p99_ms !== null).reduce((a, m) => Math.max(a, m.p99_ms), -1);
    const used = new Map([...state.devices.keys()].map(d => [d, 0]));
    for (const m of [...models, ...state.programs.values()]) used.set(m.device, (used.get(m.device) || 0) + m.device_share);
    const ready = models.filter(m => m.state === "READY").length;
    figures.rate.set(rate(sum(m => m.rate)));
    figures.p99.set(slow < 0 ? "–" : ms(slow));
    figures.queue.set(count(sum(m => m.queue)));
    figures.errors.set(count(sum(m => m.errors)), sum(m => m.errors) > 0);
    figures.used.set(percent(Math.min(1, [...used.values()].reduce((a, v) => a + v, 0) / Math.max(1, used.size))));
    figures.models.set(`${ready} of ${models.length}`, ready < models.length && models.some(m => m.reason));
    for (const name of state.devices.keys()) if (!devices.has(name)) devices.set(name, device(name));
    for (const name of devices.keys()) if (!state.devices.has(name)) devices.delete(name);
    arrange(places, [...devices.values()].map(d => d.root));
    devices.forEach(d => d.update());
    list.update();
    others.update();
  }
  const clock = setInterval(() => devices.forEach(d => d.update()), 500); // lanes move on without events
  const stop = follow(update);
  update();
  return () => { stop(); clearInterval(clock); };
}
