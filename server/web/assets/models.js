// The table of models: sorted, filtered, the same rows for as long as they are there.
import { el, say, put, arrange, bytes, count, ms, percent, plural, rate } from "./dom.js";
import { state } from "./feed.js";
import { memoryBar } from "./parts.js";

const states = { READY: "ready", LOADING: "loading", UNLOADING: "unloading", UNAVAILABLE: "not served" };
const order = { latency: 0, standard: 1, opportunistic: 2 };

// What is said of a model's state, and how it looks.
export function stateOf(m) {
  if (m.state === "READY" && m.where === "away") return ["away", "away"];
  if (m.state === "UNAVAILABLE" && m.reason && !/unload/i.test(m.reason)) return ["failed", "failed"];
  return [states[m.state] || m.state.toLowerCase(), m.state.toLowerCase()];
}

// The columns: head, value to sort by, text, and whether large values come first.
const columns = [
  { head: "State", left: true, by: m => stateOf(m)[0], text: m => stateOf(m)[0] },
  { head: "Class", left: true, by: m => order[m.class] ?? 3, text: m => m.class || "–" },
  { head: "Requests/s", down: true, by: m => m.rate, text: m => rate(m.rate) },
  { head: "p50", down: true, by: m => m.p50_ms ?? -1, text: m => ms(m.p50_ms) },
  { head: "p99", down: true, by: m => m.p99_ms ?? -1, text: m => ms(m.p99_ms) },
  { head: "Requests", down: true, by: m => m.requests, text: m => count(m.requests) },
  { head: "Errors", down: true, by: m => m.errors, text: m => count(m.errors) },
  { head: "Queue", down: true, by: m => m.queue, text: m => count(m.queue) },
  { head: "Device", down: true, by: m => m.device_share, text: m => percent(m.device_share) },
  { head: "Memory", down: true, by: m => m.memory_held_bytes, text: m => m.memory_cap_bytes ? `${bytes(m.memory_held_bytes)} of ${bytes(m.memory_cap_bytes)}${m.memory_shared_bytes ? ", shared" : ""}` : "–" },
];
const name = { head: "Model", left: true, by: m => m.name };

// Makes the row of a model.
function row(m) {
  const head = el("th", { scope: "row" }, el("a", { href: "#/models/" + encodeURIComponent(m.name) }, m.name));
  const cells = columns.map(c => el("td", { class: c.left ? "left" : null, "data-label": c.head }));
  const texts = cells.map(c => c.appendChild(el("span")));
  put(texts[0], "class", "state");
  const memory = memoryBar();
  cells.at(-1).append(memory.bar);
  return { tr: el("tr", {}, head, cells), set(m) {
    columns.forEach((c, i) => say(texts[i], c.text(m)));
    put(texts[0], "data-state", stateOf(m)[1]);
    put(texts[0], "title", m.reason || null);
    put(cells[6], "class", m.errors ? "bad" : null);
    memory.set(m.memory_held_bytes, 0, m.memory_cap_bytes);
  } };
}

// What a person has chosen lasts while the page is open.
const chosen = { by: name, down: false, text: "", state: "" };

export function table() {
  const rows = new Map(), body = el("tbody"), told = el("p", { class: "faint", "aria-live": "polite" });
  const search = el("input", { type: "search", placeholder: "part of a name", value: chosen.text,
    oninput: () => { chosen.text = search.value; arrangeNow(true); } });
  const which = el("select", { onchange: () => { chosen.state = which.value; arrangeNow(true); } },
    [["", "any state"], ["ready", "ready"], ["away", "away"], ["loading", "loading"], ["not served", "not served"], ["failed", "failed"]]
      .map(([value, text]) => el("option", { value, selected: value === chosen.state }, text)));
  const heads = [name, ...columns].map(c => {
    const th = el("th", { scope: "col", class: c.left ? "left" : null },
      el("button", { type: "button", class: "sort", onclick: () => sort(c) }, c.head));
    return { c, th };
  });
  const by = el("select", { onchange: () => { const c = [name, ...columns][by.value]; chosen.by = c; chosen.down = !!c.down; heading(); arrangeNow(true); } },
    [name, ...columns].map((c, i) => el("option", { value: i }, c.head)));
  const empty = el("p", {}, "There are no models. Put them into the server's folder as ", el("code", {}, "NAME/VERSION/model.onnx"), ".");
  const root = el("section", { class: "models" },
    el("div", { class: "head" }, el("h2", {}, "Models"), el("div", { class: "controls" },
      el("label", {}, "Find ", search), el("label", {}, "Show ", which), el("label", { class: "by" }, "Sort by ", by))),
    told, el("table", { class: "cards" }, el("caption", { class: "unseen" }, "Models of this server. The heads sort."),
      el("thead", {}, el("tr", {}, heads.map(h => h.th))), body), empty);
  let arranged = 0;

  function sort(c) {
    chosen.down = chosen.by === c ? !chosen.down : !!c.down;
    chosen.by = c;
    heading();
    arrangeNow(true);
  }
  function heading() {
    for (const h of heads) put(h.th, "aria-sort", h.c === chosen.by ? (chosen.down ? "descending" : "ascending") : null);
    by.value = [name, ...columns].indexOf(chosen.by);
  }

  // Rows stay where they are while a person is on them, and for two seconds otherwise.
  function arrangeNow(must) {
    const same = [...state.models.keys()].every(n => rows.get(n)) && rows.size === state.models.size;
    const wait = body.matches(":hover, :focus-within") || Date.now() - arranged < 2000;
    if (!must && same && wait) return;
    arranged = Date.now();
    for (const n of rows.keys()) if (!state.models.has(n)) rows.delete(n);
    const text = chosen.text.toLowerCase(), { by: { by: value }, down } = chosen;
    const list = [...state.models.values()].filter(m => m.name.toLowerCase().includes(text) && (!chosen.state || stateOf(m)[0] === chosen.state));
    list.sort((a, b) => {
      const x = value(a), y = value(b), d = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return (down ? -d : d) || a.name.localeCompare(b.name, "en", { numeric: true });
    });
    arrange(body, list.map(m => {
      if (!rows.has(m.name)) {
        rows.set(m.name, row(m));
        rows.get(m.name).set(m);
      }
      return rows.get(m.name).tr;
    }));
    say(told, list.length === state.models.size ? plural(list.length, "model") : `${list.length} of ${plural(state.models.size, "model")}`);
  }

  function update() {
    for (const [n, m] of state.models) if (rows.has(n)) rows.get(n).set(m);
    arrangeNow(false);
    empty.hidden = state.models.size > 0;
  }
  heading();
  return { root, update };
}
