// Pieces that several views are made of.
import { el, say, put } from "./dom.js";

// A figure with its name.
export function tile(name, hint) {
  const value = el("dd"), box = el("div", { class: "tile" }, el("dt", { title: hint }, name), value);
  return { box, set: (text, bad) => { say(value, text); put(value, "class", bad ? "bad" : null); } };
}

// A bar of memory: what is held of what is promised of what there is.
export function memoryBar() {
  const held = el("i", { class: "held" }), promised = el("i", { class: "promised" });
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, promised, held);
  const width = (e, part) => { e.style.width = 100 * Math.min(1, Math.max(0, part)) + "%"; };
  return { bar, set: (have, promise, all) => { width(held, all ? have / all : 0); width(promised, all ? promise / all : 0); } };
}
