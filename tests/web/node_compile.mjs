// Asks Dawn about WGSL texts: node node_compile.mjs <folder of the npm package webgpu>, {name: text} on standard input.
// Prints {name: message} of those that it refuses. Dawn's null backend compiles and runs nothing, needs no driver, and has
// every feature; each text has to be a module, and one whose name ends with ".baseline" also a pipeline within WebGPU's
// default limits.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import path from "node:path";

const { create, globals } = await import(pathToFileURL(path.join(process.argv[2], "index.js")));
Object.assign(globalThis, globals);
const gpu = (globalThis.gpu = create(["backend=null"])); // kept: when it is collected, the process ends
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice({ requiredFeatures: ["shader-f16", "subgroups"] });
const found = {};
for (const [name, code] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code });
  if (name.endsWith(".baseline")) device.createComputePipeline({ layout: "auto", compute: { module } });
  const error = await device.popErrorScope();
  if (error) found[name] = error.message;
}
writeFileSync(1, JSON.stringify(found)); // whole, before the process ends
process.exit(0);
