// Asks naga, the compiler inside wgpu, for WGSL texts in other languages: node node_translate.mjs <folder of the npm package
// naga-wasm>, {name: [text, languages]} on standard input. Prints {name: message} of those that it refuses.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import path from "node:path";

const naga = await import(pathToFileURL(path.join(process.argv[2], "dist/node.js")));
const writers = {
  metal: (module, info) => naga.writeMsl(module, info, { langVersion: [3, 1] }),
  direct3d: (module, info) => naga.writeHlsl(module, info, { shaderModel: "6_6" }),
};
const found = {};
for (const [name, [text, languages]] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  try {
    const module = naga.parseWgsl(text);
    const info = naga.validate(module);
    for (const language of languages) writers[language](module, info);
    info.free(); // not after an error: one inside of naga leaves them borrowed
    module.free();
  } catch (error) {
    found[name] = String(error.formatted ?? error);
  }
}
writeFileSync(1, JSON.stringify(found));
