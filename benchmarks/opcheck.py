"""One OpInfo entry on the device against the CPU: forward, gradient, and which operators fell back.

Used by the coverage run and by tests/device/test_ops.py, so that both mean the same by "right". The databases of
modules and optimizers are in modulecheck.py and optimcheck.py.
"""

import contextlib
import warnings
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map

TOLERANCE = {  # relative, absolute
    torch.float32: (1e-3, 2e-4),
    torch.complex64: (1e-3, 2e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float64: (1e-6, 1e-6),
}
# The values are random: shape, dtype and repeatability by seed are compared, distributions in tests/device/test_random.
RANDOM = {
    "bernoulli", "multinomial", "normal", "uniform", "cauchy", "exponential", "geometric", "log_normal", "rand_like",
    "randn", "randn_like", "randint", "randint_like", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "pca_lowrank", "svd_lowrank", "normal_",
}  # fmt: skip
# Random for some samples (dropout): those where the CPU differs from itself under another seed.
SOMETIMES_RANDOM = {"nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward"}
# A reference that wants its sections in a tensor of the CPU.
UNMOVABLE = {"_refs.tensor_split"}
# PyTorch leaves open which of several equal values an index names, unless a stable order is asked for: such indices are
# compared by the values they name. The number is where `dim` stands among the arguments.
TIES = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "mode": 0}
# Two ways in which an answer other than the CPU's is taken for right; an entry that needs neither is right strictly.
READINGS = {
    "ties": "an index names another of several equal values",
    "rounding": "a 16-bit answer is the CPU's float32 answer, not its 16-bit one",
}
# What is returned is memory nobody has written.
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


@dataclass
class Outcome:
    name: str
    dtype: str
    samples: int = 0
    status: str = "right"  # right, wrong, error, unmovable
    detail: str = ""
    fallbacks: dict = field(default_factory=dict)
    database: str = "op"
    aten: str = ""  # the operator that an entry of the operator database is about
    readings: list = field(default_factory=list)  # what had to be read into "right": see READINGS
    example: str = ""  # where the CPU's 16-bit answer is another: ours, its own, and its float32 one


def to_device(x, device):
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided:
            raise Unmovable(f"layout {x.layout}")
        moved = x.detach().to(device)
        if x.untyped_storage().nbytes() > x.numel() * x.element_size() and not x.is_conj() and not x.is_neg():
            # A view of a part, with the rest of its storage: as_strided may address that.
            whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
            moved = whole.to(device, copy=True).as_strided(x.shape, x.stride(), x.storage_offset())
        return moved.requires_grad_(x.requires_grad)
    if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
        return torch.device(device)
    return x


class Unmovable(Exception):
    """A sample holds something that no device but the CPU can take."""


def move(sample, device):
    with contextlib.suppress(AttributeError):
        return sample.transform(lambda x: to_device(x, device))
    raise Unmovable("no transform")


def name_of(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def check(op, dtype, device="webgpu", limit=10) -> Outcome:
    outcome = Outcome(name_of(op), str(dtype).removeprefix("torch."), aten=op.aten_name.removeprefix("nn.functional."))
    differentiable = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd

    def samples():
        return islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), limit)

    return run(outcome, samples, lambda sample: compare(op, sample, dtype, device, differentiable, outcome))


def check_ref(op, dtype, device="webgpu", limit=3) -> Outcome:
    """A reference of torch._refs, forward only: its gradient is that of the operators it is made of."""
    outcome = Outcome(name_of(op), str(dtype).removeprefix("torch."), database="ref")

    def compare_one(sample):
        return compare(op, sample, dtype, device, False, outcome)

    return run(outcome, lambda: islice(op.sample_inputs("cpu", dtype), limit), compare_one)


def run(outcome: Outcome, make_samples, compare_one) -> Outcome:
    """`compare_one` raises where the device is not as the CPU, and is false where the CPU itself refuses."""
    import webgpu_backend

    webgpu_backend.reset_fallbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            samples = list(make_samples())
        except Exception as error:  # the database itself refuses this dtype on the CPU
            outcome.status, outcome.detail = "unmovable", f"samples: {error}"
            return outcome
        for index, sample in enumerate(samples):
            try:
                if compare_one(sample):
                    outcome.samples += 1
            except Unmovable as error:
                outcome.detail = str(error)
            except TypeError as error:
                if "shader-f64" not in str(error):
                    outcome.status, outcome.detail = "error", f"sample {index}: TypeError: {_first_lines(error)}"
                    break
                outcome.detail = str(error)  # the sample wants float64, which this adapter has not
            except AssertionError as error:
                outcome.status, outcome.detail = "wrong", f"sample {index}: {_first_lines(error)}"
                break
            except Exception as error:
                outcome.status = "error"
                outcome.detail = f"sample {index}: {type(error).__name__}: {_first_lines(error)}"
                break
    if outcome.status == "right" and not outcome.samples:
        outcome.status = "unmovable"
    outcome.fallbacks = webgpu_backend.fallbacks()
    outcome.readings = sorted(set(outcome.readings))
    return outcome


def _first_lines(error) -> str:
    return " / ".join(line for line in str(error).splitlines() if line.strip())[:400]


def compare(op, sample, dtype, device, differentiable, outcome: Outcome) -> bool:
    """False where the CPU itself refuses the sample. Adds to the outcome's readings those that the answer needs."""
    readings = outcome.readings
    if name_of(op) in UNMOVABLE:
        raise Unmovable("its samples hold what cannot be moved")
    moved, process = move(sample, device), sample.output_process_fn_grad
    sample = move(sample, "cpu")  # leaves on both sides: some samples are views of one tensor that requires grad
    try:
        torch.manual_seed(1)
        want = op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return False
    torch.manual_seed(1)
    got = op(moved.input, *moved.args, **moved.kwargs)
    name = op.name.removeprefix("_refs.")
    shapes_only = name in UNINITIALISED
    random = name in RANDOM or (name in SOMETIMES_RANDOM and _drops(sample))
    if random:
        torch.manual_seed(1)
        again = move(sample, device)
        repeat = op(again.input, *again.args, **again.kwargs)
        for a, b in zip(tree_leaves(got), tree_leaves(repeat)):
            if isinstance(a, torch.Tensor):
                assert_close(a.detach().cpu(), b.detach().cpu(), rtol=0, atol=0, equal_nan=True)
        shapes_only = True
    if not shapes_only:
        got, want = process(got), process(want)
    if op.name in TIES and not sample.kwargs.get("stable") and _other_ties(op, sample, got, want):
        readings.append("ties")
        got, differentiable = _replace_indices(got, want), False
    try:
        match(got, want, dtype, shapes_only)
        if differentiable and not shapes_only:
            compare_gradients(got, want, sample, moved, dtype)
    except AssertionError:
        if op.name == "msort" and sample.input.unique().numel() < sample.input.numel():
            readings.append("ties")  # which of equal values gets the gradient is as open
            match(got, want, dtype)
            return True
        if dtype not in (torch.float16, torch.bfloat16):
            raise
        readings.append("rounding")
        outcome.example = outcome.example or example(op, sample, moved, dtype, differentiable)
        compare_with_float32(op, sample, got, moved, dtype, differentiable)
    return True


def example(op, sample, moved, dtype, differentiable) -> str:
    """The result or gradient in which the device and the CPU differ, where they differ most."""
    ours, theirs, exact = (
        results(op, s, differentiable) for s in (moved, sample, sample.transform(lambda x: widen(x, dtype)))
    )
    rtol, atol = TOLERANCE[dtype]
    for (what, a), (_, b), (_, c) in zip(ours, theirs, exact):
        apart = ~torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if apart.any():
            distance = torch.where(apart, (a.float() - b.float()).abs(), -1).nan_to_num(float("inf"))
            worst = int(distance.argmax())
            a, b, c = (f"{x.flatten()[worst].item():.5g}" for x in (a, b, c))
            shape = tuple(next(t for t in tree_leaves(sample.input) if isinstance(t, torch.Tensor)).shape)
            return f"{what} for {shape}: {int(apart.sum())} of {apart.numel()} differ; {a}, CPU {b}, float32 {c}"
    return ""


def results(op, sample, differentiable) -> list[tuple[str, torch.Tensor]]:
    """On the CPU: results, then gradients, by name."""
    torch.manual_seed(1)
    out = sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))
    outputs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
    found = [("result", _host(t)) for t in outputs]
    inputs = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if _wants_grad(t)]
    outputs = [t for t in outputs if t.requires_grad]
    if differentiable and inputs and outputs:
        grads = torch.autograd.grad(outputs, inputs, seeds_of(outputs, outputs), allow_unused=True)
        found += [("gradient", _host(g)) for g in grads if g is not None]
    return found


def seeds_of(outputs, targets) -> list[torch.Tensor]:
    """The same gradient for what stands on either device, drawn on the CPU in the dtype of `outputs`."""
    generator = torch.Generator().manual_seed(7)
    drawn = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in outputs]
    return [seed.to(dtype=t.dtype, device=t.device) for seed, t in zip(drawn, targets)]


def widen(x, dtype):
    if isinstance(x, torch.Tensor):
        wide = x.detach().float() if x.dtype == dtype else x.detach().clone()
        return wide.requires_grad_(x.requires_grad)
    return torch.float32 if x is dtype else x


def compare_with_float32(op, sample, got, moved, dtype, differentiable) -> None:
    """The device computes 16-bit floats in float32 and rounds once; the CPU may round at every step. An answer within
    tolerance of the CPU's own float32 one, rounded, is right too."""
    wide = sample.transform(lambda x: widen(x, dtype))
    torch.manual_seed(1)
    want = sample.output_process_fn_grad(op(wide.input, *wide.args, **wide.kwargs))
    narrow = tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x, want)
    match(got, narrow, dtype)
    if differentiable:
        compare_gradients(got, narrow, wide, moved, dtype, cast=dtype)


def _other_ties(op, sample, got, want) -> bool:
    """The indices differ from the CPU's, and name the same values."""
    ours, theirs = _indices(got), _indices(want)
    if ours.shape != theirs.shape or torch.equal(ours, theirs) or not sample.input.dim():
        return False
    at = TIES[op.name]
    dim = sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    if ours.dim() < sample.input.dim():  # keepdim=False
        ours, theirs = ours.unsqueeze(dim), theirs.unsqueeze(dim)
    values = sample.input.detach()
    size = values.shape[dim]
    assert bool(((ours >= 0) & (ours < size)).all()), "an index is out of range"
    if op.name in ("sort", "argsort"):
        assert torch.equal(ours.sort(dim)[0], theirs.sort(dim)[0]), "the indices are no permutation"
    assert_close(values.gather(dim, ours), values.gather(dim, theirs), rtol=0, atol=0, equal_nan=True)
    return True


def _indices(result) -> torch.Tensor:
    return (result if isinstance(result, torch.Tensor) else result[1]).cpu()


def _replace_indices(got, want):
    return want if isinstance(got, torch.Tensor) else (got[0], want[1])


def _drops(sample) -> bool:
    """Attention with dropout: the database seeds each call itself, so another seed tells nothing."""
    return sample.kwargs.get("dropout_p", 0) > 0 or bool(sample.kwargs.get("training"))


def match(got, want, dtype, shapes_only=False) -> None:
    ours, theirs = tree_leaves(got), tree_leaves(want)
    assert len(ours) == len(theirs), f"{len(ours)} results, the CPU gives {len(theirs)}"
    for a, b in zip(ours, theirs):
        if not isinstance(b, torch.Tensor):
            if not shapes_only:
                assert a == b, f"{a} is not {b}"
            continue
        assert a.dtype == b.dtype, f"dtype {a.dtype}, the CPU gives {b.dtype}"
        assert a.shape == b.shape, f"shape {tuple(a.shape)}, the CPU gives {tuple(b.shape)}"
        if not shapes_only:
            rtol, atol = TOLERANCE.get(dtype if dtype in TOLERANCE and _inexact(b) else b.dtype, (0, 0))
            assert_close(_host(a), _host(b), rtol=rtol, atol=atol, equal_nan=True)


def _inexact(x) -> bool:
    return x.dtype.is_floating_point or x.dtype.is_complex


def _host(x):
    x = x.detach().cpu().resolve_conj().resolve_neg()
    return x.to(torch.int64) if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x


def compare_gradients(got, want, sample, moved, dtype, cast=None) -> None:
    theirs_in = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if _wants_grad(t)]
    ours_in = [t for t in tree_leaves((moved.input, moved.args, moved.kwargs)) if _wants_grad(t)]
    theirs = [t for t in tree_leaves(want) if isinstance(t, torch.Tensor) and t.requires_grad]
    ours = [t for t in tree_leaves(got) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not theirs or not theirs_in:
        return
    assert len(ours) == len(theirs), "other outputs are differentiable than on the CPU"
    try:
        want_grads = torch.autograd.grad(theirs, theirs_in, seeds_of(theirs, theirs), allow_unused=True)
    except Exception:  # the CPU has no gradient for this sample
        return
    got_grads = torch.autograd.grad(ours, ours_in, seeds_of(theirs, ours), allow_unused=True, retain_graph=True)
    for a, b in zip(got_grads, want_grads):
        assert (a is None) == (b is None), "a gradient is missing on one side"
        if b is not None and b.layout is torch.strided:
            match(a, b if cast is None or b.dtype != torch.float32 else b.to(cast), dtype)


def _wants_grad(t) -> bool:
    return isinstance(t, torch.Tensor) and t.requires_grad


def database():
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db
