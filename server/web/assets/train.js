// Trainings: how far each is, what its model has learnt, and what can be done with it.
import { el, say, put, arrange, bytes, count, ms, percent } from "./dom.js";
import { get, request, act, may } from "./api.js";
import { chart } from "./chart.js";
import { memoryBar, tile } from "./parts.js";
import { attempt } from "./try.js";

const every = 500; // milliseconds between two looks
const number = v => v === 0 ? "0" : String(+v.toPrecision(3));
const path = (name, below) => "v1/train/" + encodeURIComponent(name) + (below || "");

// Asks the weights as they are about a sample.
async function ask(name, data, inputs) {
  const began = performance.now(), sample = {};
  for (const i of inputs) sample[i.name] = i.data.flat(Infinity).map(v => v * (data.divide || 1));
  const { scores, update } = await request("POST", path(name, "/try"), { inputs: sample });
  return { outputs: [{ name: `scores after update ${count(update)}`, datatype: "FP32", shape: [1, scores.length], data: scores }],
    took: performance.now() - began };
}

function training(name) {
  const badge = el("span", { class: "state" }), why = el("p", { class: "bad" }), made = el("i", { class: "held" });
  const told = el("span"), memory = memoryBar(), held = el("span"), file = el("p", { class: "faint" }), trial = el("div");
  const figures = { loss: tile("Loss"), metric: tile("Metric", "of samples it has not seen"), rate: tile("Learning rate"),
    scale: tile("Scale", "of the loss"), step: tile("An update"), wait: tile("Waits for data"),
    recent: tile("Of the device", "over the last second"), time: tile("Device time"), recalls: tile("Interrupted", "times that requests took the device") };
  const charts = { loss: chart("Loss", [{ name: "loss", colour: 0 }], number, .004), metric: chart("Metric", [{ name: "metric", colour: 2 }], number, .004) };
  const button = (label, what, words) => el("button", { type: "button", onclick: e =>
    act(e.currentTarget, () => request("POST", path(name, "/" + what)), () => `${name} ${words}.`).then(s => { if (s) update(s); }) }, label);
  const pause = button("Pause", "pause", "is paused"), on = button("Continue", "continue", "goes on"), end = button("Stop", "stop", "gives its memory back");
  const root = el("section", { class: "panel", "aria-label": "Training " + name },
    el("div", { class: "head" }, el("h2", {}, name), badge, el("div", { class: "controls" }, pause, on, end)), why,
    el("p", { class: "memory" }, el("span", { class: "bar", "aria-hidden": "true" }, made), told),
    el("dl", { class: "tiles" }, Object.values(figures).map(f => f.box)),
    el("p", { class: "memory" }, memory.bar, held), file,
    el("div", { class: "charts" }, Object.values(charts).map(c => c.root)), trial);

  let trying = null, tried = 0; // after which update
  function update(s) {
    const looks = { running: "ready", done: "ready", failed: "failed" };
    put(say(badge, s.phase), "data-state", looks[s.phase] || "loading");
    say(why, s.reason || "");
    why.hidden = !s.reason;
    const ended = s.phase === "done" || s.phase === "failed", may_ = may("admin", "*");
    pause.hidden = !may_ || s.phase !== "running";
    on.hidden = !may_ || s.phase !== "paused" && s.phase !== "stopped";
    end.hidden = !may_ || ended || s.phase === "stopped";
    made.style.width = 100 * s.update / Math.max(1, s.updates) + "%";
    say(told, s.updates ? `update ${count(s.update)} of ${count(s.updates)}, epoch ${count(s.epoch)}` : "no update yet");
    figures.loss.set(number(s.loss));
    figures.metric.set(!s.metric_name ? "–" : s.metric_name === "accuracy" ? percent(s.metric) : number(s.metric));
    figures.rate.set(number(s.rate));
    figures.scale.set(number(s.scale));
    figures.step.set(ms(s.step_ms));
    figures.wait.set(percent(s.data_wait_share));
    figures.recent.set(percent(s.device_recent));
    figures.time.set(ms(1000 * s.device_seconds));
    figures.recalls.set(count(s.revocations));
    memory.set(s.memory_bytes, 0, s.whole_bytes);
    say(held, `${bytes(s.memory_bytes)} held, ${bytes(s.need_bytes)} needed`);
    say(file, s.model ? `The model is ${s.model}, its digest ${s.digest}.` : "");
    file.hidden = !s.model;
    charts.loss.set([s.loss_curve.values], 0, s.loss_curve.updates);
    charts.metric.set([s.metric_curve.values], 0, s.metric_curve.updates);
    charts.metric.root.hidden = !s.metric_curve.values.length;
    trial.hidden = !s.inputs || !s.inputs.length || s.phase !== "running" && s.phase !== "paused";
    if (trial.hidden) return;
    if (!trying) trial.append(trying = attempt(name, { inputs: s.inputs, outputs: [], divide: s.divide }, ask));
    if (tried !== s.update) trying.again();
    tried = s.update;
  }
  return { root, update, stop: () => Object.values(charts).forEach(c => c.stop()) };
}

// Shows all trainings in main, and returns what ends it.
export function trainings(main) {
  const list = el("div"), away = el("p", { class: "bad", hidden: true }), all = new Map();
  main.replaceChildren(el("h1", { tabindex: -1 }, "Training"), away, list);
  let asking = false, over = false;
  async function look() {
    if (asking || document.visibilityState !== "visible") return;
    asking = true;
    try {
      const { trainings } = await get("v1/train");
      if (over) return;
      for (const s of trainings) {
        if (!all.has(s.name)) all.set(s.name, training(s.name));
        all.get(s.name).update(s);
      }
      arrange(list, trainings.map(s => all.get(s.name).root));
      away.hidden = true;
    } catch (e) {
      say(away, e.message);
      away.hidden = false;
    }
    asking = false;
  }
  const clock = setInterval(look, every);
  look();
  return () => {
    over = true;
    clearInterval(clock);
    all.forEach(t => t.stop());
  };
}
