// Tries a model: a drawing, a picture or numbers in, and what it says out.
import { el, say, put, ms, plural } from "./dom.js";
import { token } from "./api.js";
import { pad } from "./pad.js";
import { picture } from "./picture.js";
import { numbers } from "./numbers.js";

const most = 10; // classes that are shown
let made = 0;    // parts of views, each with names of its own

// What a model with one input takes as a picture, null for others.
export function pictureOf(data) {
  if (data.inputs.length !== 1) return null;
  const { name, datatype, shape } = data.inputs[0];
  if (!["FP32", "FP64", "UINT8"].includes(datatype)) return null;
  const s = shape.length === 4 ? shape.slice(1) : shape.length === 3 ? shape : null;
  if (!s || shape.length === 4 && shape[0] > 1) return null;
  const first = s[0] === 1 || s[0] === 3, last = s[2] === 1 || s[2] === 3;
  if (!first && !last) return null;
  const [h, w] = first ? s.slice(1) : s.slice(0, 2);
  if (h >= 0 && h < 4 || w >= 0 && w < 4) return null;
  const height = h < 0 ? 224 : h, width = w < 0 ? 224 : w, channels = first ? s[0] : s[2];
  const full = first ? [channels, height, width] : [height, width, channels];
  return { name, datatype, channels, height, width, first, shape: shape.length === 4 ? [1, ...full] : full };
}

// Integers that JavaScript's numbers cannot hold are kept as they are written, where a browser tells.
const wide = /INT64$/;
const whole = (_, v, as) => typeof v === "number" && !Number.isSafeInteger(v) && /^-?\d+$/.test(as?.source) ? BigInt(as.source) : v;

// Asks a model, and returns its outputs and how long that took.
async function ask(name, data, inputs) {
  const outputs = data.outputs.map(o => {
    const k = o.shape.at(-1), scores = o.shape.length === 2 && k > 1 && /^(FP|BF|INT|UINT)/.test(o.datatype);
    return { name: o.name, parameters: scores ? { classification: Math.min(k, most) } : undefined };
  });
  const began = performance.now();
  const answer = await fetch(`v2/models/${encodeURIComponent(name)}/infer`,
    { method: "POST", headers: token.header(), body: JSON.stringify({ inputs, outputs }) });
  const body = JSON.parse(await answer.text(), data.outputs.some(o => wide.test(o.datatype)) ? whole : undefined);
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  const scored = new Set(outputs.filter(o => o.parameters).map(o => o.name));
  return { outputs: body.outputs.map(o => ({ ...o, classes: scored.has(o.name) })), took: performance.now() - began };
}

// Reads the classes of an output, where it has any: [label, value].
function classes(o) {
  if (o.classes && o.data.length) {
    return o.data.map(v => {
      const [value, index, ...label] = v.split(":");
      return [label.join(":") || index, +value];
    });
  }
  const k = o.shape.at(-1);
  if (o.shape.length === 2 && o.shape[0] === 1 && k > 1 && typeof o.data[0] === "number") {
    return o.data.map((v, i) => [String(i), v]).sort((a, b) => b[1] - a[1]).slice(0, most);
  }
  return null;
}

// Shows an output, as bars where it is scores of classes.
function output(o) {
  const found = classes(o);
  if (!found) {
    const flat = o.data.flat(Infinity), real = /^(FP|BF)/.test(o.datatype);
    const shown = flat.slice(0, 200).map(v => real && typeof v === "number" ? +v.toPrecision(5) : String(v));
    return el("div", {}, el("h3", {}, o.name, el("small", {}, ` ${o.datatype} ${o.shape.join(" × ")}`)),
      el("pre", { tabindex: 0, "aria-label": o.name }, shown.join(" ") + (flat.length > shown.length ? ` … ${plural(flat.length - shown.length, "more value")}` : "")));
  }
  const parts = found.every(([, v]) => v >= -1e-6 && v <= 1.000001);
  const scale = parts ? 1 : Math.max(...found.map(([, v]) => Math.abs(v)), 1e-9);
  return el("div", {}, el("h3", {}, o.name), el("ol", { class: "scores" }, found.map(([label, v], i) => {
    const bar = el("i");
    bar.style.width = Math.max(0, 100 * v / scale) + "%";
    return el("li", { class: i ? null : "first" }, el("span", { class: "label" }, label), el("span", { class: "bar", "aria-hidden": "true" }, bar),
      el("span", { class: "value" }, parts ? (100 * v).toFixed(1) + " %" : v.toPrecision(4)));
  })));
}

// The part of a view in which a model is tried: by the model that is served, or as question does. Its
// again() asks about the same once more, of a model that has changed.
export function attempt(name, data, question = ask) {
  const image = pictureOf(data), result = el("div", { class: "result" }), told = el("p", { class: "faint", role: "status" });
  const ways = [];
  if (image && image.height <= 64 && image.width <= 64) ways.push(["Draw", pad(image, go)]);
  if (image) ways.push(["Picture", picture(image, go)]);
  ways.push(["Numbers", numbers(data.inputs, go)]);
  let running = false, next = null, last = null;

  // Asks for the newest inputs only: what came while it asked takes the place of what waited.
  async function go(inputs) {
    last = inputs;
    next = inputs;
    if (!inputs) {
      result.replaceChildren();
      say(told, "");
      return;
    }
    if (running) return;
    running = true;
    while (next) {
      const now = next;
      next = null;
      try {
        const { outputs, took } = await question(name, data, now);
        if (!last) continue; // what was asked about is no more
        result.replaceChildren(...outputs.map(output));
        const best = outputs.map(classes).find(c => c);
        say(told, (best ? `${best[0][0]} comes first. ` : "") + `Answered in ${ms(took)}.`);
        put(told, "class", "faint");
      } catch (e) {
        if (!last) continue;
        result.replaceChildren();
        put(say(told, e.message), "class", "bad");
      }
    }
    running = false;
  }

  const id = "try" + ++made;
  const place = el("div", { class: "way" }), tabs = ways.map(([title], i) => el("button", { type: "button", role: "tab", id: id + "way" + i,
    "aria-controls": id + "way", onclick: () => open(i), onkeydown: e => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: ways.length - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      open((to + ways.length) % ways.length);
      tabs[(to + ways.length) % ways.length].focus();
    } }, title));
  put(place, "id", id + "way");
  put(place, "role", "tabpanel");
  function open(i) {
    tabs.forEach((t, k) => { put(t, "aria-selected", String(k === i)); put(t, "tabindex", k === i ? 0 : -1); });
    put(place, "aria-labelledby", id + "way" + i);
    place.replaceChildren(ways[i][1].root);
    go(null);
    if (ways[i][1].shown) ways[i][1].shown();
  }
  open(0);
  const root = el("section", { class: "panel try", "aria-labelledby": id }, el("div", { class: "head" }, el("h2", { id }, "Try it"),
    el("div", { class: "tabs", role: "tablist", "aria-labelledby": id, hidden: ways.length < 2 }, tabs)),
    el("div", { class: "pair" }, place, el("div", {}, told, result)));
  return Object.assign(root, { again: () => last && go(last) });
}
