// A pad to draw on, with a pointer or with the keys of arrows and space.
import { el, put } from "./dom.js";
import { inputs, preview, scale } from "./pixels.js";

const side = 320; // pixels of the pad

// Pads come and go with views, and what listens here for one would keep it.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.querySelectorAll(".pad").forEach(canvas => canvas.dispatchEvent(new Event("colours"))));

export function pad(image, go) {
  const canvas = el("canvas", { class: "pad", width: side, height: side, tabindex: 0, role: "application",
    "aria-label": "Drawing pad. Arrow keys move the pen, the space bar puts it down and lifts it, Delete clears." });
  const ink = el("canvas", { width: side, height: side }), strokes = [];
  const fit = el("input", { type: "checkbox", checked: true, onchange: send });
  const values = scale(image, send), seen = preview(image);
  const clear = el("button", { type: "button", onclick: wipe }, "Clear");
  const root = el("div", { class: "drawing" }, canvas, el("div", {}, seen.root,
    el("div", { class: "controls" }, el("label", {}, fit, " Fill the frame"), values.root, clear)));
  let pen = { x: side / 2, y: side / 2 }, down = false, keys = false, current = null;

  const point = e => {
    const box = canvas.getBoundingClientRect();
    return [(e.clientX - box.left) * side / box.width, (e.clientY - box.top) * side / box.height];
  };
  function line(to, strokes, width, colour) {
    to.lineWidth = width;
    to.lineCap = to.lineJoin = "round";
    to.strokeStyle = colour;
    for (const s of strokes) {
      to.beginPath();
      s.forEach(([x, y], i) => i ? to.lineTo(x, y) : to.moveTo(x, y));
      if (s.length === 1) to.lineTo(s[0][0] + .1, s[0][1]);
      to.stroke();
    }
  }
  function draw() {
    const to = canvas.getContext("2d"), style = getComputedStyle(canvas);
    to.clearRect(0, 0, side, side);
    line(to, strokes, side / 12, style.color);
    if (!strokes.length) {
      to.fillStyle = style.getPropertyValue("--faint");
      to.font = "17px system-ui, sans-serif";
      to.textAlign = "center";
      to.fillText("Draw here", side / 2, side / 2);
    }
    if (keys && document.activeElement === canvas) {
      to.lineWidth = 3;
      to.strokeStyle = style.getPropertyValue("--accent");
      to.beginPath();
      to.arc(pen.x, pen.y, side / 18, 0, 7);
      to.stroke();
      if (down) { to.fillStyle = to.strokeStyle; to.fill(); }
    }
  }

  // The drawing as ink from 0 to 1, moved and scaled so that it fills the frame if that is asked for.
  // The pen is wider than a pixel of the model, and a pixel that is mostly covered is full: so are
  // the digits that such models learn from.
  function read() {
    const to = ink.getContext("2d", { willReadFrequently: true }), { width: w, height: h } = image;
    const pen = side * Math.max(.1, 1.3 / Math.min(w, h));
    let k = 1, dx = 0, dy = 0;
    if (fit.checked && strokes.length) {
      const xs = strokes.flat().map(p => p[0]), ys = strokes.flat().map(p => p[1]);
      const [a, b, c, d] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      k = Math.min((side - pen) / Math.max(b - a, d - c, 1), 8);
      dx = side / 2 - k * (a + b) / 2;
      dy = side / 2 - k * (c + d) / 2;
    }
    to.clearRect(0, 0, side, side);
    line(to, strokes.map(s => s.map(([x, y]) => [k * x + dx, k * y + dy])), pen, "#000");
    const all = to.getImageData(0, 0, side, side).data, sum = new Float64Array(w * h), hits = new Float64Array(w * h);
    for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) {
      const at = Math.floor(y * h / side) * w + Math.floor(x * w / side);
      sum[at] += all[4 * (y * side + x) + 3] / 255;
      hits[at]++;
    }
    return (_, y, x) => Math.min(1, 1.4 * sum[y * w + x] / hits[y * w + x]);
  }
  function send() {
    draw();
    const pixel = read();
    seen.draw(pixel);
    go(strokes.length ? inputs(image, pixel, values.get()) : null);
  }
  function wipe() {
    strokes.length = 0;
    current = null;
    down = false;
    send();
  }

  canvas.addEventListener("pointerdown", e => {
    e.preventDefault();
    canvas.focus();
    canvas.setPointerCapture(e.pointerId);
    keys = false;
    strokes.push(current = [point(e)]);
    send();
  });
  canvas.addEventListener("pointermove", e => {
    if (!current || keys) return;
    const between = e.getCoalescedEvents ? e.getCoalescedEvents() : [];
    for (const p of between.length ? between : [e]) current.push(point(p));
    send();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { if (!keys) current = null; });
  canvas.addEventListener("keydown", e => {
    const step = side / 16, move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[e.key];
    if (!move && e.key !== " " && e.key !== "Delete" && e.key !== "Backspace") return;
    e.preventDefault();
    keys = true;
    if (move) {
      pen = { x: Math.max(0, Math.min(side, pen.x + move[0])), y: Math.max(0, Math.min(side, pen.y + move[1])) };
      if (down) current.push([pen.x, pen.y]);
    } else if (e.key === " ") {
      down = !down;
      if (down) strokes.push(current = [[pen.x, pen.y]]);
    } else return wipe();
    if (down) send();
    else draw();
  });
  for (const e of ["focus", "blur", "colours"]) canvas.addEventListener(e, draw);
  return { root, shown: send };
}
