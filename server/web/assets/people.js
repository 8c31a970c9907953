// Accounts, their tokens, and the audit: what the administrator of a server looks after.
import { el, say, count } from "./dom.js";
import { get, request, act, alarm, note } from "./api.js";

const rights = { read: "see that a model is there", infer: "ask it", load: "load and unload it", push: "change its files",
  job: "run jobs with it", admin: "all of these" };
const time = text => text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) : "never";

// A table of texts and elements, a row an object.
function rows(caption, heads, list) {
  return el("table", { class: "cards" }, el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, heads.map(h => el("th", { scope: "col", class: "left" }, h)))),
    el("tbody", {}, list.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name),
      cells.map((c, i) => el("td", { class: "left", "data-label": heads[i + 1] }, c))))));
}

// Asks a person whether something is to be done that cannot be undone.
export function sure(question, verb) {
  return new Promise(done => {
    const box = el("dialog", { "aria-labelledby": "question", onclose: () => { box.remove(); done(box.returnValue === "yes"); } },
      el("form", { method: "dialog" }, el("p", { id: "question" }, question),
        el("p", { class: "controls" }, el("button", { value: "no" }, "Cancel"), el("button", { class: "grave", value: "yes" }, verb))));
    document.body.append(box);
    box.showModal();
  });
}

export function accounts(main) {
  const list = el("div"), tokens = el("div"), made = el("div", { role: "status" });
  const name = el("input", { required: true, autocomplete: "off" }), models = el("input", { value: "*", required: true });
  const boxes = Object.entries(rights).map(([r, what]) => el("label", { title: what }, el("input", { type: "checkbox", value: r, checked: r === "read" || r === "infer" }), " " + r));
  const whose = el("select"), called = el("input", { required: true, autocomplete: "off", placeholder: "such as laptop" }), until = el("input", { type: "date" });
  const add = el("button", { class: "main" }, "Add the account"), make = el("button", { class: "main" }, "Make a token");

  main.replaceChildren(el("h1", { tabindex: -1 }, "Accounts"), list,
    el("form", { class: "people", onsubmit: async e => {
      e.preventDefault();
      const given = boxes.map(b => b.firstElementChild).filter(b => b.checked).map(b => b.value);
      const done = await act(add, () => request("POST", "v1/accounts", { name: name.value, weight: 1, grants: given.length ? [{ models: models.value, rights: given }] : [] }),
        () => `The account ${name.value} is there.`);
      if (done) {
        name.value = "";
        show();
      }
    } }, el("h2", {}, "A new account"), el("div", { class: "share" }, el("label", {}, "Name", name), el("label", {}, "Models, such as team-*", models),
      el("fieldset", { class: "rights" }, el("legend", {}, "Rights on them"), boxes), add)),
    el("section", {}, el("h2", {}, "Tokens"), tokens, el("form", { class: "people", onsubmit: async e => {
      e.preventDefault();
      const body = { account: whose.value, name: called.value };
      if (until.value) body.expires = until.value + "T23:59:59Z";
      const done = await act(make, () => request("POST", "v1/tokens", body), d => `The token ${d.name} of ${d.account} is made.`);
      if (!done) return;
      called.value = "";
      const text = el("input", { readonly: true, value: done.text, "aria-label": "The new token" });
      made.replaceChildren(el("p", {}, "This is the token. It is shown this once."), el("p", { class: "controls wide" }, text,
        el("button", { type: "button", onclick: () => copy(text) }, "Copy")));
      text.select();
      show();
    } }, el("div", { class: "share" }, el("label", {}, "Account", whose), el("label", {}, "Name", called), el("label", {}, "Until", until), make)), made));

  const button = (label, question, path, told) => el("button", { type: "button", onclick: async e => {
    const at = e.currentTarget;
    if (await sure(question, label) && await act(at, () => request("DELETE", path), () => told)) show();
  } }, label);

  async function show() {
    try {
      const [{ accounts }, { tokens: all }] = await Promise.all([get("v1/accounts"), get("v1/tokens")]);
      list.replaceChildren(rows("Accounts", ["Account", "Rights", "Weight", "Requests that may wait", ""], accounts.map(a => [a.name,
        el("ul", { class: "grants" }, (a.grants || []).map(g => el("li", {}, `${g.rights.join(", ")} on ${g.models}`))), String(a.weight), a.queue ? count(a.queue) : "as the server says",
        button("Remove", `Remove the account ${a.name}, with its tokens? What it has asked for is answered.`, "v1/accounts/" + encodeURIComponent(a.name), `The account ${a.name} is removed.`)])));
      tokens.replaceChildren(rows("Tokens", ["Token", "Account", "Made", "Until", ""], (all || []).map(t => [t.name, t.account, time(t.made), time(t.expires),
        button("Revoke", `Revoke the token ${t.name} of ${t.account}? Who uses it is refused from then on.`, `v1/tokens/${encodeURIComponent(t.account)}/${encodeURIComponent(t.name)}`, `The token ${t.name} is revoked.`)])));
      whose.replaceChildren(...accounts.map(a => el("option", {}, a.name)));
    } catch (e) {
      alarm(e.message);
    }
  }
  show();
}

// Copies what a field has. Pages that come by plain HTTP from another machine have no clipboard, and
// copy what is selected.
async function copy(field) {
  try {
    await navigator.clipboard.writeText(field.value);
  } catch {
    field.select();
    if (!document.execCommand("copy")) return alarm("this browser does not let the page copy it: select it, and copy it by hand");
  }
  note("The token is copied.");
}

const page = 200; // records that are asked for at once

export function audit(main) {
  const body = el("tbody"), told = el("p", { class: "faint", role: "status" });
  const heads = ["Record", "When", "Who", "By", "What", "Model", "About", "Result"];
  const search = el("input", { type: "search", placeholder: "part of any field", oninput: sift });
  const older = el("button", { type: "button", onclick: more }, "Older records");
  let first = 0;
  main.replaceChildren(el("h1", { tabindex: -1 }, "Audit"), el("p", {}, "Who did what, the newest first. Each record has the hash of the one before it: ", el("code", {}, "weir audit verify"), " holds that none was changed or left out."),
    el("div", { class: "controls" }, el("label", {}, "Find ", search)), told,
    el("table", { class: "cards" }, el("caption", { class: "unseen" }, "Records of the audit"),
      el("thead", {}, el("tr", {}, heads.map(h => el("th", { scope: "col", class: "left" }, h)))), body), older);

  function sift() {
    const text = search.value.toLowerCase();
    let n = 0;
    for (const tr of body.children) {
      tr.hidden = !tr.textContent.toLowerCase().includes(text);
      if (!tr.hidden) n++;
    }
    say(told, `${count(n)} of the ${count(body.children.length)} newest records`);
  }
  async function more() {
    older.disabled = true;
    try {
      const { records } = await get(`v1/audit?before=${first}&limit=${page}`);
      body.append(...records.map(r => el("tr", {}, el("th", { scope: "row" }, String(r.seq)),
        [time(r.time), r.who || "–", r.via || "–", r.what, r.model || "–", r.about || "–", r.result + (r.count > 1 ? `, ${count(r.count)} times` : "")]
          .map((c, i) => el("td", { class: i === 6 && r.result !== "ok" ? "left bad" : "left", "data-label": heads[i + 1] }, c)))));
      first = records.length ? records.at(-1).seq : 0;
      older.hidden = records.length < page;
      sift();
    } catch (e) {
      alarm(e.message);
    }
    older.disabled = false;
  }
  more();
}
