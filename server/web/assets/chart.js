// Lines over the last minutes, or over numbers that rise. A chart can be read by pointing at it, and
// by the keys of arrows.
import { el, svg, say, put, ticks } from "./dom.js";

const height = 168, left = 58, right = 46, top = 10, bottom = 24;

// Makes a chart of series, each { name, colour }, whose values text() writes.
// The axis ends at least at least.
export function chart(title, series, text, least) {
  const drawing = svg("svg", { class: "chart", tabindex: 0, role: "img" });
  const reading = el("output", { class: "reading faint" });
  const root = el("figure", { class: "line-chart" }, el("figcaption", {}, title), drawing, reading);
  let values = series.map(() => []), period = 500, steps = null, at = null, width = 560;

  const part = (i, n) => steps ? steps[i] / Math.max(1, steps.at(-1)) : n < 2 ? 1 : i / (n - 1);
  const place = (i, n) => left + (width - left - right) * part(i, n);

  function draw() {
    const n = values[0].length;
    const hi = Math.max(...values.flat().filter(v => v !== null), 0);
    const marks = ticks(Math.max(hi, least), 4), most = marks.at(-1);
    const y = v => top + (height - top - bottom) * (1 - v / most);
    const parts = [];
    for (const m of marks) {
      parts.push(svg("path", { class: m ? "grid" : "base", d: `M${left} ${y(m)}H${width - right}` }),
        svg("text", { class: "tick end", x: left - 8, y: y(m) + 4 }, text(m)));
    }
    const minutes = Math.round(n * period / 60000), end = steps && steps.at(-1) || 0;
    for (const k of steps ? ticks(end, 4).filter(k => k <= end) : []) {
      parts.push(svg("text", { class: "tick mid", x: left + (width - left - right) * k / Math.max(1, end), y: height - 6 }, k));
    }
    for (let k = 0; !steps && k <= minutes && n > 1; k++) {
      const x = place(n - 1 - k * 60000 / period, n);
      if (x < left - 1) break;
      parts.push(svg("text", { class: "tick mid", x, y: height - 6 }, k ? `−${k} min` : "now"));
    }
    let taken = [];
    series.forEach((s, j) => {
      let d = "", up = true;
      values[j].forEach((v, i) => {
        if (v === null) { up = true; return; }
        d += `${up ? "M" : "L"}${place(i, n).toFixed(1)} ${y(v).toFixed(1)}`;
        up = false;
      });
      parts.push(svg("path", { class: `line c${s.colour}${j ? " d" + j : ""}`, d }));
      const last = values[j].at(-1);
      if (series.length > 1 && last !== null && last !== undefined) {
        let to = y(last) + 4, way = 0;
        // 14 apart, which a sum of floats may be a hair less than
        const near = () => taken.find(other => Math.abs(to - other) < 13.9);
        for (let other = near(); other !== undefined; other = near()) {
          // below the axis are its own words
          way ||= to < other || other + 14 * (series.length - 1) > height - bottom + 4 ? -14 : 14;
          to = other + way;
        }
        taken.push(to);
        parts.push(svg("text", { class: "named c" + s.colour, x: width - right + 5, y: to }, s.name));
      }
    });
    if (at !== null && at < n) parts.push(svg("path", { class: "base", d: `M${place(at, n)} ${top}V${height - bottom}` }));
    put(drawing, "viewBox", `0 0 ${width} ${height}`);
    drawing.replaceChildren(...parts);
    const now = series.map((s, j) => `${s.name} ${word(values[j].at(-1))} now, ${word(most_(values[j]))} at most`);
    const span = steps ? `until update ${end}` : `the last ${Math.max(1, minutes)} minutes`;
    put(drawing, "aria-label", `${title}, ${span}: ${now.join("; ")}`);
    tell();
  }
  const word = v => v === null || v === undefined ? "nothing" : text(v);
  const most_ = list => list.reduce((a, v) => v !== null && (a === null || v > a) ? v : a, null);

  function tell() {
    const n = values[0].length;
    if (at === null || at >= n) return say(reading, "");
    const ago = Math.round((n - 1 - at) * period / 1000);
    say(reading, `${steps ? "update " + steps[at] : ago ? ago + " s ago" : "now"}: ` + series.map((s, j) => `${s.name} ${word(values[j][at])}`).join(", "));
  }
  function move(to) {
    at = to === null ? null : Math.max(0, Math.min(values[0].length - 1, Math.round(to)));
    draw();
  }
  drawing.addEventListener("pointermove", e => {
    const box = drawing.getBoundingClientRect(), n = values[0].length;
    const x = ((e.clientX - box.left) * width / box.width - left) / (width - left - right);
    const after = steps ? steps.findIndex(s => s >= x * steps.at(-1)) : 0;
    move(steps ? (after < 0 ? n - 1 : after) : x * (n - 1));
  });
  drawing.addEventListener("pointerleave", () => move(null));
  drawing.addEventListener("blur", () => move(null));
  drawing.addEventListener("keydown", e => {
    const n = values[0].length, by = e.shiftKey ? 20 : 2, from = at === null ? n - 1 : at;
    const to = { ArrowLeft: from - by, ArrowRight: from + by, Home: 0, End: n - 1, Escape: null }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    move(to);
  });
  const watch = new ResizeObserver(() => {
    const w = Math.round(drawing.getBoundingClientRect().width);
    if (w && w !== width) { width = w; draw(); }
  });
  watch.observe(drawing);
  return { root, stop: () => watch.disconnect(), set: (lists, distance, numbers) => { values = lists; period = distance; steps = numbers || null; draw(); } };
}
