"""Random programs, run on the CPU and on the device: whatever they leave must be the same.

    python -m tests.fuzz --programs 1000 --seed 0 [--compiled 50] [--seconds 600]

A program is a list of lines of Python over tensors t0, t1, ...: views, writes through them, indexing, arithmetic in
many dtypes, reductions, gradients. It is made line by line while the CPU runs it, so that every line makes sense there.
Then both devices run the whole text, nothing is read in between, and every tensor and gradient is compared. Programs
that differ are printed with the lines that do not matter left out.

Where a value is rounded, what is decided by it (an order, a comparison) could differ for no fault: such lines are only
given what is exact, small whole numbers that no rounding has touched.
"""

import argparse
import random
import re
import time
import traceback
import warnings
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

D = "webgpu"
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
DTYPES = (*FLOATS, *FLOATS, *WHOLE, torch.bool, torch.complex64)
MOST_ELEMENTS = 600
_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float64: 1e-9}


class Dice:
    """Choices of `random`. Another source of integers (hypothesis's) may stand in for it."""

    def __init__(self, seed: int):
        self.below = random.Random(seed).randrange

    def pick(self, options):
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0


def make(shape: tuple, dtype: torch.dtype, seed: int, device: str, grad: bool = False) -> torch.Tensor:
    """Whole numbers of few bits; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    low, high = (0, 2) if dtype is torch.bool else (0, 9) if dtype is torch.uint8 else (-4, 5)
    values = torch.randint(low, high, shape, generator=generator)
    if dtype.is_complex:
        values = torch.complex(values.float(), torch.randint(-3, 4, shape, generator=generator).float())
    return values.to(dtype).to(device).requires_grad_(grad)


@dataclass
class Program:
    lines: list[str] = field(default_factory=list)
    inexact: set[str] = field(default_factory=set)
    graded: bool = False

    def text(self) -> str:
        return "\n".join(self.lines)


class Writer:
    """Makes a program, a line at a time."""

    def __init__(self, dice: Dice, dtypes: tuple = DTYPES):
        self.dice = dice
        self.dtypes = dtypes
        self.program = Program(graded=dice.chance(3))
        self.tensors: dict[str, torch.Tensor] = {}
        self.rounded: set[int] = set()  # storages that hold rounded values
        self.scope = scope("cpu")

    def write(self, count: int) -> Program:
        for _ in range(self.dice.below(3) + 1):
            self.make()
        failures = 0
        while len(self.program.lines) < count and failures < 40:
            failures += not self.line()
        self.program.inexact = {n for n, t in self.tensors.items() if self.is_rounded(t)}
        return self.program

    # -- lines

    def make(self) -> None:
        d = self.dice
        shape = self.shape()
        grad = self.program.graded and not d.chance(3)
        dtype = d.pick([t for t in self.dtypes if t.is_floating_point]) if grad else d.pick(self.dtypes)
        self.add(f"make({shape}, {dtype}, {d.below(1000)}{', grad=True' if grad else ''})", True)

    def line(self) -> bool:
        """One more line; False where the CPU refuses it."""
        if self.dice.chance(12):
            self.make()
            return True
        kind = self.dice.pick(KINDS)
        x = self.pick()
        found = kind(self, x)
        if found is None:
            return False
        return self.add(*found)

    def add(self, text: str, exact: bool, target: str | None = None) -> bool:
        """Runs a line and keeps it. `exact`: it rounds nothing that is exact; `target`: what it writes."""
        name = f"t{len(self.tensors)}"
        line = text if target else f"{name} = {text}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return False
        used = [t for n, t in self.tensors.items() if _names(n, text)]
        made = self.tensors[target] if target else self.scope[name]
        if target and _overlaps(made):  # what is written twice is nobody's promise
            raise Abandoned
        if not isinstance(made, torch.Tensor) or made.numel() > MOST_ELEMENTS or made.layout != torch.strided:
            return False
        self.program.lines.append(line)
        if not target:
            self.tensors[name] = made
        if not exact or any(map(self.is_rounded, used)) or _is_large(made):
            self.rounded.add(made.untyped_storage().data_ptr())
        return True

    # -- choices

    def is_rounded(self, t: torch.Tensor) -> bool:
        return t.numel() > 0 and t.untyped_storage().data_ptr() in self.rounded

    def pick(self, want=None) -> str | None:
        names = [n for n, t in self.tensors.items() if want is None or want(t)]
        # What was made last is used most: programs are chains rather than bushes.
        return names[-1 - min(self.dice.below(6), len(names) - 1)] if names else None

    def exact(self, want=None) -> str | None:
        return self.pick(lambda t: not self.is_rounded(t) and (want is None or want(t)))

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = tuple(self.dice.pick(SIZES) for _ in range(self.dice.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))))
            if torch.Size(shape).numel() <= MOST_ELEMENTS:
                return shape

    def dim(self, x: str, least: int = 1) -> int | None:
        n = self.tensors[x].dim()
        return None if n < least else self.dice.below(2 * n) - n

    def partner(self, x: str) -> str:
        """Something that broadcasts with x, or a number."""
        shape = self.tensors[x].shape
        if not self.dice.chance(3):
            found = self.pick(lambda t: _broadcasts(t.shape, shape))
            if found:
                return found
        return self.number(x)

    def apart(self, y: str, x: str) -> str:
        """y, or a copy where x lies otherwise on its memory: torch says nothing of elements that are read and written
        in one call, but by themselves."""
        a, b = self.tensors[y], self.tensors[x]
        shared = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        return f"{y}.clone()" if shared and _place(a) != _place(b) else y

    def number(self, x: str) -> str:
        dtype = self.tensors[x].dtype
        if dtype is torch.bool:
            return self.dice.pick(("True", "False", "2"))
        if dtype.is_floating_point and self.dice.chance(3):
            return self.dice.pick(("0.5", "-1.5", "2.25"))
        return self.dice.pick(("1", "2", "3", "0") if dtype is torch.uint8 else ("1", "2", "-1", "3", "0"))


class Abandoned(Exception):
    """A program that has done what no device defines."""


def _place(t: torch.Tensor) -> tuple:
    return t.storage_offset(), t.shape, t.stride()


def _overlaps(t: torch.Tensor) -> bool:
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride()):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < t.numel()


def _names(name: str, text: str) -> bool:
    at = text.find(name)
    while at >= 0:
        if not text[at + len(name) : at + len(name) + 1].isdigit():
            return True
        at = text.find(name, at + 1)
    return False


def _broadcasts(a, b) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


def _is_large(t: torch.Tensor) -> bool:
    """Whether sums of such numbers may be rounded."""
    if not (t.is_floating_point() or t.is_complex()) or not t.numel():
        return False
    most = {torch.float16: 64.0, torch.bfloat16: 8.0}.get(t.dtype, 4096.0)
    top = t.detach().abs().max()
    return (
        not bool(top <= most) or bool((t.detach() * 4 != (t.detach() * 4).round()).any())
        if not t.is_complex()
        else not bool(top <= most)
    )


# -- kinds of lines: each gives (text, exact[, what is written]) or None where it does not fit


def view(w: Writer, x: str):
    t, d = w.tensors[x], w.dice
    a, b = w.dim(x), w.dim(x)
    if a is None:
        return d.pick((f"{x}.view(1)", f"{x}.expand(2, 3)", f"{x}.unsqueeze(0)", f"{x}.reshape(1, 1)")), True
    n = t.shape[a]
    start, stop = d.below(n + 1), d.below(n + 1)
    options = [
        f"{x}.transpose({a}, {b})", f"{x}.permute({tuple(reversed(range(t.dim())))})", f"{x}.unsqueeze({a})",
        f"{x}.narrow({a}, {min(start, stop)}, {abs(stop - start)})", f"{x}.flatten()", f"{x}.reshape(-1)",
        f"{x}.reshape({(*t.shape[1:], t.shape[0])})", f"{x}.movedim({a}, {b})", f"{x}[{start}:, ...]",
        f"{x}[..., ::{d.below(3) + 1}]", f"{x}.squeeze({a})", f"{x}.unsqueeze(0).expand(3, *{tuple(t.shape)})",
        f"{x}.diagonal(0, {a}, {b})", f"{x}.unfold({a}, {min(n, 2)}, 1)", f"{x}.detach()", f"{x}.view_as({x})",
        f"{x}.t()", f"{x}.chunk(2, {a})[-1]", f"{x}.mT",
        f"{x}.swapaxes({a}, {b})",
    ]  # fmt: skip
    if n:
        options += [f"{x}.select({a}, {d.below(n)})", f"{x}[{d.below(n)}]", f"{x}[None, {d.below(n)}]",
                    f"{x}.unbind({a})[{d.below(n)}]", f"{x}.split({d.below(n) + 1}, {a})[0]"]  # fmt: skip
    if t.is_complex():
        options += [f"torch.view_as_real({x})", f"{x}.real", f"{x}.imag", f"{x}.conj()"] * 3
    return d.pick(options), True


def copies(w: Writer, x: str):
    d, t = w.dice, w.tensors[x]
    a = w.dim(x)
    options = [f"{x}.clone()", f"{x}.contiguous()", f"{x}.to({d.pick(w.dtypes)})", f"{x}.tril()", f"{x}.triu(1)"]
    if a is not None:
        other = w.pick(lambda o: o.dim() == t.dim()) or x
        options += [
            f"{x}.flip({a})", f"{x}.roll({d.below(5) - 2}, {a})", f"{x}.repeat_interleave(2, {a})",
            f"torch.cat([{x}, {other}], {a})", f"torch.stack([{x}, {x}], {a})", f"F.pad({x}, (1, {d.below(3)}))",
            f"torch.cat([{x}, {x}.flip({a}), {other}], {a})", f"{x}.tile(2)", f"F.pad({x}, (-1, 2), value=2)",
            f"{x}.repeat({', '.join(['2'] * t.dim())})", f"torch.hstack([{x}, {other}])", f"{x}.rot90(1, ({a}, 0))",
        ]  # fmt: skip
    text = d.pick(options)
    return (text, ".to(" not in text or not (t.is_floating_point() and w.is_rounded(t)))


def unary(w: Writer, x: str):
    t = w.tensors[x]
    exact = ["-{x}", "{x}.abs()", "{x}.relu()", "{x}.square()", "{x}.clamp(-2, 3)", "{x}.clamp(min=1)", "{x} * {x}",
             "F.hardtanh({x})", "{x}.positive()", "F.leaky_relu({x}, 0.5)"]  # fmt: skip
    rounded = ["{x}.sin()", "{x}.tanh()", "{x}.sigmoid()", "{x}.abs().sqrt()", "F.gelu({x})", "F.silu({x})",
               "({x} / 3).exp().clamp(max=50)", "{x}.abs().log1p()", "F.softplus({x})", "{x}.atan()", "{x}.erf()",
               "F.elu({x})", "1 / ({x}.abs() + 1)", "({x}.abs() + 1).rsqrt()", "F.mish({x})", "{x}.cos()"]  # fmt: skip
    if t.is_complex():
        exact, rounded = ["-{x}", "{x} * {x}", "{x}.conj()", "{x}.square()"], ["{x}.abs()", "{x} / 2"]
    if t.is_floating_point() and w.dice.chance(2) or t.is_complex() and w.dice.chance(3):
        return w.dice.pick(rounded).format(x=x), False
    return w.dice.pick(exact).format(x=x), True


def discrete(w: Writer, _):
    x = w.exact(lambda t: not t.is_complex())
    if x is None:
        return None
    y = w.exact(lambda t: _broadcasts(t.shape, w.tensors[x].shape) and not t.is_complex()) or "1"
    op = w.dice.pick(("<", ">", "==", "!=", "<=", ">="))
    options = [f"{x} {op} {y}", f"{x} {op} {w.number(x)}", f"{x}.sign()", f"{x}.floor()", f"{x}.round()", f"{x} % 3",
               f"{x} // 2", f"{x}.logical_not()", f"torch.isin({x}, {y})" if y != "1" else f"{x}.isnan()",
               f"torch.logical_and({x}, {y})" if y != "1" else f"{x}.bool()", f"{x}.trunc()", f"torch.fmod({x}, 2)",
               f"torch.isclose({x}, {x})", f"{x}.to(torch.int32)", f"{x}.to(torch.int64)", f"{x}.bool()",
               f"torch.div({x}, 2, rounding_mode='floor')"]  # fmt: skip
    if not w.tensors[x].is_floating_point():
        options += [f"{x} & {w.dice.pick(('3', y))}", f"{x} | 1", f"{x} ^ {y}", f"~{x}", f"{x} << 1", f"{x} >> 1"]
    return w.dice.pick(options), True


def binary(w: Writer, x: str):
    y = w.partner(x)
    d = w.dice
    text = d.pick((f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"torch.add({x}, {y}, alpha=2)", f"{y} - {x}",
                   f"torch.rsub({x}, {y})", f"{x} + {x} * {y}", f"torch.sub({x}, {y}, alpha=3)"))  # fmt: skip
    if w.tensors[x].is_complex() or y not in w.tensors or d.chance(2):
        return text, True
    c = w.exact(lambda t: t.dtype is torch.bool and _broadcasts(t.shape, w.tensors[x].shape))
    options = [f"torch.maximum({x}, {y})", f"torch.minimum({x}, {y})", f"torch.lerp({x}, {y}, 0.5)",
               f"torch.addcmul({x}, {x}, {y}, value=2)", f"torch.where({x} > 0, {x}, {y})"]  # fmt: skip
    if c:
        options += [f"torch.where({c}, {x}, {y})", f"{x}.masked_fill({c}, 2)"] * 2
    text = d.pick(options)
    if "> 0" in text and w.is_rounded(w.tensors[x]):
        return None
    return text, "lerp" not in text


def reduction(w: Writer, x: str):
    d, t = w.dice, w.tensors[x]
    a, keep = w.dim(x), d.chance(2)
    if a is None or d.chance(5):
        return d.pick((f"{x}.sum()", f"{x}.float().mean()", f"{x}.amax()", f"{x}.sum().clone()")), False
    options = [f"{x}.sum({a}, keepdim={keep})", f"{x}.cumsum({a})", f"{x}.amax({a}, keepdim={keep})",
               f"{x}.amin({a})", f"{x}.max({a}).values", f"{x}.sum()"]  # fmt: skip
    if not t.is_complex():
        options.append(f"{x}.cummax({a}).values")
    if t.is_floating_point():
        options += [f"{x}.mean({a}, keepdim={keep})", f"{x}.softmax({a})", f"{x}.log_softmax({a})",
                    f"{x}.logsumexp({a})",
                    f"{x}.var({a}, correction=0)", f"{x}.norm(dim={a})", f"F.layer_norm({x}, {x}.shape[-1:])",
                    f"F.normalize({x}, dim={a})"]  # fmt: skip
        return d.pick(options), False
    return d.pick(options), not t.is_complex()


def order(w: Writer, _):
    x = w.exact(lambda t: t.dim() and not t.is_complex() and t.numel())
    if x is None:
        return None
    a = w.dim(x)
    n = w.tensors[x].shape[a]
    return w.dice.pick((
        f"{x}.sort({a}, stable=True).values", f"{x}.sort({a}, stable=True).indices",
        f"{x}.detach().topk({min(n, 3)}, {a}).values",  # equal ones are any of them
        f"{x}.any({a})", f"{x}.all({a})", f"{x}.nonzero()", f"{x}.unique()", f"{x}.count_nonzero({a})",
        f"{x}.argsort({a}, stable=True, descending=True)", f"{x}.sort(0, stable=True, descending=True).values",
        f"torch.searchsorted({x}.flatten().sort()[0], {x})",
        f"{x}.detach().kthvalue({n}, {a}).values", f"{x}.flatten().bincount()", f"{x}.unique(return_inverse=True)[1]",
    )), True  # fmt: skip


def product(w: Writer, x: str):
    t = w.tensors[x]
    if t.dtype is torch.bool:
        return None
    y = w.pick(lambda o: o.dim() and t.dim() and o.dtype == t.dtype and o.shape[-min(2, o.dim())] == t.shape[-1])
    if y is None:
        y = f"{x}.mT"
    options = [f"{x} @ {y}", f"torch.matmul({x}, {y})"]
    if t.dim() == 2:
        options += [
            f"F.linear({x}, {x})",
            f"torch.mm({x}.t(), {x})",
            f"torch.addmm({x} @ {x}.t(), {x}, {x}.t(), alpha=2)",
        ]
    if t.dim() == 3:
        options += [f"torch.bmm({x}, {x}.mT)", f"torch.einsum('bij,bkj->bik', {x}, {x})", f"F.avg_pool1d({x}, 2)"]
    if t.dim() == 4:
        options += [f"F.max_pool2d({x}, 2)", f"F.interpolate({x}, scale_factor=2)", f"F.conv2d({x}, {x}[:1])"]
    return w.dice.pick(options), False


def indices(w: Writer, x: str):
    """Reading by indices and masks."""
    t, d = w.tensors[x], w.dice
    if not t.dim() or not t.numel():
        return None
    a = w.dim(x)
    n, seed = t.shape[a], d.below(1000)
    index = f"index({d.pick((1, 2, 3, n, 2 * n))}, {n}, {seed})"
    mask = w.exact(lambda o: o.dtype is torch.bool and o.shape == t.shape)
    options = [f"{x}.index_select({a}, {index})", f"{x}[index((2, 3), {t.shape[0]}, {seed})]",
               f"{x}.gather({a}, index({tuple(t.shape)}, {n}, {seed}))", f"{x}.take(index(5, {t.numel()}, {seed}))",
               f"{x}[..., index(4, {t.shape[-1]}, {seed})]", f"{x}[index(3, {t.shape[0]}, {seed}) - {t.shape[0]}]",
               f"torch.take_along_dim({x}, index({tuple(t.shape)}, {n}, {seed}), {a})"]  # fmt: skip
    if t.dim() > 1:
        options += [f"{x}[index(3, {t.shape[0]}, {seed}), index(3, {t.shape[1]}, {seed + 1})]",
                    f"{x}[:, index((2, 1), {t.shape[1]}, {seed})]",
                    f"{x}[0, index(2, {t.shape[1]}, {seed})]"]  # fmt: skip
    if mask:
        options += [f"{x}[{mask}]", f"{x}.masked_select({mask})"] * 3
    return d.pick(options), True


def inplace(w: Writer, x: str):
    y = w.pick(lambda t: _broadcasts(t.shape, w.tensors[x].shape)) if not w.dice.chance(3) else None
    y = w.apart(y, x) if y else w.number(x)
    number = w.number(x)
    return w.dice.pick((
        f"{x}.add_({y})", f"{x}.mul_({y})", f"{x}.sub_({y}, alpha=2)", f"{x}.fill_({number})", f"{x}.zero_()",
        f"{x}.clamp_(-3, 4)", f"{x}.neg_()", f"{x} += {y}", f"{x}[...] = {y}", f"{x}.relu_()",
        f"{x}.copy_(torch.as_tensor({y}))",
        f"{x}.addcmul_({x}, {x})", f"{x}.t_()", f"{x}.squeeze_()", f"{x}.transpose_(0, -1)", f"{x}.mul_({number})",
    )), True, x  # fmt: skip


def indexed_write(w: Writer, x: str):
    t, d = w.tensors[x], w.dice
    if not t.dim() or not t.numel():
        return None
    a, number, seed = w.dim(x), w.number(x), d.below(1000)
    n, first = t.shape[a], t.shape[0]
    y = w.pick(lambda o: o.dtype == t.dtype and _broadcasts(o.shape, t.shape[1:]) and o.dim() < t.dim()) or number
    if y in w.tensors and w.tensors[y].untyped_storage().data_ptr() == t.untyped_storage().data_ptr():
        y = f"{y}.clone()"
    mask = w.exact(lambda o: o.dtype is torch.bool and o.shape == t.shape)
    options = [
        f"{x}[{d.below(first)}] = {y}", f"{x}[1:] = {y}", f"{x}[..., ::2] = {number}", f"{x}[::2].add_({number})",
        f"{x}.index_fill_({a}, index(2, {n}, {seed}), {number})", f"{x}.select({a}, 0).mul_(2)",
        f"{x}[index({first}, {first}, {seed}, distinct=True)] = {x}.clone()", f"{x}[:1].copy_({x}[-1:].clone())",
        f"{x}.index_add_({a}, index({n}, {n}, {seed}), {x}.clone())", f"{x}[index(2, {first}, {seed})] += 1",
        f"{x}.index_copy_({a}, index({n}, {n}, {seed}, distinct=True), {x}.flip({a}))", f"{x}.t()[0] = {number}",
        f"{x}.scatter_({a}, index({tuple(t.shape)}, {n}, {seed}), {number})", f"{x}.view(-1)[1::3] = {number}",
        f"{x}.scatter_add_({a}, index({tuple(t.shape)}, {n}, {seed}), {x}.clone())",
        f"{x}.index_put_((index(3, {first}, {seed}),), torch.as_tensor({number}).to({x}), accumulate=True)",
        f"{x}.diagonal().fill_({number})", f"{x}[{d.below(first)}, ...].add_(1)",
        f"{x}.put_(index(2, {t.numel()}, {seed}, distinct=True), {x}.flatten()[:2].clone())",
    ]  # fmt: skip
    if mask:
        options += [f"{x}[{mask}] = {number}", f"{x}.masked_fill_({mask}, {number})",
                    f"{x}.masked_scatter_({mask}, {x}.flip(0).contiguous())"] * 3  # fmt: skip
    return d.pick(options), True, x


KINDS = (view, view, view, copies, copies, unary, unary, discrete, binary, binary, binary, reduction, order, product,
         indices, indices, inplace, inplace, indexed_write, indexed_write)  # fmt: skip


# -- running and comparing


def scope(device: str) -> dict:
    def index(shape, below: int, seed: int, distinct: bool = False):
        generator = torch.Generator().manual_seed(seed)
        if distinct:
            return torch.randperm(below, generator=generator)[:shape].to(device)
        return torch.randint(below, shape if isinstance(shape, tuple) else (shape,), generator=generator).to(device)

    def make_here(shape, dtype, seed, grad=False):
        return make(shape, dtype, seed, device, grad)

    def as_tensor(x):
        return torch.as_tensor(x, device=device)

    class Torch:
        """torch, whose few factories in programs are told the device."""

        def __getattr__(self, name):
            return as_tensor if name == "as_tensor" else getattr(torch, name)

    return {"torch": Torch(), "F": F, "make": make_here, "index": index}


def run(program: Program, device: str, compiled: bool = False) -> dict[str, torch.Tensor]:
    """All tensors that a program leaves, and the gradients of its leaves."""
    found = scope(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if compiled:
            _run_compiled(program, found)
        else:
            exec(compile(program.text(), "program.py", "exec"), found)
        names = [n for n, t in found.items() if isinstance(t, torch.Tensor) and n[0] == "t"]
        tensors = {n: found[n] for n in sorted(names, key=lambda n: int(n[1:]))}
        if program.graded:
            _differentiate(tensors)
    return {n: t.detach().resolve_conj().resolve_neg().cpu() for n, t in tensors.items()}


_INDEX = re.compile(r"index\((?:\([^)]*\)|[^(),]+)[^()]*\)")


def _run_compiled(program: Program, found: dict) -> None:
    """As one graph, its leaves and indices given."""
    leaves = [line for line in program.lines if "make(" in line]
    rest = [line for line in program.lines if "make(" not in line]
    for k, call in enumerate(sorted({c for line in rest for c in _INDEX.findall(line)}, key=len, reverse=True)):
        leaves.append(f"i{k} = {call}")
        rest = [line.replace(call, f"i{k}") for line in rest]
    exec("\n".join(leaves), found)
    given = [line.split(" = ")[0] for line in leaves]
    made = sorted({line.split(" = ")[0] for line in rest if " = " in line and line.split(" = ")[0].isidentifier()})
    body = "".join(f"    {line}\n" for line in rest)
    exec(f"def whole({', '.join(given)}):\n{body}    return {{{', '.join(f'{n!r}: {n}' for n in made)}}}", found)
    torch._dynamo.reset()
    call = torch.compile(found["whole"], backend=("inductor", "webgpu")[len(rest) % 2])
    found.update(call(*[found[n] for n in given]))


def _differentiate(tensors: dict[str, torch.Tensor]) -> None:
    ends = [t for t in tensors.values() if t.requires_grad and t.numel() and t.is_floating_point() and not t.is_leaf]
    if not ends:
        return
    try:
        torch.autograd.backward([(t.float() * 0.5).sum() for t in ends[-3:]])
    except RuntimeError as error:  # what the CPU says too: a saved tensor was written, a graph is freed
        tensors["error"] = torch.tensor(len(str(type(error))))
    for name, t in list(tensors.items()):
        if t.is_leaf and t.grad is not None:
            tensors[f"{name}.grad"] = t.grad


# Of graphs: gradients of all of them at once, and what its tensors without memory do not take (a shift of booleans).
_REFUSED_BY_TORCH = ("modified by an inplace operation", "fake tensor call", "derivative for aten::floor_divide")


def _largest(t: torch.Tensor) -> float:
    return (t.abs() if t.is_complex() else t).float().nan_to_num(0, 0, 0).abs().max().item()


def difference(program: Program, compiled: bool = False) -> str | None:
    """What a program leaves differently on the device, in words."""
    try:
        want = run(program, "cpu")
    except RuntimeError:  # it made sense only beside lines that were left out
        return None
    if compiled and "error" in want:  # a graph with its gradients is made at once, and would not be
        return None
    try:
        got = run(program, D, compiled)
    except Exception as error:  # noqa: BLE001  any of them is a finding
        if compiled and any(words in str(error) for words in _REFUSED_BY_TORCH):
            return None
        return f"{type(error).__name__}: {str(error)[:300]}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
    scale = max(
        [
            1.0,
            *[
                (t.abs() if t.is_complex() else t).float().nan_to_num(0, 0, 0).abs().max().item()
                for t in want.values()
                if t.numel()
            ],
        ]
    )
    for name, a in want.items():
        b = got.get(name)
        if b is None:
            return f"{name} is missing"
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)} on the CPU, {b.dtype}{list(b.shape)} here"
        rounded = name in program.inexact or name.endswith(".grad")
        if rounded and (not a.isfinite().all() or scale > 1e4):
            continue
        tolerance = 0.0
        if rounded and (a.is_floating_point() or a.is_complex()):
            tolerance = max([_TOLERANCE.get(t.dtype, 1e-4) for t in want.values()]) * scale
        if not torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{name} is {a.flatten()[:8].tolist()} on the CPU and {b.flatten()[:8].tolist()} here"
    return None


def smaller(program: Program, compiled: bool = False) -> Program:
    """The program without the lines that its difference does not need."""
    lines, at = list(program.lines), len(program.lines) - 1
    while at >= 0:
        tried = Program(lines[:at] + lines[at + 1 :], program.inexact, program.graded)
        try:
            if difference(tried, compiled):
                lines = tried.lines
        except Exception:  # noqa: BLE001  what is left makes no sense on the CPU
            pass
        at -= 1
    return Program(lines, program.inexact, program.graded)


def generate(dice: Dice, dtypes: tuple = DTYPES) -> Program:
    while True:
        try:
            return Writer(dice, dtypes).write(3 + dice.below(28))
        except Abandoned:
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=0, help="compile one program in so many, and run it so too")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    import webgpu_backend

    start, found, lines, ran = time.time(), 0, 0, 0
    for seed in range(given.seed, given.seed + given.programs):
        program = generate(Dice(seed))
        for compiled in (False, True)[: 1 + (given.compiled > 0 and seed % given.compiled == 0)]:
            if difference(program, compiled):
                found += 1
                short = smaller(program, compiled)
                print(f"-- seed {seed}{' compiled' * compiled}{' graded' * short.graded}\n{short.text()}")
                print(f"   {difference(short, compiled)}", flush=True)
        ran, lines = ran + 1, lines + len(program.lines)
        if time.time() - start > given.seconds:
            break
    print(f"{ran} programs, {lines} lines, {found} differ, {time.time() - start:.0f} s")
    print({k: v for k, v in webgpu_backend.stats().items() if k in ("dispatches", "pipelines_live", "plans_live")},
          webgpu_backend.fallbacks())  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
