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
import math
import random
import re
import time
import traceback
import warnings
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F

from tests.fuzz_lines import KINDS, broadcasts

D = "webgpu"
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
DTYPES = (*FLOATS, *FLOATS, *WHOLE, torch.bool, torch.complex64)
MOST_ELEMENTS = 600
LARGER = (1, 2, 3, 16, 31, 64, 65, 100, 128, 129, 200, 256, 257, 513, 1000, 1025)  # of one program in ten
MOST_OF_LARGER = 20_000
MOST_COMPARED = 1e4  # behind larger numbers rounding may be anything
_SHORT = (torch.float16, torch.bfloat16)
_UNITS = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float64: 1e-9, torch.complex128: 1e-9}


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
    backend: str = "inductor"  # of its compiled form
    errors: dict[str, float] = field(
        default_factory=dict
    )  # how far a tensor may be from the CPU's, where that is known

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
        self.past: dict[
            int, tuple[float, float]
        ] = {}  # storages, the coarsest rounding and the largest number behind them
        self.sizes, self.most = (LARGER, MOST_OF_LARGER) if dice.chance(10) else (SIZES, MOST_ELEMENTS)
        self.most_of_pairs = 100 * self.most  # what a line may compute before it is seen to be too large
        self.scope = scope("cpu")

    def write(self, count: int) -> Program:
        for _ in range(self.dice.below(3) + 1):
            self.make()
        failures = 0
        while len(self.program.lines) < count and failures < 40:
            failures += not self.line()
        self.program.inexact = {n for n, t in self.tensors.items() if self.is_rounded(t)}
        for name in self.program.inexact:
            unit, largest = self.past[self.tensors[name].untyped_storage().data_ptr()]
            self.program.errors[name] = unit * largest if largest <= MOST_COMPARED else math.inf
        return self.program

    # -- lines

    def make(self) -> None:
        d = self.dice
        shape = self.shape()
        grad = self.program.graded and not d.chance(3)
        dtype = d.pick([t for t in self.dtypes if t.is_floating_point]) if grad else d.pick(self.dtypes)
        self.add(f"make({shape}, {dtype}, {d.below(1000)}{', grad=True' if grad else ''})", True)

    def fresh(self, shape: tuple, dtype: torch.dtype) -> str:
        """One more leaf, for lines that want a tensor of just this shape."""
        grad = ", grad=True" if self.program.graded and dtype.is_floating_point and self.dice.chance(2) else ""
        name = f"t{len(self.tensors)}"
        if not self.add(f"make({shape}, {dtype}, {self.dice.below(1000)}{grad})", True):
            raise Unfit
        return name

    def line(self) -> bool:
        """One more line; False where the CPU refuses it."""
        if self.dice.chance(12):
            self.make()
            return True
        kind = self.dice.pick(KINDS)
        x = self.pick()
        try:
            found = kind(self, x)
        except (Unfit, RuntimeError):  # torch refuses to look at some views after their base was written
            return False
        return found is not None and self.add(*found)

    def add(self, text: str, exact: bool, target: str | None = None) -> bool:
        """Runs a line and keeps it. `exact`: it rounds nothing that is exact; `target`: what it writes."""
        name = f"t{len(self.tensors)}"
        line = text if target else f"{name} = {text}"
        used = [t for n, t in self.tensors.items() if _names(n, text)]
        decides = any(_has_fractions(t) and self.is_rounded(t) for t in used)
        if target and decides and not _has_fractions(self.tensors[target]):
            return False
        if any(t.dtype in _SHORT for t in used) and any(not _has_fractions(t) and _largest(t) > 256 for t in used):
            return False  # the CPU rounds such whole numbers before it computes, kernels do afterwards
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, AssertionError):
            return False
        made = self.tensors[target] if target else self.scope[name]
        if target and _overlaps(made):  # what is written twice is nobody's promise
            raise Abandoned
        if not isinstance(made, torch.Tensor) or made.numel() > self.most or made.layout != torch.strided:
            return False
        if decides and not _has_fractions(made):  # rounding would decide between two whole numbers
            return False
        self.program.lines.append(line)
        if not target:
            self.tensors[name] = made
        if not exact or any(map(self.is_rounded, used)) or _is_large(made):
            self.rounded.add(made.untyped_storage().data_ptr())
        past = [self.past.get(t.untyped_storage().data_ptr(), (0.0, 1.0)) for t in (*used, made)]
        units, largest = zip((_unit(made.dtype), _largest(made)), *past)
        self.past[made.untyped_storage().data_ptr()] = max(units), max(largest)
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
            shape = tuple(self.dice.pick(self.sizes) for _ in range(self.dice.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))))
            if torch.Size(shape).numel() <= self.most:
                return shape

    def dim(self, x: str, least: int = 1) -> int | None:
        n = self.tensors[x].dim()
        return None if n < least else self.dice.below(2 * n) - n

    def partner(self, x: str) -> str:
        """Something that broadcasts with x, or a number."""
        shape = self.tensors[x].shape
        if not self.dice.chance(3):
            found = self.pick(lambda t: broadcasts(t.shape, shape))
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


class Unfit(Exception):
    """A leaf that would be too large."""


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


def _has_fractions(t: torch.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def _is_large(t: torch.Tensor) -> bool:
    """Whether sums of such numbers may be rounded."""
    if not _has_fractions(t) or not t.numel():
        return False
    most = {torch.float16: 64.0, torch.bfloat16: 8.0}.get(t.dtype, 4096.0)
    top = t.detach().abs().max()
    return (
        not bool(top <= most) or bool((t.detach() * 4 != (t.detach() * 4).round()).any())
        if not t.is_complex()
        else not bool(top <= most)
    )


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
    call = torch.compile(found["whole"], backend=program.backend)
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


# Derivatives within a graph, `out=` of another dtype, and writes through `unfold`, which torch's graphs lose.
_NOT_COMPILED = re.compile(r"autograd\.grad|out=|unfold\(-?\d+, 1, 2\)\.\w+_\(")


def _unit(dtype: torch.dtype) -> float:
    return _UNITS.get(dtype, 1e-4) if dtype.is_floating_point or dtype.is_complex else 0.0


def _largest(t: torch.Tensor) -> float:
    if not t.numel():
        return 1.0
    return max(1.0, (t.detach().abs() if t.is_complex() else t.detach()).float().nan_to_num(0, 0, 0).abs().max().item())


def difference(program: Program, compiled: bool = False) -> str | None:
    """What a program leaves differently on the device, in words."""
    try:
        want = run(program, "cpu")
    except RuntimeError:  # it made sense only beside lines that were left out
        return None
    if compiled and ("error" in want or _NOT_COMPILED.search(program.text())):
        return None  # a graph with its gradients is made at once, and would not be
    try:
        got = run(program, D, compiled)
    except Exception as error:  # noqa: BLE001  any of them is a finding
        if compiled and any(words in str(error) for words in _REFUSED_BY_TORCH):
            return None
        return f"{type(error).__name__}: {str(error)[:300]}\n{''.join(traceback.format_tb(error.__traceback__)[-3:])}"
    if ("error" in got) != ("error" in want) and re.search("F.linear|attention|rms_norm", program.text()):
        return None  # their derivatives on devices keep other things than the CPU's: input, weight, output
    scale = max(map(_largest, want.values()))
    coarse = max(_unit(t.dtype) for t in want.values()) * scale if scale <= MOST_COMPARED else math.inf
    for name, a in want.items():
        b = got.get(name)
        if b is None:
            return f"{name} is missing"
        if compiled and (a.dtype, b.dtype) == (torch.uint8, torch.bool):
            continue  # `any` of bytes
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)} on the CPU, {b.dtype}{list(b.shape)} here"
        rounded = name in program.inexact or name.endswith(".grad")
        error = program.errors.get(name, coarse) if rounded else 0.0
        if error == math.inf or error and not a.isfinite().all():
            continue
        if not torch.allclose(a, b, rtol=error, atol=error, equal_nan=True):
            return f"{name} is {a.flatten()[:8].tolist()} on the CPU and {b.flatten()[:8].tolist()} here"
    return None


def smaller(program: Program, compiled: bool = False) -> Program:
    """The program without the lines that its difference does not need."""
    lines, at = list(program.lines), len(program.lines) - 1
    while at >= 0:
        tried = replace(program, lines=lines[:at] + lines[at + 1 :])
        try:
            if difference(tried, compiled):
                lines = tried.lines
        except Exception:  # noqa: BLE001  what is left makes no sense on the CPU
            pass
        at -= 1
    return replace(program, lines=lines)


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
    from webgpu_backend.runtime.gpu import gpu

    dtypes = (*DTYPES, torch.float64, torch.complex128) if gpu().caps.f64 else DTYPES
    start, found, lines, ran = time.time(), 0, 0, 0
    try:
        for seed in range(given.seed, given.seed + given.programs):
            program = replace(generate(Dice(seed), dtypes), backend=("inductor", "webgpu")[seed % 2])
            for compiled in (False, True)[: 1 + (given.compiled > 0 and seed % given.compiled == 0)]:
                if difference(program, compiled):
                    found += 1
                    short = smaller(program, compiled)
                    print(f"-- seed {seed}{' compiled' * compiled}{' graded' * short.graded}\n{short.text()}")
                    print(f"   {difference(short, compiled)}", flush=True)
            ran, lines = ran + 1, lines + len(program.lines)
            if time.time() - start > given.seconds:
                break
    finally:
        print(f"{ran} programs, {lines} lines, {found} differ, {time.time() - start:.0f} s")
        print({k: v for k, v in webgpu_backend.stats().items() if k in ("dispatches", "pipelines_live", "plans_live")},
              webgpu_backend.fallbacks())  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
