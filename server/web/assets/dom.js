// Elements, and numbers as people read them.

// Makes an element. Attributes that begin with "on" are listeners; null and false leave one out.
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// Makes an element of a drawing.
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return e;
}

// Sets the text of an element if it is another.
export function say(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
  return e;
}

// Sets or removes an attribute if it is another.
export function put(e, name, value) {
  if (value === null || value === undefined || value === false) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
  } else if (e.getAttribute(name) !== String(value)) e.setAttribute(name, value);
  return e;
}

// Makes the children of an element those of the list, moving only what is elsewhere. The focus stays
// where it is, which browsers take from what is moved.
export function arrange(parent, children) {
  const on = parent.contains(document.activeElement) ? document.activeElement : null;
  const wanted = new Set(children);
  for (const c of [...parent.childNodes]) if (!wanted.has(c)) c.remove();
  let at = parent.firstChild;
  for (const c of children) {
    if (c === at) at = at.nextSibling;
    else parent.insertBefore(c, at);
  }
  if (on && on.isConnected && document.activeElement !== on) on.focus({ preventScroll: true });
}

// Three digits that matter.
const three = v => +v.toPrecision(3) >= 100 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(3));

export const count = n => Math.round(n).toLocaleString("en");
export const rate = v => v === 0 ? "0" : v < 10 ? v.toFixed(1) : count(v);
export const percent = v => v > 0 && v < .01 ? "<1 %" : Math.round(100 * v) + " %";

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 999.5 && i < units.length - 1; i++) n /= 1024;
  return three(n) + " " + units[i];
}

export function ms(v) {
  if (v === null || v === undefined) return "–";
  if (v < .9995) return three(v * 1000) + " µs";
  if (v < 999.5) return three(v) + " ms";
  return three(v / 1000) + " s";
}

export function span(seconds) {
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [unit, name] = units.find(([u]) => seconds >= u) || units[3];
  const n = Math.max(0, Math.floor(seconds / unit));
  return `${n} ${name}${n === 1 ? "" : "s"}`;
}

export const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

// Marks of an axis from 0 to hi: multiples of 1, 2 or 5 times a power of ten, at most so many.
export function ticks(hi, most) {
  if (!(hi > 0)) return [0, 1];
  for (let k = Math.floor(Math.log10(hi / most)); ; k++) {
    for (const m of [1, 2, 5]) {
      const step = m * 10 ** k, n = Math.ceil(hi / step - 1e-9);
      if (n <= most) return Array.from({ length: n + 1 }, (_, i) => +(i * step).toPrecision(12));
    }
  }
}
