import { el } from "./dom.js";
export function jobs(main) { main.replaceChildren(el("h1", { tabindex: -1 }, "Jobs")); }
