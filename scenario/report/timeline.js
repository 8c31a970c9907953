"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

// Multiples of 1, 2 or 5 times a power of ten from lo to hi, at most so many, and their distance.
function ticks(lo, hi, most) {
  for (let k = Math.floor(Math.log10((hi - lo) / most)) - 1; ; k++) {
    for (const m of [1, 2, 5]) {
      const step = m * 10 ** k, first = Math.ceil(lo / step - 1e-9), last = Math.floor(hi / step + 1e-9);
      if (last - first + 1 > most) continue;
      return [Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step), step];
    }
  }
}

// A time in milliseconds, to the digits that its neighbours differ in.
function time(ms, step) {
  const decimals = Math.max(0, -Math.floor(Math.log10(step / 1000) + 1e-9));
  return +(ms / 1000).toFixed(decimals) + " s";
}

function svg(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const a in attributes) e.setAttribute(a, attributes[a]);
  if (text) e.textContent = text;
  return e;
}

// Draws the bars of a timeline from lo to hi into one of its drawings.
function draw(drawing, timeline, lo, hi) {
  const left = +drawing.dataset.left, right = +drawing.dataset.right;
  const x = ms => left + (Math.min(Math.max(ms, lo), hi) - lo) / (hi - lo) * (right - left);
  const rows = [...drawing.querySelectorAll(".bars")].map(bars =>
    ({ bars, y: +bars.dataset.y, height: +bars.dataset.height, d: [], marks: [] }));
  for (const [job, from, to, revoked, part] of timeline.holds) {
    if (to < lo || from > hi) continue;
    const r = rows[timeline.rows[job]], a = x(from), w = Math.max(.5, x(to) - a), h = r.height * Math.max(part, .08);
    r.d.push(`M${a.toFixed(2)} ${(r.y - h / 2).toFixed(1)}h${w.toFixed(2)}v${h.toFixed(1)}h-${w.toFixed(2)}z`);
    if (revoked && w > 3 && to <= hi) r.marks.push(`M${(a + w - 1).toFixed(1)} ${(r.y - h / 2).toFixed(1)}v${h.toFixed(1)}`);
  }
  for (const r of rows) {
    r.bars.setAttribute("d", r.d.join(""));
    r.bars.nextElementSibling.setAttribute("d", r.marks.join(""));
  }
  const axis = drawing.querySelector(".ticks"), bottom = +axis.firstElementChild.getAttribute("d").match(/ ([\d.]+)L/)[1];
  const [at, step] = ticks(lo, hi, Math.max(2, Math.floor((right - left) / 72)));
  axis.replaceChildren(axis.firstElementChild, ...at.flatMap(t => [
    svg("path", { class: "base", d: `M${x(t)} ${bottom}v4` }),
    svg("text", { class: "tick mid", x: x(t), y: bottom + 17 }, time(t, step))]));
  drawing.querySelectorAll(".grid").forEach(g => { if (g.getAttribute("d").match(/^M([\d.]+) .*L\1 /)) g.remove(); });
}

// A slider with its name.
function slider(parent, name, options) {
  const label = document.createElement("label"), input = document.createElement("input");
  Object.assign(input, { type: "range", min: 0, max: 1000 }, options);
  label.append(name, input);
  parent.append(label);
  return input;
}

for (const figure of document.querySelectorAll("[data-timeline]")) {
  const timeline = data.timelines[figure.dataset.timeline];
  const drawings = figure.querySelectorAll("svg");
  const controls = document.createElement("div"), reading = document.createElement("p");
  controls.className = "controls"; reading.className = "reading faint";
  const hint = "Point at a bar to read it.";
  reading.textContent = hint;
  figure.append(controls, reading);
  const least = Math.min(1, timeline.end);
  let lo = 0, hi = timeline.shown;
  const from = slider(controls, "from", { value: 0 });
  const length = slider(controls, "length", {
    value: timeline.end > least ? Math.round(1000 * Math.log(timeline.shown / least) / Math.log(timeline.end / least)) : 1000 });
  const move = () => {
    const span = least * (timeline.end / least) ** (length.value / 1000);
    lo = from.value / 1000 * Math.max(0, timeline.end - span);
    hi = lo + span;
    drawings.forEach(d => draw(d, timeline, lo, hi));
    const [, step] = ticks(lo, hi, 8);
    from.setAttribute("aria-valuetext", time(lo, step));
    length.setAttribute("aria-valuetext", time(hi - lo, step));
  };
  from.addEventListener("input", move);
  length.addEventListener("input", move);
  for (const drawing of drawings) {
    drawing.addEventListener("pointermove", e => {
      const box = drawing.getBoundingClientRect(), scale = drawing.viewBox.baseVal.width / box.width;
      const left = +drawing.dataset.left, right = +drawing.dataset.right;
      const at = lo + ((e.clientX - box.left) * scale - left) / (right - left) * (hi - lo), y = (e.clientY - box.top) * scale;
      const bars = [...drawing.querySelectorAll(".bars")];
      const row = bars.findIndex(b => Math.abs(+b.dataset.y - y) <= +b.dataset.height / 2 + 3);
      const near = 2 * scale / (right - left) * (hi - lo);
      const hold = timeline.holds.find(([job, a, b]) => timeline.rows[job] === row && a - near <= at && at <= b + near);
      reading.textContent = !hold ? hint : `${data.jobs[hold[0]]}: ${(hold[2] - hold[1]).toFixed(2)} ms at ${hold[1].toFixed(1)} ms` +
        (hold[4] < 1 ? `, ${(100 * hold[4]).toFixed(0)} % of the units` : "") + (hold[3] ? ", asked back" : "");
    });
    drawing.addEventListener("pointerleave", () => { reading.textContent = hint; });
  }
}
