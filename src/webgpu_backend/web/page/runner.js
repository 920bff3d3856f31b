// Runs a model that webgpu_backend.export wrote, in any browser or worker with WebGPU. No dependencies.
//
//   import { load } from "./runner.js";
//   const model = await load("./model.json", { onProgress: ({ loaded, total }) => ... });
//   const { logits } = await model.run({ input: new Float32Array(784) });
//   model.dispose();

/**
 * @typedef {{name: string, dtype: string, shape: (number|string)[]}} Value an input or an output; sizes that are names vary
 * @typedef {Float32Array|BigInt64Array|Int32Array|Uint32Array|Int16Array|Uint16Array|Int8Array|Uint8Array} Data
 * @typedef {{loaded: number, total: number, cached: boolean}} Progress bytes of weights
 * @typedef {object} LoadOptions
 * @property {(progress: Progress) => void} [onProgress] called while weights arrive
 * @property {GPUDevice} [device] use this device; its adapter's class and features decide as if it were our own
 * @property {GPU} [gpu] where there is no navigator.gpu (Node)
 * @property {"gpu"|"cpu"} [prefer] kernels for this class of adapter, whatever the adapter is
 * @property {boolean} [cache] keep weights in the Cache API (default true)
 * @property {typeof fetch} [fetch] how files are read
 * @typedef {object} RunOptions
 * @property {string[]} [read] the outputs to read back; the others stay where they are (default: all)
 * @property {Record<string, number>} [sizes] dynamic sizes by name, where they do not follow from the inputs' lengths
 */

const CACHE = "webgpu_backend-weights";
const SLOT = 256; // bytes between the parameters of two steps: WebGPU's alignment of uniform bindings
const PADDED = 256; // kernels write whole groups of elements: buffers end later than what is in them
const FAULTS = 32; // bytes in which kernels report a bad index
/** @type {GPUFeatureName[]} */ const FEATURES = ["shader-f16", "subgroups"];
const MASK = (1n << 64n) - 1n;

/** What went wrong, by `code`: unsupported, feature, network, damaged, memory, lost, input, index, disposed. */
export class ModelError extends Error {
  /** @param {string} code @param {string} message @param {unknown} [cause] */
  constructor(code, message, cause) {
    super(message, { cause });
    this.name = "ModelError";
    this.code = code;
  }
}

const ARRAYS = {
  float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint32: Uint32Array, int16: Int16Array,
  uint16: Uint16Array, bfloat16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
  complex64: Float32Array, float16: globalThis.Float16Array ?? Uint16Array,
};
const product = (shape) => shape.reduce((a, b) => a * b, 1);

/**
 * Reads model.json, compiles its kernels and uploads its weights.
 * @param {string|URL} url @param {LoadOptions} [options] @returns {Promise<Model>}
 */
export async function load(url, options = {}) {
  const base = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
  const get = options.fetch ?? globalThis.fetch.bind(globalThis);
  const [spec, device] = await Promise.all([json(get, base), open(options)]);
  if (spec.format !== 1) throw new ModelError("damaged", `${base} has format ${spec.format}; this runner knows format 1`);
  const model = new Model(spec, device.device, device.kind, device.info);
  model.opened = !options.device;
  try {
    await Promise.all([model.compile(await kernels(get, base, spec)), model.fill(base, get, options)]);
  } catch (error) {
    model.dispose();
    throw error;
  }
  return model;
}

/** @param {LoadOptions} options @returns {Promise<{device: GPUDevice, kind: string, info: any}>} */
async function open({ device, gpu, prefer }) {
  if (device) return { device, kind: prefer ?? "gpu", info: device.adapterInfo ?? {} };
  gpu ??= globalThis.navigator?.gpu;
  if (!gpu) {
    const why = globalThis.isSecureContext === false ? "This page is not served over https or from localhost." : "";
    throw new ModelError("unsupported", `This browser has no WebGPU. ${why}`.trim());
  }
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new ModelError("unsupported", "WebGPU is there, but it found no graphics adapter.");
  const wanted = FEATURES.filter((f) => adapter.features.has(f));
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  const limits = { maxBufferSize, maxStorageBufferBindingSize };
  try {
    device = await adapter.requestDevice({ requiredFeatures: wanted, requiredLimits: limits, label: "webgpu_backend" });
  } catch (error) {
    throw new ModelError("unsupported", `The graphics adapter could not be opened: ${error.message}`, error);
  }
  const info = /** @type {any} */ (adapter.info ?? {});
  const software = info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|basic render/i.test(
    `${info.architecture} ${info.device} ${info.description}`);
  return { device, kind: prefer ?? (software ? "cpu" : "gpu"), info };
}

/** A model on a device. Made by `load`. */
export class Model {
  /** @param {any} spec @param {GPUDevice} device @param {string} kind @param {any} info */
  constructor(spec, device, kind, info) {
    this.spec = spec;
    this.device = device;
    /** The adapter: vendor, architecture, device, description. */
    this.info = info;
    /** Which kernels are used: "gpu", or "cpu" for a software adapter. */
    this.kind = kind;
    /** What load and runs have measured, in milliseconds. */
    this.timing = { compile: 0, weights: 0, run: 0 };
    /** Bytes of GPU memory. */
    this.bytes = 0;
    /** @type {ModelError|null} */ this.failed = null;
    this.disposed = false;
    this.opened = false; // the device is our own, and goes with the model
    this.owned = [];
    this.streams = new Map();
    this.turn = Promise.resolve();
    device.lost?.then((info) => {
      if (!this.disposed) this.failed = new ModelError("lost", `The graphics device was lost: ${info.message || info.reason}. Load the model again.`);
    });
    /** The functions of the model, by name. @type {Record<string, Callable>} */
    this.functions = {};
    for (const [name, of] of Object.entries(spec.functions)) this.functions[name] = new Callable(this, name, of);
    this.main = Object.values(this.functions)[0];
  }

  /** @returns {Value[]} what `run` takes */
  get inputs() { return this.main.inputs; }
  /** @returns {Value[]} what `run` gives */
  get outputs() { return this.main.outputs; }

  /**
   * Runs the model's first function. Inputs are typed arrays by name; so are the results.
   * @param {Record<string, Data|number[]|number>} inputs @param {RunOptions} [options]
   * @returns {Promise<Record<string, Data>>}
   */
  run(inputs, options) { return this.main.run(inputs, options); }

  /** Runs a function by its name. @param {string} name @param {Record<string, any>} [inputs] @param {RunOptions} [options] */
  call(name, inputs, options) {
    const found = this.functions[name];
    if (!found) throw new ModelError("input", `There is no function ${name}; there are ${Object.keys(this.functions).join(", ")}.`);
    return found.run(inputs, options);
  }

  /** Compiles the programs of functions of one size; those of others are compiled when their sizes come. @param {string[]} texts */
  async compile(texts) {
    this.texts = texts;
    this.pipelines = new Array(texts.length);
    this.faults = this.buffer(FAULTS, "faults");
    const fixed = Object.values(this.functions).filter((f) => f.plans.length === 1);
    await this.need(fixed.flatMap((f) => f.plans[0].programs()));
  }

  /** @param {number[]} programs that are about to be used */
  async need(programs) {
    const start = performance.now();
    const missing = [...new Set(programs)].filter((i) => !this.pipelines[i]);
    await Promise.all(missing.map(async (i) => { this.pipelines[i] = await this.pipeline(this.spec.programs[i], this.texts[i]); }));
    this.timing.compile += performance.now() - start;
  }

  async pipeline(program, code) {
    const { device } = this;
    const access = program.access + (program.guarded ? "w" : "");
    const storage = [...access].map((a, binding) => ({
      binding, visibility: 4, buffer: { type: /** @type {GPUBufferBindingType} */ (a === "r" ? "read-only-storage" : "storage") },
    }));
    const groups = [device.createBindGroupLayout({ entries: storage })];
    if (program.params) groups.push(device.createBindGroupLayout({ entries: [{ binding: 0, visibility: 4, buffer: { type: "uniform" } }] }));
    const module = device.createShaderModule({ code, label: program.name });
    try {
      const pipeline = await device.createComputePipelineAsync({
        label: program.name, layout: device.createPipelineLayout({ bindGroupLayouts: groups }), compute: { module, entryPoint: program.entry },
      });
      return { pipeline, groups, program };
    } catch (error) {
      const notes = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
      throw new ModelError("unsupported", `The kernel ${program.name} was refused: ${notes[0]?.message ?? error.message}`, error);
    }
  }

  /** A buffer of the model's own. */
  buffer(bytes, label, usage = 0x80 | 0x08 | 0x04 /* storage, copy to and from */) {
    const made = this.device.createBuffer({ size: Math.max(PADDED, Math.ceil(bytes / PADDED) * PADDED), usage, label });
    this.owned.push(made);
    this.bytes += made.size;
    return made;
  }

  /** Memory and weights. */
  async fill(base, get, options) {
    const start = performance.now();
    await this.checked(() => {
      this.weights = this.spec.weights.map((w) => this.buffer(w.bytes, w.name));
      const plans = Object.values(this.functions).flatMap((f) => f.plans);
      const most = [];
      for (const { spec } of plans) spec.scratch.forEach((bytes, k) => { most[k] = Math.max(most[k] ?? 0, bytes); });
      this.scratch = most.map((bytes, k) => this.buffer(bytes, `space ${k}`));
      for (const plan of plans) plan.allocate();
    });
    const total = this.spec.shards.reduce((sum, s) => sum + s.bytes, 0);
    let before = 0;
    for (const shard of this.spec.shards) {
      const tell = (bytes, cached) => options.onProgress?.({ loaded: before + bytes, total, cached });
      const data = await shardOf(new URL(shard.file, base), shard, get, options.cache !== false, tell);
      this.spec.weights.forEach((w, i) => {
        if (w.at === undefined) return;
        const from = Math.max(w.at, before), to = Math.min(w.at + Math.ceil(w.bytes / 4) * 4, before + shard.bytes);
        if (from < to) this.device.queue.writeBuffer(this.weights[i], from - w.at, data, from - before, to - from);
      });
      before += shard.bytes;
    }
    options.onProgress?.({ loaded: total, total, cached: true });
    this.timing.weights = performance.now() - start;
  }

  /** Allocates, and says so where memory is short. @param {() => void} make */
  async checked(make) {
    const { device } = this;
    device.pushErrorScope("validation");
    device.pushErrorScope("out-of-memory");
    make();
    const [memory, invalid] = [await device.popErrorScope(), await device.popErrorScope()];
    const error = memory ?? invalid;
    if (error) throw new ModelError("memory", `The model needs ${mib(this.bytes)} of graphics memory, and the adapter refused: ${error.message}`);
  }

  /** Puts the weights or the state (a parameter, a cache) of this name back to what it was at the start, or to `data`.
   * @param {string} name @param {Data} data */
  write(name, data) {
    const k = this.named(name);
    if (data.byteLength !== this.spec.weights[k].bytes) {
      throw new ModelError("input", `${name} has ${this.spec.weights[k].bytes} bytes, not ${data.byteLength}.`);
    }
    this.device.queue.writeBuffer(this.weights[k], 0, padded(data));
  }

  /** The bytes of a weight or of state, as they are now. @param {string} name @returns {Promise<ArrayBuffer>} */
  async read(name) {
    const k = this.named(name), bytes = this.spec.weights[k].bytes;
    const size = Math.ceil(bytes / 4) * 4;
    const staging = this.device.createBuffer({ size, usage: 0x01 | 0x08 });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.weights[k], 0, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    const found = staging.getMappedRange().slice(0, bytes);
    staging.destroy();
    return found;
  }

  named(name) {
    const k = this.spec.weights.findIndex((w) => w.name === name);
    if (k < 0) throw new ModelError("input", `There is no weight called ${name}.`);
    return k;
  }

  /** Where a stream of random numbers is. @param {{seed: string, offset: string}} start */
  stream(start) {
    const found = this.streams.get(start.seed) ?? { seed: BigInt(start.seed), offset: BigInt(start.offset) };
    this.streams.set(start.seed, found);
    return found;
  }

  /** Starts the random numbers anew. @param {number|bigint} seed */
  seed(seed) {
    for (const f of Object.values(this.functions)) for (const { spec } of f.plans) for (const s of spec.draws?.streams ?? []) this.stream(s);
    for (const stream of this.streams.values()) Object.assign(stream, { seed: BigInt(seed) & MASK, offset: 0n });
  }

  /** Gives the memory back. The model cannot be used any more. */
  dispose() {
    this.disposed = true;
    for (const buffer of this.owned) buffer.destroy();
    this.owned = [];
    if (this.opened) this.device.destroy();
  }
}

/** A function of a model: plans for this adapter, one of which fits the sizes of a call. */
export class Callable {
  constructor(model, name, spec) {
    this.model = model;
    this.name = name;
    /** @type {Value[]} */ this.inputs = spec.inputs;
    /** @type {Value[]} at the sizes of the export's example */ this.outputs = spec.outputs;
    /** The sizes that a call chooses: the least and the most of each. @type {Record<string, [number, number]>} */
    this.sizes = spec.sizes ?? {};
    this.plans = choose(spec.plans, model).map((plan) => new Plan(this, plan));
  }

  /** @param {Record<string, any>} inputs @param {RunOptions} [options] @returns {Promise<Record<string, Data>>} */
  run(inputs = {}, options = {}) {
    // One after the other: the buffers of a call are those of the next.
    const result = this.model.turn.then(() => this.now(inputs, options));
    this.model.turn = result.catch(() => {});
    return result;
  }

  async now(inputs, options) {
    const { model } = this;
    if (model.disposed) throw new ModelError("disposed", "The model has been disposed of.");
    if (model.failed) throw model.failed;
    const start = performance.now();
    const unknown = Object.keys(inputs).find((name) => !this.inputs.some((i) => i.name === name));
    if (unknown) throw new ModelError("input", `${this.name} has no input ${unknown}; it takes ${this.inputs.map((i) => i.name).join(", ") || "none"}.`);
    const sizes = this.sizesOf(inputs, options.sizes ?? {});
    const data = this.inputs.map((input) => converted(input, input.shape.map((s) => sizes[s] ?? s), inputs[input.name]));
    const index = Object.entries(this.sizes).reduce((at, [name, [low, high]]) => at * (high - low + 1) + sizes[name] - low, 0);
    const plan = this.plans.find(({ spec }) => !spec.of || spec.of.includes(index));
    plan.resize(index, Object.values(sizes));
    if (!plan.groups) await model.need(plan.programs());
    const found = await plan.run(data, options.read ?? this.outputs.map((o) => o.name));
    model.timing.run = performance.now() - start;
    return found;
  }

  /** The sizes of a call: as given, or what the lengths of its inputs leave open. */
  sizesOf(inputs, given) {
    const sizes = {};
    for (const name of Object.keys(this.sizes)) if (given[name] !== undefined) sizes[name] = given[name];
    for (let again = true; again; ) {
      again = false;
      for (const { name, shape, dtype } of this.inputs) {
        const open = shape.filter((s) => typeof s === "string" && sizes[s] === undefined);
        if (open.length !== 1 || inputs[name]?.length === undefined) continue;
        const rest = product(shape.filter((s) => s !== open[0]).map((s) => sizes[s] ?? s)) * (dtype === "complex64" ? 2 : 1);
        sizes[open[0]] = inputs[name].length / rest;
        again = true;
      }
    }
    const ordered = {};
    for (const [name, [low, high]] of Object.entries(this.sizes)) {
      const size = sizes[name];
      if (size === undefined) throw new ModelError("input", `The size ${name} does not follow from the inputs: pass {sizes: {${name}: ...}}.`);
      if (!Number.isInteger(size) || size < low || size > high) throw new ModelError("input", `The size ${name} is ${size}; it must be a whole number from ${low} to ${high}.`);
      ordered[name] = size;
    }
    return ordered;
  }
}

/** Steps over buffers, with the numbers that follow from the sizes. */
class Plan {
  constructor(of, spec) {
    this.of = of;
    this.model = of.model;
    this.spec = spec;
    this.index = null; // of the sizes that the numbers are for
    this.groups = null;
  }

  programs() { return this.spec.steps.filter((s) => !s.copy).map((s) => s.p); }

  /** Makes the plan's own buffers; the space for what is in between is the model's. */
  allocate() {
    this.uniforms = new Uint32Array(Math.max(1, this.spec.steps.length) * SLOT / 4);
    this.parameters = this.model.buffer(this.uniforms.byteLength, `${this.of.name}: parameters`, 0x40 | 0x08);
  }

  at(place) { return Array.isArray(place) ? this.model.scratch[place[0]] : this.model.weights[place]; }

  /** Fills in the numbers for these sizes. @param {number} index @param {number[]} sizes */
  resize(index, sizes) {
    if (this.index === index) return;
    const { numbers = [], of, steps, shapes, outputs } = this.spec;
    const place = of ? of.indexOf(index) : 0;
    const values = numbers.map((n) => n.list ? n.list[place] : n.sum.reduce((sum, [c, powers]) => sum + c * product(sizes.map((s, d) => s ** powers[d])), 0));
    const value = (x) => (x?.n === undefined ? x : values[x.n]);
    this.grids = steps.map((s) => s.copy ? s.copy.map(value) : s.g.map(value));
    steps.forEach((s, i) => { if (!s.copy) this.uniforms.set(s.u.map(value), i * SLOT / 4); });
    this.outputs = this.of.outputs.map((o, k) => ({ ...o, shape: shapes[k].map(value), place: outputs[k] && [outputs[k][0], value(outputs[k][1])] }));
    this.draws = this.spec.draws && {
      streams: this.spec.draws.streams.map((s) => ({ ...s, used: value(s.used) })),
      at: this.spec.draws.at.map(([k, at]) => [k, value(at)]),
      steps: steps.flatMap((s, i) => (s.d ? [[i, ...s.d.map(value)]] : [])),
    };
    const bytes = FAULTS + this.outputs.reduce((sum, o) => sum + bytesOf(o), 0);
    if (!this.staging || this.staging.size < bytes) {
      this.staging?.destroy();
      this.staging = this.model.buffer(bytes, `${this.of.name}: results`, 0x01 | 0x08);
    }
    this.index = index;
    this.stale = true; // the parameters have to be written
  }

  /** Bind groups, once. */
  bind() {
    const { model } = this;
    return this.spec.steps.map((step, i) => {
      if (step.copy) return null;
      const { pipeline, groups, program } = model.pipelines[step.p];
      const bound = step.b.map((b) => b?.of === undefined ? { buffer: this.at(b) } : { buffer: this.at(b.of), offset: b.at, size: b.bytes });
      if (program.guarded) bound.push({ buffer: model.faults });
      const made = [model.device.createBindGroup({ layout: groups[0], entries: bound.map((resource, binding) => ({ binding, resource })) })];
      if (program.params) {
        const resource = { buffer: this.parameters, offset: i * SLOT, size: SLOT };
        made.push(model.device.createBindGroup({ layout: groups[1], entries: [{ binding: 0, resource }] }));
      }
      return { pipeline, groups: made };
    });
  }

  /** @param {Data[]} data @param {string[]} wanted */
  async run(data, wanted) {
    const { model, spec } = this, { device } = model;
    data.forEach((d, i) => device.queue.writeBuffer(this.at(spec.inputs[i]), 0, padded(d)));
    this.draw();
    if (this.stale) device.queue.writeBuffer(this.parameters, 0, this.uniforms);
    this.stale = false;
    this.groups ??= this.bind();
    const encoder = device.createCommandEncoder({ label: this.of.name });
    encoder.clearBuffer(model.faults);
    this.encode(encoder);
    const slices = this.collect(encoder, wanted);
    device.queue.submit([encoder.finish()]);
    try {
      await this.staging.mapAsync(1);
    } catch (error) {
      await Promise.resolve();
      throw model.failed ?? new ModelError("lost", `Reading the results failed: ${error.message}`, error);
    }
    const memory = this.staging.getMappedRange().slice(0);
    this.staging.unmap();
    this.check(new Uint32Array(memory, 0, FAULTS / 4));
    return Object.fromEntries(slices.map(({ output, at }) => [output.name, arrayOf(output, memory, at)]));
  }

  /** The places of this call's random numbers, into the parameters. */
  draw() {
    if (!this.draws) return;
    const streams = this.draws.streams.map((s) => this.model.stream(s));
    const words = new BigUint64Array(2);
    for (const [i, word, number, further] of this.draws.steps) {
      const [k, begins] = this.draws.at[number];
      words[0] = streams[k].seed;
      words[1] = (streams[k].offset + BigInt(begins + further)) & MASK;
      this.uniforms.set(new Uint32Array(words.buffer), i * SLOT / 4 + word);
    }
    streams.forEach((s, k) => { s.offset = (s.offset + BigInt(this.draws.streams[k].used)) & MASK; });
    this.stale = true;
  }

  /** @param {GPUCommandEncoder} encoder */
  encode(encoder) {
    /** @type {GPUComputePassEncoder|null} */ let pass = null;
    for (const [i, step] of this.spec.steps.entries()) {
      if (step.copy) {
        pass?.end();
        pass = null;
        const [from, to, at, bytes] = this.grids[i];
        encoder.copyBufferToBuffer(this.at(from), 0, this.at(to), at, bytes);
        continue;
      }
      pass ??= encoder.beginComputePass();
      const { pipeline, groups } = this.groups[i];
      pass.setPipeline(pipeline);
      for (const [k, group] of groups.entries()) pass.setBindGroup(k, group);
      const [x, y, z] = this.grids[i];
      pass.dispatchWorkgroups(x, y, z);
    }
    pass?.end();
  }

  /** Copies the reports of kernels and the outputs to where the host reads them. */
  collect(encoder, wanted) {
    const slices = [];
    let at = FAULTS;
    encoder.copyBufferToBuffer(this.model.faults, 0, this.staging, 0, FAULTS);
    for (const output of this.outputs) {
      if (!wanted.includes(output.name)) continue;
      slices.push({ output, at });
      if (!output.place || !bytesOf(output)) continue; // no elements
      encoder.copyBufferToBuffer(this.at(output.place[0]), output.place[1], this.staging, at, bytesOf(output));
      at += bytesOf(output);
    }
    return slices;
  }

  /** @param {Uint32Array} words */
  check(words) {
    if (!words[0]) return;
    const operator = this.model.spec.operators[(words[1] & 0x7fffffff) >>> 8] ?? "an operator";
    const index = BigInt.asIntN(64, BigInt(words[2]) | BigInt(words[3]) << 32n);
    throw new ModelError("index", `Index ${index} is out of bounds for dimension ${words[1] & 255} with size ${words[4]} (in ${operator}).`);
  }
}

/** The plans for this adapter: of those for its class, the ones with most features that it has. */
function choose(plans, model) {
  const lanes = model.info.subgroupMinSize ?? 0;
  const has = (f) => model.device.features.has(f) && (f !== "subgroups" || lanes >= 8);
  const fitting = plans.filter((p) => p.features.every(has));
  if (!fitting.length) throw new ModelError("feature", `The model needs ${plans[0].features.join(" and ")}, which this adapter does not have.`);
  const own = fitting.filter((p) => p.class === model.kind);
  const most = Math.max(...(own.length ? own : fitting).map((p) => p.features.length));
  return (own.length ? own : fitting).filter((p) => p.features.length === most);
}

const elementsOf = (value) => product(value.shape) * (value.dtype === "complex64" ? 2 : 1);
const bytesOf = (value) => Math.ceil(elementsOf(value) * ARRAYS[value.dtype].BYTES_PER_ELEMENT / 4) * 4;

/** @param {ArrayBuffer} memory */
function arrayOf(value, memory, at) {
  const type = ARRAYS[value.dtype], n = elementsOf(value);
  return new type(memory.slice(at, at + n * type.BYTES_PER_ELEMENT));
}

/** What the caller gave, in the type of the input. */
function converted(input, shape, given) {
  const type = ARRAYS[input.dtype], n = elementsOf({ ...input, shape });
  if (given === undefined) throw new ModelError("input", `The input ${input.name} is missing: ${input.dtype}, shape [${input.shape.join(", ")}].`);
  if (typeof given === "number" || typeof given === "bigint" || typeof given === "boolean") given = [given];
  if (!(given instanceof type)) {
    if (typeof given.length !== "number") throw new ModelError("input", `The input ${input.name} must be a ${type.name} or a list of numbers.`);
    if (type === Uint16Array && input.dtype !== "uint16") throw new ModelError("input", `The input ${input.name} must be a Uint16Array: the bits of ${input.dtype}.`);
    given = type === BigInt64Array ? type.from(given, BigInt) : type.from(given, Number);
  }
  if (given.length !== n) throw new ModelError("input", `The input ${input.name} has ${given.length} elements; its shape [${shape.join(", ")}] has ${n}.`);
  return given;
}

/** Bytes in whole words. @param {any} data @returns {GPUAllowSharedBufferSource} */
function padded(data) {
  if (data.byteLength % 4 === 0) return data;
  const bytes = new Uint8Array(Math.ceil(data.byteLength / 4) * 4);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return bytes;
}

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

// -- files

async function fetched(get, url) {
  let response;
  try {
    response = await get(url.href);
  } catch (error) {
    throw new ModelError("network", `${url.pathname} could not be loaded: ${error.message}`, error);
  }
  if (!response.ok) throw new ModelError("network", `${url.pathname} could not be loaded: ${response.status} ${response.statusText}`);
  return response;
}

async function json(get, url) {
  const response = await fetched(get, url);
  try {
    return await response.json();
  } catch (error) {
    throw new ModelError("damaged", `${url.pathname} is no model: ${error.message}`, error);
  }
}

/** The texts of the programs, in order. */
async function kernels(get, base, spec) {
  const url = new URL(spec.kernels.file, base);
  const data = await (await fetched(get, url)).arrayBuffer();
  await verify(data, spec.kernels.sha256, url);
  return new TextDecoder().decode(data).split(/^\/\/\/\/ .*\n/m).slice(1);
}

/** A file of weights: from the cache, or from the network with progress and then into the cache. */
async function shardOf(url, shard, get, cached, tell) {
  const store = cached && globalThis.caches ? await caches.open(CACHE).catch(() => null) : null;
  const key = `${url.href}?sha256=${shard.sha256}`;
  const kept = await store?.match(key);
  if (kept) {
    const data = await kept.arrayBuffer();
    if (data.byteLength === shard.bytes && (await digest(data)) === shard.sha256) {
      tell(shard.bytes, true);
      return data;
    }
    await store.delete(key);
  }
  const response = await fetched(get, url);
  const data = new Uint8Array(shard.bytes);
  let at = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (at + part.value.length > shard.bytes) throw new ModelError("damaged", `${url.pathname} is longer than it was written.`);
    data.set(part.value, at);
    at += part.value.length;
    tell(at, false);
  }
  if (at !== shard.bytes) throw new ModelError("damaged", `${url.pathname} has ${at} bytes instead of ${shard.bytes}.`);
  await verify(data.buffer, shard.sha256, url);
  await store?.put(key, new Response(data.buffer.slice(0))).catch(() => {}); // a full disk is no reason not to run
  return data.buffer;
}

async function digest(data) {
  const hash = await crypto.subtle.digest("SHA-256", data);
  return [...new Uint8Array(hash)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function verify(data, sha256, url) {
  const found = await digest(data);
  if (found !== sha256) throw new ModelError("damaged", `${url.pathname} is damaged: its checksum is ${found.slice(0, 12)}…, not ${sha256.slice(0, 12)}….`);
}
