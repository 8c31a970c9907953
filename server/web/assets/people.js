import { el } from "./dom.js";
export function accounts(main) { main.replaceChildren(el("h1", { tabindex: -1 }, "Accounts")); }
export function audit(main) { main.replaceChildren(el("h1", { tabindex: -1 }, "Audit")); }
