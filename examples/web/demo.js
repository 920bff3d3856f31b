// What the pages have in common: loading with a bar, errors in words, and where the model runs.
import { load } from "./runner.js";

export const $ = (id) => document.getElementById(id);

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function tell(error) {
  $("error").hidden = false;
  $("error").textContent = error.message;
}

/** Loads ./model.json while #bar and #amount show how far it is; then #loading gives way to #app. */
export async function start(use) {
  try {
    const model = await load("./model.json", {
      onProgress: ({ loaded, total, cached }) => {
        $("bar").value = total ? loaded / total : 1;
        $("amount").textContent = `${cached ? "From this browser's cache" : "Downloading the model"}: ${(loaded / 2 ** 20).toFixed(1)} of ${(total / 2 ** 20).toFixed(1)} MiB`;
      },
    });
    const { vendor, architecture, description } = model.info;
    $("where").textContent = `${[vendor, architecture].filter(Boolean).join(" ") || description || "WebGPU"}, ${(model.bytes / 2 ** 20).toFixed(1)} MiB of GPU memory. Nothing leaves this page.`;
    await use(model);
    $("loading").hidden = true;
    $("app").hidden = false;
    globalThis.model = model;
  } catch (error) {
    $("loading").hidden = true;
    tell(error);
  }
}

/** One bar for each name; the returned function shows values between 0 and 1. */
export function bars(parent, names) {
  const rows = names.map((name) => ({ name: make("b", { textContent: name }), bar: make("i"), number: make("span", { className: "number" }) }));
  parent.classList.add("bars");
  parent.replaceChildren(...rows.flatMap(({ name, bar, number }) => [name, make("div", { className: "bar" }, bar), number]));
  return (values) => {
    const top = values.indexOf(Math.max(...values));
    rows.forEach(({ name, bar, number }, i) => {
      name.className = i === top ? "top" : "";
      bar.style.width = `${100 * values[i]}%`;
      number.textContent = `${(100 * values[i]).toFixed(1)} %`;
    });
    return top;
  };
}

/** A picture as the digits of MNIST are: 20 x 20 inside 28 x 28, its weight in the middle. `ink` is 0 to 255, row by row. */
export function centred(ink, width, height) {
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    if (ink[y * width + x] > 40) [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  const image = new Uint8Array(784);
  if (right < left) return image;
  const side = Math.max(right - left, bottom - top) + 1, scale = side / 20;
  const small = new Float32Array(784);
  let [mass, mx, my] = [0, 0, 0];
  const [w, h] = [(right - left + 1) / scale, (bottom - top + 1) / scale];
  for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) {
    let [sum, n] = [0, 0];
    for (let v = Math.floor(top + y * scale); v < Math.min(bottom + 1, top + (y + 1) * scale); v++)
      for (let u = Math.floor(left + x * scale); u < Math.min(right + 1, left + (x + 1) * scale); u++) { sum += ink[v * width + u]; n++; }
    const value = n ? sum / n : 0;
    small[y * 28 + x] = value;
    mass += value; mx += value * x; my += value * y;
  }
  const [dx, dy] = [Math.round(13.5 - mx / mass), Math.round(13.5 - my / mass)];
  for (let y = 0; y < 28; y++) for (let x = 0; x < 28; x++) {
    const [u, v] = [x - dx, y - dy];
    if (u >= 0 && u < 28 && v >= 0 && v < 28) image[y * 28 + x] = small[v * 28 + u];
  }
  return image;
}
