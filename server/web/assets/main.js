// The page: which view is shown, and what is around it.
import { el, say, put, arrange, span } from "./dom.js";
import { state, follow, run } from "./feed.js";
import { onRefused, asked, signIn, token, know, may } from "./api.js";
import { overview } from "./overview.js";
import { model } from "./model.js";
import { accounts, audit } from "./people.js";
import { jobs } from "./jobs.js";
import { trainings } from "./train.js";

const main = document.getElementById("main"), nav = document.querySelector("nav"), live = document.getElementById("live");
let stop = () => {};

const admin = s => s.accounts && may("admin", "*");

// The views by the first part of the address after #/.
const views = {
  "": { name: "Overview", show: overview },
  models: { show: model },
  jobs: { name: "Jobs", show: jobs, there: s => s.jobs },
  training: { name: "Training", show: trainings, there: s => s.trainings && may("read", "*") },
  // what these show does not depend on what is known of rights: the server gives it, or does not
  accounts: { name: "Accounts", show: accounts, there: admin, steady: true },
  audit: { name: "Audit", show: audit, there: admin, steady: true },
};

// The view of the address, and what follows it there.
function here() {
  const [key, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return [Object.hasOwn(views, key) ? views[key] : views[""], ...rest];
}

function show(first) {
  if (asked()) return ask();
  const [view, ...rest] = here();
  let argument = rest.join("/");
  try { argument = decodeURIComponent(argument); } catch { /* it is shown as it is */ }
  stop();
  stop = view.show(main, argument) || (() => {});
  const h1 = main.querySelector("h1");
  document.title = `${argument || h1.textContent} · weir`;
  if (first !== true) {
    scrollTo(0, 0);
    h1.focus();
  }
  around();
}

// What is around the view.
function around() {
  const s = state.server;
  const now = location.hash.replace(/^#\/?/, "").split("/")[0];
  const links = Object.entries(views).filter(([, v]) => v.name && s && !asked() && (!v.there || v.there(s)));
  arrange(nav, links.length < 2 ? [] : links.map(([key, v]) => {
    const a = [...nav.children].find(a => a.hash === "#/" + key) || el("a", { href: "#/" + key }, v.name);
    return put(a, "aria-current", key === now ? "page" : null);
  }));
  const away = asked() ? "not signed in" : state.why || (s ? "the server does not answer" : "connecting");
  const words = !state.live ? away : s.ready ? "ready" : "not ready";
  say(live.lastElementChild, words);
  put(live, "data-state", !state.live ? "off" : s.ready ? "ready" : "loading");
  put(live, "title", s ? `version ${s.version}, up for ${span((Date.now() - s.started_ms) / 1000)}` : null);
}

// Asks for a token.
function ask() {
  stop();
  stop = () => {};
  const input = el("input", { type: "password", autocomplete: "current-password", required: true, id: "token" });
  main.replaceChildren(el("h1", { tabindex: -1 }, "Sign in"), el("form", { class: "signin", onsubmit: e => {
    e.preventDefault();
    known = 0;
    signIn(input.value.trim());
    show(true);
  } }, token.get() ? el("p", { class: "bad" }, "That token is not one of this server, or may not see anything.") : null,
    el("p", {}, "This server knows accounts. A token is made with ", el("code", {}, "weir account token"), ", and is kept until this tab is closed."),
    el("label", { for: "token" }, "Token"), input, el("button", { class: "main" }, "Sign in")));
  input.focus();
  document.title = "Sign in · weir";
  around();
}

// What an account may is asked once it is known that there are accounts, and again where that may
// have changed.
let known = 0;
follow(() => {
  if (known === state.whole || !state.server || !state.server.accounts) return;
  const now = known = state.whole;
  // A view that is made anew loses what was typed into it, and a token that is shown once.
  know().then(other => other && (here()[0].steady ? around() : show(true)), () => { if (known === now) known = 0; });
});

onRefused(ask);
addEventListener("hashchange", show);
follow(around);
show(true);
run();
