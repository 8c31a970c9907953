"use strict";
const values = document.querySelectorAll(".stage b");
const label = document.createElement("label"), input = document.createElement("input"), count = document.createElement("output");
label.className = "controls";
input.type = "search";
input.placeholder = "%value";
label.append("mark a value ", input, count);
document.querySelector("main").before(label);

// Marks all places of the value that has this name.
function mark(name) {
  input.value = name;
  let n = 0;
  for (const v of values) if (v.classList.toggle("marked", v.textContent === name)) n++;
  count.textContent = name ? ` ${n} places` : "";
}
input.addEventListener("input", () => mark(input.value));
document.addEventListener("click", e => {
  if (e.target.matches(".stage b")) mark(e.target.classList.contains("marked") ? "" : e.target.textContent);
});
