"""Fourier transforms along one dimension: mixed-radix Stockham passes, all in workgroup memory where a GPU has room;
Bluestein's chirps for large prime factors."""

import math
from functools import cache, lru_cache
from struct import Struct

from ...dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64
from ...program import Caps, Step
from ..layout import WORKGROUP
from ..text import by_index
from ..text.by_index import Kernel
from ..text.render import render_program

RADICES = (16, 8, 4, 2, 3, 5, 7, 11, 13)
FIELDS = ("length", "inner", "padded", "sign: f32", "scale: f32")
LOCAL_FIELDS = ("count", "inner", "a_o", "sign: f32", "scale: f32")
FRAME_FIELDS = ("pitch", "hop", "w_o")


@lru_cache(maxsize=1024)
def radices(length: int) -> tuple[int, ...] | None:
    """Radices of the passes, or None where a prime factor is too large for a pass."""
    found = []
    for r in RADICES:
        while length % r == 0:
            found.append(r)
            length //= r
    return tuple(found) if length == 1 else None


def padded_length(length: int) -> int:
    """A power of two that holds the convolution of Bluestein's method."""
    return 1 << (2 * length - 2).bit_length()


def plan_pass(
    radix: int, elements: int, length: int, inner: int, done: int, forward: bool, scale: float, offset: int,
    double: bool, caps: Caps,
) -> Step:  # fmt: skip
    """One pass over all elements, after passes whose radices multiply to `done`."""
    sign = 1.0 if forward else -1.0
    return _pass(radix, double, caps).step(caps, elements // radix, length, inner, done, sign, scale, offset)


@cache
def _pass(radix: int, double: bool, caps: Caps) -> Kernel:
    fields = ("n", "length", "inner", "done", "sign: f32", "scale: f32")
    element = COMPLEX128 if double else COMPLEX64
    face = by_index.interface((("a", element),), (("out", element),), "e", fields, caps, double=double)
    program = render_program(
        f"fft_radix{radix}_{element.short}", "fft/fft.wgsl", face.fields, face.bindings, caps, double=double,
        kind="pass", radix=radix, butterfly=_butterfly(radix), **face.accessors,
    )  # fmt: skip
    return Kernel(program, face.pack, WORKGROUP[caps.kind])


HELD = 16  # elements of a thread, or a few more
LOCAL = (17, 4096)  # lengths whose passes all happen in workgroup memory
WORTH = 1 << 17  # elements from which on a length that is no power of two is worth a shader of its own
THREADS = {False: 128, True: 256}  # of a workgroup; more where neighbours in memory are of different transforms


def plan_frames(
    kernel: Kernel, signals: int, frames: int, pitch: int, hop: int, offsets: tuple[int, int], scale: float, caps: Caps
) -> Step:
    """Transforms of frames of signals that start `pitch` elements apart, times a window: `offsets` of both."""
    return kernel.step(caps, signals * frames, frames, offsets[0], 1.0, scale, pitch, hop, offsets[1])


def plan_local(kernel: Kernel, count: int, inner: int, forward: bool, scale: float, offset: int, caps: Caps) -> Step:
    """`count` transforms by a kernel that `local` or `halves` gave."""
    return kernel.step(caps, count, inner, offset, 1.0 if forward else -1.0, scale)


_HALVED = {("real", "half"), ("frames", "half"), ("hermitian", "real")}


@lru_cache(maxsize=256)
def local(length: int, columns: bool, load: str, store: str, caps: Caps) -> Kernel | None:
    """Transforms in one dispatch, of which some share a workgroup. `columns`: neighbours in memory are of different
    transforms. `load` is complex, real, frames (of real signals, times a window) or hermitian (half of a spectrum),
    `store` complex, half, real or turned: the first half of a transform too long for this, transposed and turned for
    the other half. None where workgroup memory is not the place."""
    # The even and odd elements of a real signal are the real and imaginary parts of one half as long.
    signal, halved = length, length % 2 == 0 and (load, store) in _HALVED
    length = length // 2 if halved else length
    steps = radices(length)
    if caps.kind != "gpu" or steps is None or not LOCAL[0] <= signal or length > LOCAL[1]:
        return None
    most = max(steps)
    threads = -(-length // (most * max(HELD // most, 1)))
    rounds = {r: -(-(length // r) // threads) for r in steps}
    pitch = length + length // 16 + 1
    batch = max(1, THREADS[columns] // threads)
    while batch > 1 and batch * pitch * 4 > caps.workgroup_bytes:
        batch //= 2
    fits = batch * pitch * 4 <= caps.workgroup_bytes and threads * batch <= caps.workgroup_size
    if not fits or (columns and batch < 4):
        return None
    dones = [math.prod(steps[:k]) for k in range(len(steps))]
    framed = load == "frames"
    program = render_program(
        f"fft_local{signal}{'c' if columns else ''}_{load}_{store}", "fft/local.wgsl",
        LOCAL_FIELDS + (FRAME_FIELDS if framed else ()),
        [
            ("b_a", "read", "array<f32>" if load in ("real", "frames") else "array<vec2<f32>>"),
            *([("b_w", "read", "array<f32>")] if framed else []),
            ("b_out", "read_write", "array<f32>" if store == "real" else "array<vec2<f32>>"),
        ],
        caps, length=length, threads=threads, batch=batch, pitch=pitch, columns=columns, load=load, store=store,
        signal=signal, halved=halved, held=max(rounds[r] * r for r in steps), rounds=rounds, radices=steps, dones=dones,
        butterflies={r: _butterfly(r) for r in set(steps)},
    )  # fmt: skip
    return Kernel(program, Struct("<3I2f3I" if framed else "<3I2f"), batch)


@lru_cache(maxsize=256)
def halves(length: int, load: str, caps: Caps) -> tuple[int, Kernel, Kernel] | None:
    """A long transform as two of workgroup memory: the length of the first, and both; None where there are none."""
    for first in range(math.isqrt(length), LOCAL[0] - 1, -1):
        if length % first:
            continue
        one = local(first, True, load, "turned", caps)
        other = local(length // first, True, "complex", "complex", caps)
        if one is not None and other is not None:
            return first, one, other
    return None


@cache
def kernel(kind: str, double: bool, caps: Caps) -> Kernel:
    real, element = (FLOAT64, COMPLEX128) if double else (FLOAT32, COMPLEX64)
    reads = {"chirp": (), "chirp_mul": (("a", element), ("b", element))}.get(kind, (("a", element),))
    writes, names = (("out", real if kind == "real" else element),), (("kind", kind),)
    return by_index.kernel(f"fft_{kind}", "fft/fft.wgsl", reads, writes, FIELDS, caps, names=names, double=double)


def _butterfly(radix: int) -> list[str]:
    """Statements that define y0.. as the transform of v0..."""
    if radix & (radix - 1) == 0:
        lines: list[str] = []
        results = _halves([f"v{k}" for k in range(radix)], "t", lines)
        return lines + [f"let y{k} = {name};" for k, name in enumerate(results)]
    # An odd radix pairs element s with its mirror: sums carry the cosines, differences the sines.
    half = radix // 2
    lines = []
    for s in range(1, half + 1):
        lines += [f"let e{s} = v{s} + v{radix - s};", f"let o{s} = v{s} - v{radix - s};"]
    lines.append("let y0 = v0" + "".join(f" + e{s}" for s in range(1, half + 1)) + ";")
    for k in range(1, half + 1):
        angles = [2 * math.pi * ((k * s) % radix) / radix for s in range(1, half + 1)]
        even = "".join(f" + {math.cos(x)!r} * e{s}" for s, x in enumerate(angles, start=1))
        odd = " + ".join(f"{math.sin(x)!r} * o{s}" for s, x in enumerate(angles, start=1))
        lines += [f"let c{k} = v0{even};", f"let s{k} = {odd};", f"let r{k} = vec2<f32>(s{k}.y, -s{k}.x);"]
        lines += [f"let y{k} = c{k} + r{k};", f"let y{radix - k} = c{k} - r{k};"]
    return lines


def _halves(names: list[str], prefix: str, lines: list[str]) -> list[str]:
    """A power of two splits into even and odd elements; turns by an eighth need no full product."""
    count = len(names)
    if count == 1:
        return names
    even = _halves(names[0::2], prefix + "e", lines)
    odd = _halves(names[1::2], prefix + "o", lines)
    low, high = [], []
    for k in range(count // 2):
        x, turned = odd[k], f"{prefix}{k}w"
        if k == 0:
            text = x
        elif 4 * k == count:
            text = f"vec2<f32>({x}.y, -{x}.x)"
        elif 8 * k == count:
            text = f"{math.sqrt(0.5)!r} * vec2<f32>({x}.x + {x}.y, {x}.y - {x}.x)"
        elif 8 * k == 3 * count:
            text = f"{math.sqrt(0.5)!r} * vec2<f32>({x}.y - {x}.x, -{x}.x - {x}.y)"
        else:
            angle = 2 * math.pi * k / count
            text = f"times({x}, vec2<f32>({math.cos(angle)!r}, {-math.sin(angle)!r}))"
        lines.append(f"let {turned} = {text};")
        lines.append(f"let {prefix}{k}a = {even[k]} + {turned};")
        lines.append(f"let {prefix}{k}b = {even[k]} - {turned};")
        low.append(f"{prefix}{k}a")
        high.append(f"{prefix}{k}b")
    return low + high
