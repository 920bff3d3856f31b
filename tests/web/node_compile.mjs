// Asks Dawn about WGSL texts: node node_compile.mjs <folder of the npm package webgpu>, {name: text} on standard input.
// Prints {name: message} of those that it refuses. f16 and subgroups are allowed where a text enables them.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import path from "node:path";

const { create, globals } = await import(pathToFileURL(path.join(process.argv[2], "index.js")));
Object.assign(globalThis, globals);
const gpu = (globalThis.gpu = create([])); // kept: when it is collected, the process ends
const adapter = await gpu.requestAdapter();
const wanted = ["shader-f16", "subgroups"].filter((f) => adapter.features.has(f));
const device = await adapter.requestDevice({ requiredFeatures: wanted });
const texts = JSON.parse(readFileSync(0, "utf8"));
const found = {};
for (const [name, code] of Object.entries(texts)) {
  if (/enable f16;/.test(code) && !wanted.includes("shader-f16")) continue;
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code });
  const error = await device.popErrorScope();
  const { messages } = await module.getCompilationInfo();
  const bad = messages.find((m) => m.type === "error");
  if (error || bad) found[name] = bad ? `${bad.lineNum}:${bad.linePos} ${bad.message}` : error.message;
}
console.log(JSON.stringify(found));
process.exit(0);
