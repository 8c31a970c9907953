// Batch jobs: how far each is, what happened to it, and its end.
import { el, say, put, arrange, bytes, count, percent } from "./dom.js";
import { state, follow } from "./feed.js";
import { get, request, act, alarm, token } from "./api.js";
import { sure } from "./people.js";

const time = ms => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const ended = j => j.state === "done" || j.state === "failed" || j.state === "cancelled";
const path = (j, below) => "v1/jobs/" + j.id + (below || "");

// A bar of rows that are done.
function progress() {
  const done = el("i", { class: "held" }), told = el("span");
  const root = el("div", {}, told, el("span", { class: "bar", "aria-hidden": "true" }, done));
  return { root, set: j => {
    say(told, `${count(j.done_rows)} of ${count(j.rows)}, ${percent(j.done_rows / j.rows)}`);
    done.style.width = 100 * j.done_rows / j.rows + "%";
  } };
}

// The controls of a job: what can be done with it as it stands.
function controls(id) {
  const now = () => [...state.jobs.values()].find(j => j.id === id);
  const button = (label, ask, method, below, told) => el("button", { type: "button", onclick: async e => {
    const at = e.currentTarget, j = now();
    if (j && (!ask || await sure(ask(j), label))) await act(at, () => request(method, path(j, below)), () => told(j));
  } }, label);
  const cancel = button("Cancel", j => `Cancel job ${j.id}, ${j.name}? The ${count(j.done_rows)} rows that are done are lost.`, "POST", "/cancel", j => `Job ${j.id} is cancelled.`);
  const again = button("Try again", null, "POST", "/retry", j => `Job ${j.id} is queued again.`);
  const remove = button("Remove", j => `Remove job ${j.id}, ${j.name}, with its result?`, "DELETE", "", j => `Job ${j.id} is removed.`);
  const result = el("button", { type: "button", onclick: e => save(now(), e.currentTarget) }, "Save the result");
  const root = el("div", { class: "controls" }, result, cancel, again, remove);
  return { root, set: j => {
    cancel.hidden = ended(j);
    again.hidden = j.state !== "failed";
    remove.hidden = !ended(j);
    result.hidden = j.state !== "done";
  } };
}

// Saves the result of a job: by a link where nothing need be shown for it, else through memory.
async function save(j, at) {
  const name = `job-${j.id}.npz`;
  if (!token.get()) return el("a", { href: path(j, "/result"), download: name }).click();
  at.disabled = true;
  try {
    const answer = await fetch(path(j, "/result"), { headers: token.header() });
    if (!answer.ok) throw new Error((await answer.json()).error);
    const url = URL.createObjectURL(await answer.blob());
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  } catch (e) {
    alarm(e.message);
  }
  at.disabled = false;
}

// Shows all jobs or, with an ID, one with its log, and returns what ends it.
export function jobs(main, id) {
  return id ? one(main, Number(id)) : all(main);
}

function all(main) {
  const heads = ["Job", "Name", "Model", "State", "Rows", "Handed in", ""], body = el("tbody"), rows = new Map();
  const none = el("p", {}, "There are no jobs. ", el("code", {}, "weir job run batch --model NAME --input data.npz --out results"), " hands one in.");
  const list = el("table", { class: "cards" }, el("caption", { class: "unseen" }, "Batch jobs, the newest first"),
    el("thead", {}, el("tr", {}, heads.map(h => el("th", { scope: "col", class: "left" }, h)))), body);
  main.replaceChildren(el("h1", { tabindex: -1 }, "Jobs"), none, list);

  function row(j) {
    const bar = progress(), buttons = controls(j.id);
    const cells = [j.name + (j.account ? ", " + j.account : ""), el("a", { href: "#/models/" + encodeURIComponent(j.model) }, j.model), "", bar.root, time(j.made_ms), buttons.root]
      .map((c, i) => el("td", { class: "left", "data-label": heads[i + 1] || null }, c));
    const tr = el("tr", {}, el("th", { scope: "row" }, el("a", { href: "#/jobs/" + j.id }, String(j.id))), cells);
    return { tr, set: j => {
      say(cells[2], j.state);
      put(cells[2], "class", j.state === "failed" ? "left bad" : "left");
      put(cells[2], "title", j.reason);
      bar.set(j);
      buttons.set(j);
    } };
  }
  function update() {
    const now = [...state.jobs.values()].sort((a, b) => b.id - a.id);
    for (const j of now) {
      if (!rows.has(j.id)) rows.set(j.id, row(j));
      rows.get(j.id).set(j);
    }
    arrange(body, now.map(j => rows.get(j.id).tr));
    for (const id of rows.keys()) if (!now.some(j => j.id === id)) rows.delete(id);
    none.hidden = now.length > 0;
    list.hidden = !now.length;
  }
  update();
  return follow(update);
}

function one(main, id) {
  const about = el("p"), why = el("p", { class: "bad" }), bar = progress(), buttons = controls(id);
  const log = el("ol", { class: "log" }), gone = el("p", {}, "There is no such job, or it is not among the newest.");
  const there = el("div", {}, about, why, el("p", { class: "memory" }, bar.root), buttons.root, el("h2", {}, "What happened"), log);
  main.replaceChildren(el("h1", { tabindex: -1 }, "Job " + id), gone, there);
  let read = 0, seen = "", asking = false;

  async function lines(j) {
    asking = true;
    try {
      const more = (await get(path(j, "/log?after=" + read))).lines;
      log.append(...more.map(l => el("li", {}, el("time", { datetime: l.time }, time(Date.parse(l.time))), " ", l.text)));
      if (more.length) read = more.at(-1).n;
    } catch (e) {
      alarm(e.message);
    }
    asking = false;
    update();
  }
  function update() {
    const j = [...state.jobs.values()].find(j => j.id === id);
    gone.hidden = !!j;
    there.hidden = !j;
    if (!j) return;
    say(about, `${j.name}${j.account ? ", of " + j.account : ""}: ${j.state}, with model ${j.model}, handed in ${time(j.made_ms)}` +
      (j.ended_ms ? `, ended ${time(j.ended_ms)}` : "") + (j.state === "done" ? `; the result has ${bytes(j.result_bytes)}` : ""));
    say(why, j.reason || "");
    why.hidden = !j.reason;
    bar.set(j);
    buttons.set(j);
    if (!asking && seen !== j.state + j.reason) {
      seen = j.state + j.reason;
      lines(j);
    }
  }
  update();
  return follow(update);
}
