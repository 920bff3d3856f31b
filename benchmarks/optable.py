"""The page docs/ops.md: what a coverage run found, and the tier of every aten operator.

python -m benchmarks.coverage --databases op,module,optim,ref --json coverage.json
python -m benchmarks.optable coverage.json [more.json ...] [--out docs/ops.md]
"""

import argparse
import json
from collections import defaultdict

from .coverage import DTYPES, table

SHORT = dict(zip(DTYPES, ("f32", "f16", "bf16", "i64", "i32", "u8", "bool", "c64")))
TIERS = {
    "native": "WGSL kernels of this package.",
    "composite": "PyTorch's own kernel for any device, made of other operators.",
    "decomposition": "PyTorch's decomposition, run on the device; also `out=` through the functional overload.",
    "fallback": "Copied to the CPU, run there, copied back, counted in `webgpu_backend.fallbacks()`.",
}
# Operators of other backends and layouts, which never see a strided tensor of this device, and of torch's own tests.
FOREIGN = (
    "cudnn", "miopen", "mkldnn", "mps", "fbgemm", "quantize", "fake_quant", "qscheme", "q_per", "q_scale", "q_zero",
    "qparams", "sparse", "nested", "_test_", "_foobar", "xnnpack", "cslt", "vulkan", "cufft", "mkl_", "jagged",
    "triton", "flash_attention", "efficient_attention", "nnpack", "dyn_quant", "int4pack", "int8pack",
    "semi_structured",
    "crow_", "ccol_", "row_indices", "col_indices", "coalesce", "xla", "mem_eff", "_dimI", "_dimV", "_nnz", "hspmm",
    "spsolve", "fused_moving_avg", "_padded_dense", "dep_token",
)  # fmt: skip
FOREIGN_NAMES = {f"{name}{copy}" for name in ("_values", "_indices", "values", "indices") for copy in ("", "_copy")}


def merged(tiers: dict[str, str]) -> dict[str, list[str]]:
    """Base name -> tiers of its functional overloads, of all of them where none is functional, best first."""
    import torch

    functional, others = defaultdict(set), defaultdict(set)
    for full, tier in tiers.items():
        base, _, overload = full.removeprefix("aten::").partition(".")
        if base in FOREIGN_NAMES or any(part in base for part in FOREIGN):
            continue
        schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
        (others if schema.is_mutable else functional)[base].add(tier)
    for base, found in others.items():
        if base not in functional and base.removesuffix("_") not in functional:
            functional[base] = found
    return {base: [t for t in TIERS if t in found] for base, found in sorted(functional.items())}


def measured(results) -> dict[str, tuple[list[str], list[str]]]:
    """aten name -> dtypes right on the device, and dtypes right with a part on the CPU; all its entries must agree."""
    found: dict[tuple, list] = defaultdict(list)
    for r in results:
        if r["database"] == "op" and r["status"] != "unmovable":
            found[(r["aten"] or r["name"]).replace(".", "_"), r["dtype"]].append(r)
    cells: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
    for (aten, dtype), rows in found.items():
        native, partly = cells[aten]
        if all(r["status"] == "right" for r in rows):
            (partly if any(r["fallbacks"] for r in rows) else native).append(dtype)
    return cells


def shorts(dtypes) -> str:
    return " ".join(SHORT[d] for d in DTYPES if d in dtypes)


def left(results) -> list[str]:
    """What is not right, or not without the CPU: one line per entry, dtypes together, with the first example."""
    rows: dict[tuple, dict[str, str]] = defaultdict(dict)
    for r in results:
        if r["status"] in ("wrong", "error"):
            what = "not as the CPU"
        elif r["status"] == "right" and r["readings"]:
            what = f"right by reading only: {', '.join(r['readings'])}"
        elif r["status"] == "right" and r["fallbacks"]:
            what = "on the CPU: " + ", ".join(f"`{n.removeprefix('aten::')}`" for n in sorted(r["fallbacks"]))
        else:
            continue
        rows[r["database"], r["name"], what][r["dtype"]] = r.get("example", "")
    lines = []
    for (_, name, what), found in sorted(rows.items()):
        examples = "; ".join(f"{SHORT[d]}: {found[d]}" for d in DTYPES if found.get(d))
        lines.append(f"| {name} | {what} | {shorts(found)} | {examples} |")
    return ["| entry | what | dtypes | where |", "|---|---|---|---|", *lines] if lines else ["Nothing."]


def page(runs: list[dict], tiers: dict[str, str]) -> str:
    results = list({(r["database"], r["name"], r["dtype"]): r for run in runs for r in run["results"]}.values())
    adapter = ", ".join(sorted({f"{run['adapter']}, torch {run['torch']}" for run in runs}))
    operators, cells = merged(tiers), measured(results)
    lines = [
        "# Operators",
        "",
        "Generated; do not edit. Made by",
        "",
        "```",
        "python -m benchmarks.coverage --databases op,module,optim,ref --json coverage.json",
        "python -m benchmarks.optable coverage.json",
        "```",
        "",
        f"on {adapter}.",
        "",
        "Every entry of PyTorch's databases is run on the device and on the CPU: operators and modules forward and,",
        "where differentiable, backward; optimizers for some steps; references forward. *Right*: same shapes and",
        "dtypes, values within 1e-3 relative and 2e-4 absolute for float32 (1e-2 float16, 3e-2 bfloat16, exact",
        "integers). Which of several equal values an index names (sort, topk, kthvalue, mode without a stable",
        "order) is open in PyTorch: such indices are compared by the values they name. A 16-bit answer within",
        "tolerance of the CPU's float32 answer is right too: the CPU may round at every step. *Strictly*: right,",
        "and neither of these two readings was needed; sorts of more than 128 values of up to 16 bits leave ties as",
        "the CPU does only on a software adapter, and a GPU's fused attention rounds its output where the CPU rounds",
        "weights too, which some 16-bit gradients show. *Native*: right, and nothing ran on the CPU.",
        "",
        table(results),
        "",
        "## What is left",
        "",
        "Where a 16-bit answer is not the CPU's: in how many elements of the first such result; then ours, the CPU's",
        "and the CPU's in float32, where the first two are furthest apart.",
        "",
        *left(results),
        "",
        "## Tiers",
        "",
        "Of aten operators, overloads together; those of other backends and of sparse, nested and quantized tensors",
        "are left out.",
        "",
        "| tier | operators | what runs |",
        "|---|---|---|",
    ]
    for tier, what in TIERS.items():
        lines.append(f"| {tier} | {sum(found[0] == tier for found in operators.values())} | {what} |")
    lines += ["", "## Operators of the database", "", "Dtypes for which all samples are right, as the run found them."]
    lines += ["", "| operator | tier | on the device | partly on the CPU |", "|---|---|---|---|"]
    known = [name for name in sorted(cells) if name in operators]
    for name in known:
        lines.append(f"| {name} | {', '.join(operators[name])} | {shorts(cells[name][0])} | {shorts(cells[name][1])} |")
    lines += ["", "## Functions made of several operators", "", "| function | on the device | partly on the CPU |"]
    lines += ["|---|---|---|"]
    for name in sorted(set(cells) - set(operators)):
        lines.append(f"| {name} | {shorts(cells[name][0])} | {shorts(cells[name][1])} |")
    lines += ["", "## Other aten operators, by tier"]
    for tier in TIERS:
        rest = [name for name, found in operators.items() if found[0] == tier and name not in cells]
        lines += ["", f"**{tier}** ({len(rest)}): {', '.join(f'`{n}`' for n in rest)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="JSON files of benchmarks.coverage; later ones replace entries")
    parser.add_argument("--out", default="docs/ops.md")
    options = parser.parse_args()
    runs = []
    for path in options.results:
        with open(path) as file:
            runs.append(json.load(file))
    import webgpu_backend  # noqa: F401  registers the operators
    from webgpu_backend.frontend.dispatch.tiers import tiers

    with open(options.out, "w") as file:
        file.write(page(runs, tiers()))


if __name__ == "__main__":
    main()
