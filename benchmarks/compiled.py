"""PyTorch's database of operators through `torch.compile`: the first sample of every entry, float32, forward and
gradient, against the eager device.

    python -m benchmarks.compiled [--only softmax,norm*] [--slice 0/4] [--json out.json]

Prints how many entries are equal to eager, how many of those Inductor compiled whole, and the rest with the reason.
"""

import argparse
import collections
import json
import os
import sys
import warnings

UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def check(entry, device: str = "webgpu") -> tuple[str, str]:
    """(equal, replayed, differs, unequal eager, no sample or error, the reason)."""
    import torch

    from webgpu_backend.frontend.graphs.inductor import compiling

    torch._dynamo.reset()
    compiling._told.clear()
    graded = entry.supports_autograd
    if entry.name in UNINITIALISED:
        return "no sample", "its values are what the memory holds"
    samples = iter(entry.sample_inputs("cpu", torch.float32, requires_grad=graded))
    sample = next(samples, None)
    if sample is None:
        return "no sample", ""
    eager = _outcome(entry.op, sample, device, graded)
    if isinstance(eager, Exception):
        return "eager refuses", f"{type(eager).__name__}: {eager}".split("\n")[0]

    def call(*args, **kwargs):
        return entry.op(*args, **kwargs)

    found = _outcome(torch.compile(call, backend="webgpu_inductor"), sample, device, graded)
    if isinstance(found, Exception):
        return "error", f"{type(found).__name__}: {found}".split("\n")[0]
    try:
        for a, b in zip(found, eager, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
    except (AssertionError, ValueError) as error:
        return "differs", " ".join(str(error).split())[:160]
    return ("replayed", "; ".join(compiling._told)) if compiling._told else ("equal", "")


def _outcome(op, sample, device: str, graded: bool):
    """The results and the gradients of a call on copies of a sample's tensors, or what it raises."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    leaves = []

    def moved(x):
        if not isinstance(x, torch.Tensor):
            return x
        wanted, x = x.requires_grad, x.detach().to(device, copy=True)
        if wanted:
            leaves.append(x.requires_grad_())
        return x

    args, kwargs = tree_map(moved, ((sample.input, *sample.args), sample.kwargs))
    torch.manual_seed(0)
    try:
        with torch.set_grad_enabled(graded):
            results = [r for r in tree_leaves(op(*args, **kwargs)) if isinstance(r, torch.Tensor)]
            total = [r.float().sum() for r in results if r.requires_grad and r.dtype.is_floating_point]
            if total:
                sum(total).backward()
        found = [r.detach().cpu() for r in results]
        return found + [x.grad.cpu() for x in leaves if x.grad is not None]
    except Exception as error:
        return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    os.environ.setdefault("WEBGPU_FALLBACK", "silent")
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    only = [o for o in options.only.split(",") if o]
    part, parts = map(int, options.slice.split("/"))
    counts, rest = collections.Counter(), {}
    entries = [e for e in op_db if torch.float32 in e.dtypes][part::parts]
    for entry in entries:
        name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
        if only and name not in only and not any(o.endswith("*") and o[:-1] in name for o in only):
            continue
        outcome, reason = check(entry)
        counts[outcome] += 1
        if outcome != "equal":
            rest[name] = (outcome, reason)
            print(f"{name}: {outcome}: {reason}"[:300], flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"counts": counts, "rest": rest}, file, indent=1)
    print(dict(counts))


if __name__ == "__main__":
    sys.exit(main())
