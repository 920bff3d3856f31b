// Runs an exported model under Node, with Dawn: node node_run.mjs <folder of the npm package webgpu> <site> <calls.json>
//
// calls.json is a list of {function, inputs: {name: numbers, or {bits: of halves}}, repeat, fails}; the outputs are printed as
// JSON, and the error of a call that `fails`.
import { writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [, , dawn, site, calls] = process.argv;
const { create, globals } = await import(pathToFileURL(path.join(dawn, "index.js")));
Object.assign(globalThis, globals);
const gpu = (globalThis.gpu = create([])); // kept: when it is collected, the process ends
const { load } = await import(pathToFileURL(path.join(site, "runner.js")));

/** Files in the place of a server's. */
async function read(url) {
  try {
    return new Response(await readFile(new URL(url)));
  } catch (error) {
    return new Response(String(error), { status: 404 });
  }
}

const print = (found) => writeFileSync(1, JSON.stringify(found)); // whole, before the process ends
const plain = (data) => Array.from(data, (x) => (typeof x === "bigint" ? Number(x) : Number.isFinite(x) ? x : String(x)));
try {
  const model = await load(pathToFileURL(path.join(site, "model.json")), { gpu, fetch: read, prefer: process.env.WEB_CLASS || undefined });
  const found = [];
  for (const { function: name, inputs, repeat = 1, fails } of JSON.parse(await readFile(calls, "utf8"))) {
    for (let i = 0; i < repeat; i++) {
      for (const [key, value] of Object.entries(inputs)) if (value.bits) inputs[key] = Uint16Array.from(value.bits);
      const running = name ? model.call(name, inputs) : model.run(inputs);
      if (fails) {
        found.push(await running.then(() => ({}), ({ code, message }) => ({ code, error: message })));
        continue;
      }
      const outputs = await running;
      found.push(Object.fromEntries(Object.entries(outputs).map(([key, data]) => [key, plain(data)])));
    }
  }
  const features = Object.fromEntries(Object.entries(model.functions).map(([name, f]) => [name, f.plans[0].spec.features]));
  print({ outputs: found, features, timing: model.timing, bytes: model.bytes, kind: model.kind });
  model.dispose();
} catch (error) {
  print({ error: error.message, code: error.code ?? "", stack: error.stack });
}
process.exit(0);
