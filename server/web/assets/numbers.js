// Inputs as numbers in JSON.
import { el, say } from "./dom.js";

// The shape of nested lists, and their values one after another.
function flatten(v, name) {
  const shape = [];
  for (let list = v; Array.isArray(list); list = list[0]) shape.push(list.length);
  const even = (v, k) => k === shape.length ? !Array.isArray(v) : Array.isArray(v) && v.length === shape[k] && v.every(v => even(v, k + 1));
  if (!even(v, 0)) throw new Error(`${name}: the lists are not equally long`);
  return { shape, data: v.flat(Infinity) };
}

// An integer that JavaScript's numbers cannot hold is sent as it is written, where the browser tells.
function whole(_, v, as) {
  if (typeof v !== "number" || Number.isSafeInteger(v) || !Number.isInteger(v)) return v;
  return as && JSON.rawJSON && /^-?\d+$/.test(as.source) ? JSON.rawJSON(as.source) : v;
}

// Reads an input. One value stands for as many of it as the shape asks for.
function read(input, text, shape) {
  let v;
  try {
    v = JSON.parse(text, /INT64$/.test(input.datatype) ? whole : undefined);
  } catch (e) {
    throw new Error(`${input.name}: ${e.message}`);
  }
  const want = shape.trim() ? shape.split(/[\s,×x]+/).filter(s => s).map(Number) : [];
  if (want.some(n => !Number.isInteger(n) || n < 0)) throw new Error(`${input.name}: the shape is whole numbers, such as 1, 10`);
  const size = want.reduce((a, n) => a * n, 1);
  if (!Array.isArray(v)) {
    if (size > 1e7) throw new Error(`${input.name}: ${size} values are too many to type`);
    return { ...input, shape: want, data: Array(size).fill(v) };
  }
  const found = flatten(v, input.name);
  if (found.shape.length === 1 && found.data.length === size) found.shape = want;
  return { name: input.name, datatype: input.datatype, ...found };
}

export function numbers(list, go) {
  const told = el("p", { class: "bad", role: "status" });
  const fields = list.map(input => {
    const first = input.datatype === "BYTES" ? '"text"' : input.datatype === "BOOL" ? "true" : "0";
    const values = el("textarea", { rows: 4, spellcheck: "false" }, first);
    const shape = el("input", { type: "text", value: input.shape.map(n => n < 0 ? 1 : n).join(", "), inputmode: "numeric" });
    return { input, values, shape, root: el("fieldset", {}, el("legend", {}, input.name, el("small", {}, " " + input.datatype)),
      el("label", {}, "Values, one for all or a list", values), el("label", {}, "Shape", shape)) };
  });
  const form = el("form", { class: "numbers", onsubmit: e => {
    e.preventDefault();
    say(told, "");
    try {
      go(fields.map(f => read({ name: f.input.name, datatype: f.input.datatype }, f.values.value, f.shape.value)));
    } catch (e) {
      go(null);
      say(told, e.message);
    }
  } }, fields.map(f => f.root), told, el("button", { class: "main" }, "Ask"));
  return { root: form };
}
