// A picture from a file, scaled to what the model takes.
import { el, say } from "./dom.js";
import { inputs, preview, scale } from "./pixels.js";

export function picture(image, go) {
  const file = el("input", { type: "file", accept: "image/*", onchange: () => take(file.files[0]) });
  const invert = el("input", { type: "checkbox", onchange: send }), values = scale(image, send), seen = preview(image);
  const told = el("p", { class: "bad", role: "status" });
  const root = el("div", { class: "picture", ondragover: e => e.preventDefault(), ondrop: e => {
    e.preventDefault();
    take(e.dataTransfer.files[0]);
  } }, el("label", { class: "file" }, el("span", {}, "Choose a picture, or drop one here"), file), told, seen.root,
    el("div", { class: "controls" }, values.root, el("label", {}, invert, " Invert")));
  let pixels = null, newest = null;

  async function take(f) {
    if (!f) return;
    newest = f;
    say(told, "");
    try {
      const map = await createImageBitmap(f), { width: w, height: h } = image;
      if (newest !== f) return; // another was chosen meanwhile
      const canvas = el("canvas", { width: w, height: h }), to = canvas.getContext("2d");
      const k = Math.max(w / map.width, h / map.height);
      to.fillStyle = "#fff"; // behind what is transparent
      to.fillRect(0, 0, w, h);
      to.imageSmoothingQuality = "high";
      to.drawImage(map, (w - k * map.width) / 2, (h - k * map.height) / 2, k * map.width, k * map.height);
      pixels = to.getImageData(0, 0, w, h).data;
      let sum = 0;
      for (let i = 0; i < pixels.length; i += 4) sum += grey(i);
      // models of one channel mostly know ink as 1: paper is then to be 0
      invert.checked = image.channels === 1 && sum / (w * h) > .5;
    } catch {
      if (newest !== f) return;
      pixels = null;
      say(told, `${f.name} is no picture that this browser can read.`);
    }
    send();
  }
  const grey = i => (.299 * pixels[i] + .587 * pixels[i + 1] + .114 * pixels[i + 2]) / 255;
  function send() {
    if (!pixels) return go(null);
    const pixel = (c, y, x) => {
      const i = 4 * (y * image.width + x), v = image.channels === 1 ? grey(i) : pixels[i + c] / 255;
      return invert.checked ? 1 - v : v;
    };
    seen.draw(pixel);
    go(inputs(image, pixel, values.get()));
  }
  return { root, shown: send };
}
