// From pixels to the numbers that a model takes.
import { el } from "./dom.js";

const scales = {
  "0 to 1": v => v,
  "0 to 255": v => 255 * v,
  "−1 to 1": v => 2 * v - 1,
  ImageNet: (v, c) => (v - [.485, .456, .406][c % 3]) / [.229, .224, .225][c % 3],
};

// The choice of what numbers stand for black and white.
export function scale(image, changed) {
  const select = el("select", { onchange: changed }, Object.keys(scales).map(s => el("option", {}, s)));
  if (image.datatype === "UINT8") select.value = "0 to 255";
  return { root: el("label", {}, "Values ", select), get: () => scales[select.value] };
}

// Makes a model's inputs of pixels, a function of channel, row and column that is 0 to 1.
export function inputs(image, pixel, of) {
  const data = [], { channels, height, width } = image;
  const add = (c, y, x) => {
    const v = of(pixel(c, y, x), c);
    data.push(image.datatype === "UINT8" ? Math.round(Math.max(0, Math.min(255, v))) : +v.toFixed(5));
  };
  if (image.first) for (let c = 0; c < channels; c++) for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) add(c, y, x);
  else for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) for (let c = 0; c < channels; c++) add(c, y, x);
  return [{ name: image.name, datatype: image.datatype, shape: image.shape, data }];
}

// A small picture of what the model is given.
export function preview(image) {
  const canvas = el("canvas", { class: "seen", width: image.width, height: image.height, role: "img", "aria-label": "What the model is given" });
  canvas.style.aspectRatio = `${image.width} / ${image.height}`;
  return { root: el("figure", {}, canvas, el("figcaption", {}, `${image.width} × ${image.height}, as the model sees it`)), draw(pixel) {
    const to = canvas.getContext("2d"), data = to.createImageData(image.width, image.height);
    for (let y = 0, i = 0; y < image.height; y++) for (let x = 0; x < image.width; x++, i += 4) {
      for (let c = 0; c < 3; c++) data.data[i + c] = 255 * pixel(c % image.channels, y, x);
      data.data[i + 3] = 255;
    }
    to.putImageData(data, 0, 0);
  } };
}
