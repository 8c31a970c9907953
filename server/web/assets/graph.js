// The graph of a model, as weir inspect --dump html writes it.
import { el, say } from "./dom.js";
import { request, model as path, token, alarm } from "./api.js";

export function graph(name) {
  const place = el("div", { class: "graph" }), address = path(name) + "/graph";
  const root = el("details", { ontoggle: load }, el("summary", {}, el("h2", {}, "Graph")), place);
  let asked = false;

  async function load() {
    if (asked || !root.open) return;
    asked = true;
    place.setAttribute("aria-busy", "true");
    try {
      const text = await request("GET", address, undefined, true); // its style is base.css, which is here
      const page = new DOMParser().parseFromString(text.replace(/<style>[^]*?<\/style>/g, ""), "text/html");
      const stages = document.importNode(page.querySelector(".stages"), true);
      const box = el("div", { class: stages.className, tabindex: 0, role: "region", "aria-label": "Graph of " + name });
      box.append(...stages.childNodes);
      place.replaceChildren(finder(box), box);
      if (!token.get()) place.append(el("p", {}, el("a", { href: address }, "The graph as a page of its own")));
    } catch (e) {
      asked = false;
      alarm(e.message);
    }
    place.removeAttribute("aria-busy");
  }
  return root;
}

// Marks all places of a value.
function finder(box) {
  const values = [...box.querySelectorAll("b")], told = el("output");
  const input = el("input", { type: "search", placeholder: "%value", oninput: () => mark(input.value) });
  function mark(name) {
    input.value = name;
    let n = 0;
    for (const v of values) if (v.classList.toggle("marked", v.textContent === name)) n++;
    say(told, name ? ` ${n} places` : "");
  }
  box.addEventListener("click", e => {
    if (e.target.matches("b")) mark(e.target.classList.contains("marked") ? "" : e.target.textContent);
  });
  return el("label", { class: "controls" }, "Mark a value ", input, told);
}
