// Requests to the server, and what the person is told of them.
import { el } from "./dom.js";

// The token of an account lasts as long as the tab.
export const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: text => text ? sessionStorage.setItem("token", text) : sessionStorage.removeItem("token"),
  header: () => token.get() ? { Authorization: "Bearer " + token.get() } : {},
};

let ask = () => {};     // shows the form that asks for a token
let given = null;       // resolves once there is one

// Reports whether a token is waited for.
export const asked = () => given !== null;

export function onRefused(f) { ask = f; }

// Waits until the person has given another token.
export function refused() {
  if (!given) given = Promise.withResolvers();
  ask();
  return given.promise;
}

export function signIn(text) {
  token.set(text.replace(/[^\x21-\x7e]/g, "?")); // what no header can have is no token either
  grants = null;
  if (given) given.resolve();
  given = null;
}

// Asks the server. What it answers is returned as it came where raw is set, else read as JSON; an
// error has the server's own words.
export async function request(method, path, body, raw) {
  const headers = token.header();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("the server does not answer");
  }
  if (answer.ok) return raw ? answer.text() : answer.json();
  let text = `${answer.status} ${answer.statusText}`;
  try { text = (await answer.json()).error || text; } catch { /* it has no words */ }
  throw Object.assign(new Error(text), { status: answer.status });
}

// What the account may, null where there are none or nothing is known of it yet.
let grants = null;

// Asks what the account may, and returns whether that is other than what was known.
export async function know() {
  const before = JSON.stringify(grants);
  grants = (await get("v1/account")).grants || [];
  return JSON.stringify(grants) !== before;
}

// Reports whether a right on a model can be had; the server decides.
export const may = (right, model) => !grants || grants.some(g =>
  (g.rights.includes(right) || g.rights.includes("admin")) && covers(g.models, model));

// Matches a name as Go's path.Match does.
function covers(pattern, name) {
  if (pattern === "*") return true;
  const parts = { "*": "[^/]*", "?": "[^/]" };
  const text = pattern.replace(/\\(.)|\[\^?[^\]]*\]|[^]/g, (c, plain) => parts[c] || (c.length > 1 && !plain ? c : "\\u{" + (plain || c).codePointAt(0).toString(16) + "}"));
  try { return new RegExp("^" + text + "$", "u").test(name); } catch { return false; }
}

export const get = path => request("GET", path);
export const model = name => "v1/models/" + encodeURIComponent(name);

// Tells the person something. An undo is a function that takes it back.
export function note(text, undo) {
  const box = document.getElementById("notes");
  const line = el("div", { class: "note" }, el("span", {}, text)), leave = () => leaves(line);
  let left = undo ? 20 : 6; // seconds, which do not pass while it is looked at
  const clock = setInterval(() => {
    if (line.matches(":hover, :focus-within")) return;
    if (--left < 0) leave();
    if (!line.isConnected) clearInterval(clock);
  }, 1000);
  if (undo) line.append(el("button", { type: "button", onclick: () => { leave(); undo(); } }, "Undo"));
  line.append(closer(leave));
  box.append(line);
  while (box.childElementCount > 3) box.firstElementChild.remove();
}

// Takes a message away. Who was on it is on the page then.
function leaves(line) {
  const inside = line.contains(document.activeElement);
  line.remove();
  if (inside) document.getElementById("main").focus();
}

// Tells of an error, which stays until it is closed.
export function alarm(text) {
  const box = document.getElementById("alerts");
  const line = el("div", { class: "note wrong" }, el("span", {}, text));
  line.append(closer(() => leaves(line)));
  box.append(line);
  while (box.childElementCount > 2) box.firstElementChild.remove();
}

const closer = leave => el("button", { type: "button", class: "quiet", "aria-label": "Close the message", onclick: leave }, "✕");

// Does what a control asks for: change() answers with what was before and is now, told() says what
// has happened, and undo() of the answer takes it back.
export async function act(control, change, told, undo) {
  if (control) control.disabled = true;
  try {
    const done = await change();
    note(told(done), undo && (() => act(null, () => undo(done), d => "Undone. " + told(d))));
    return done;
  } catch (e) {
    alarm(e.message);
    return null;
  } finally {
    if (control) {
      const lost = document.activeElement === document.body;
      control.disabled = false;
      if (lost) control.focus();
    }
  }
}
