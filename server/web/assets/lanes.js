// The lanes of a device: who had which part of it in the last minute, and who holds it now.
import { el, svg, say, put, arrange, percent, ticks } from "./dom.js";
import { state, lanesOf, now } from "./feed.js";

const shown = 60000; // milliseconds
const most = 10;     // lanes
const batch = "(batch jobs)"; // what the server calls the job that runs

// Colours by name, in the order in which names were first seen.
const colours = new Map();
export function colour(name) {
  if (!colours.has(name)) colours.set(name, colours.size % 8);
  return colours.get(name);
}

// Makes the lanes of a device. update() draws them anew.
export function lanes(device) {
  const rows = new Map();
  const list = el("ul", { class: "lanes" });
  const scale = el("span");
  const axis = el("p", { class: "axis", "aria-hidden": "true" }, el("span", {}, "a minute ago"), scale, el("span", {}, "now"));
  const none = el("p", { class: "faint" }, "Nobody has computed here in the last minute.");
  const root = el("div", {}, list, axis, none);

  // Makes the row of a name; of several together it is the last.
  function row(name, last) {
    if (!rows.has(name)) {
      const bars = svg("path", { class: "bars c" + colour(name) });
      const drawing = svg("svg", { class: "chart lane", viewBox: "0 0 600 28", preserveAspectRatio: "none", role: "img" },
        svg("path", { class: "grid", d: "M0 27.5H600" }), bars);
      const label = name === batch ? el("a", { class: "who", href: "#/jobs" }, "batch jobs") :
        !last && state.models.has(name) ? el("a", { class: "who", href: "#/models/" + encodeURIComponent(name) }, name) :
          el("span", { class: "who" }, name);
      const part = el("span", { class: "part" });
      rows.set(name, { item: el("li", {}, label, drawing, part), bars, drawing, part, label });
    }
    return rows.get(name);
  }

  function update() {
    const end = now(), from = end - shown, all = [...lanesOf(device)].map(([name, points]) => {
      const late = points.filter(([t]) => t > from);
      return { name, late, sum: late.reduce((a, [, v]) => a + v, 0) };
    }).filter(l => l.sum > 0);
    let busy = all.sort((a, b) => b.sum - a.sum);
    if (busy.length > most) {
      const rest = busy.slice(most - 1), at = new Map();
      for (const l of rest) for (const [t, v] of l.late) at.set(t, (at.get(t) || 0) + v);
      busy = busy.slice(0, most - 1);
      busy.push({ name: `and ${rest.length} others`, late: [...at].sort((a, b) => a[0] - b[0]),
        sum: rest.reduce((a, l) => a + l.sum, 0), last: true });
    }
    busy.sort((a, b) => (a.last || 0) - (b.last || 0) || a.name.localeCompare(b.name));
    const high = ticks(Math.max(.01, ...busy.flatMap(l => l.late.map(([, v]) => v))), 1).at(-1);
    const full = Math.min(1, high);
    say(scale, `a full bar is ${percent(full)} of the device`);
    arrange(list, busy.map(l => {
      const r = row(l.name, l.last), w = 600 * state.period / shown;
      put(r.bars, "d", l.late.map(([t, v]) => {
        const x = Math.max(0, 600 * (t - state.period - from) / shown), h = Math.max(1.5, 27 * Math.min(1, v / full));
        return `M${x.toFixed(1)} ${(27 - h).toFixed(1)}h${w.toFixed(2)}v${h.toFixed(1)}h-${w.toFixed(2)}z`;
      }).join(""));
      const last = l.late.at(-1), current = last && last[0] > end - 2.5 * state.period ? last[1] : 0;
      const model = state.models.get(l.name);
      say(r.part, percent(current));
      put(r.item, "class", current > 0 || model && model.holds ? "holds" : null);
      put(r.drawing, "aria-label", `${l.name}: ${percent(l.sum * state.period / shown)} of ${device} in the last minute, ${percent(current)} now`);
      return r.item;
    }));
    for (const name of rows.keys()) if (!busy.some(l => l.name === name)) rows.delete(name);
    axis.hidden = !busy.length;
    none.hidden = busy.length > 0;
  }
  return { root, update };
}
