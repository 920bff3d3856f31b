"""Functions of f32 and complex64 where a compiler reorders sums and takes it that nothing is NaN or infinite, as
Metal's does unless it is told otherwise, which neither wgpu nor browsers do. There is no such compiler here: they are
read as C++."""

import ctypes
import platform
import re
import subprocess

import numpy as np
import pytest
import torch

from tests import needs
from tests.device import _wgsl
from tests.device import test_math as m
from tests.device import test_math_complex as c

PRELUDE = """
#include <cmath>
#include <cstdint>
#include <cstring>
namespace {
typedef float f32; typedef int32_t i32; typedef uint32_t u32;
template <class T> struct vec2 {
  T x, y;
  vec2() {}
  vec2(T a, T b) : x(a), y(b) {}
  explicit vec2(T a) : x(a), y(a) {}
  vec2 yx() const { return {y, x}; }
  vec2 operator-() const { return {-x, -y}; }
};
template <class T> struct vec3 { T x, y, z; vec3(T a, T b, T c) : x(a), y(b), z(c) {} };
template <class T> vec2<T> operator+(vec2<T> a, vec2<T> b) { return {a.x + b.x, a.y + b.y}; }
template <class T> vec2<T> operator-(vec2<T> a, vec2<T> b) { return {a.x - b.x, a.y - b.y}; }
template <class T> vec2<T> operator*(vec2<T> a, vec2<T> b) { return {a.x * b.x, a.y * b.y}; }
template <class T> vec2<T> operator*(T a, vec2<T> b) { return {a * b.x, a * b.y}; }
template <class T> vec2<T> operator*(vec2<T> a, T b) { return {a.x * b, a.y * b}; }
template <class T> vec2<T> operator/(vec2<T> a, T b) { return {a.x / b, a.y / b}; }
template <class T> void operator*=(vec2<T> &a, T b) { a.x *= b; a.y *= b; }
template <class T> vec2<T> select(vec2<T> a, vec2<T> b, vec2<bool> c) { return {c.x ? b.x : a.x, c.y ? b.y : a.y}; }
template <class A, class B> static inline A bitcast(B x) { A a; memcpy(&a, &x, 4); return a; }
template <class T> static inline T select(T a, T b, bool c) { return c ? b : a; }
static inline f32 select(f32 a, f32 b, bool c) { return c ? b : a; }
template <class T> static inline T clamp(T x, T a, T b) { return x < a ? a : x > b ? b : x; }
static inline f32 clamp(f32 x, f32 a, f32 b) { return fminf(fmaxf(x, a), b); }
template <class T> static inline T min(T a, T b) { return a < b ? a : b; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
__attribute__((noinline)) f32 square_root(f32 x) { return sqrtf(x); }  // in one piece: 1 / sqrt(x) is else an estimate
static inline f32 round(f32 x) { return rintf(x); }
static inline u32 countLeadingZeros(u32 x) { return x ? __builtin_clz(x) : 32; }
static inline u32 countOneBits(u32 x) { return __builtin_popcount(x); }
static inline u32 firstLeadingBit(u32 x) { return x ? 31 - __builtin_clz(x) : ~0u; }
#define trunc truncf
#define floor floorf
#define ceil ceilf
#define sqrt square_root
#define exp2 exp2f
#define fma __builtin_fmaf
#define abs fabsf
"""
FLAGS = ["-std=c++17", "-O2", "-w", "-fPIC", "-ffast-math"]
# On x86: no estimates, whose refinement makes NaN of x / inf; and clang takes an fma apart that is no instruction.
ON_X86 = {"gcc": ["-mno-recip"], "clang": ["-mrecip=none", "-mfma"]}


def as_cpp() -> str:
    """All functions in C++'s words for types and constants, declared before they are written down."""
    constants, declared, written = [], [], []
    complex64 = [text for name, text in _wgsl.library().items() if name[:4] in ("c64_", "C64_")]
    for text in (*[item[0] for item in m.library().values()], *complex64):
        text = re.sub(r"const (\w+) = array<(\w+), (\d+)>\(([^)]*)\);", r"const \2 \1[\3] = {\4};", text)
        text = re.sub(r"const (\w+): (\w+) =", r"const \2 \1 =", text)
        text = re.sub(r"(?<![\w.])(\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)f?(?![\w.])", r"\1f", text)
        text = re.sub(r"\bvar bits =", "volatile u32 bits =", text)  # else the largest number is put for infinity
        text = re.sub(r"\b(?:let|var) (\w+) =", r"auto \1 =", text).replace(".yx", ".yx()")
        if head := re.match(r"fn (\w+)\((.*?)\) -> (\S+) \{", text):
            parameters = re.sub(r"(\w+): ([\w<>]+)", r"\2 \1", head[2])
            declared.append(f"{head[3]} {head[1]}({parameters})")
            written.append(declared[-1] + " {" + text[head.end() :])
        else:
            constants.append(text)
    return "\n".join([*constants, *[head + ";" for head in declared], *written])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compiler = needs.compiler()
    flags = list(FLAGS)
    if platform.machine() == "x86_64":
        told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
        flags += ON_X86["clang" if "clang" in told else "gcc"]
    folder = tmp_path_factory.mktemp("fast")
    names = sorted({"f32_" + case.name for case in m.ACCURACY} | {"f32_" + name for name, *_ in m.SPECIAL_CASES})
    text = [PRELUDE, as_cpp(), "}"]
    for name in names:
        kinds = [a.split(":")[1].strip() for a in m.library()[name][2].split(",")]
        given = ", ".join(f"const {t} *x{k}" for k, t in enumerate(kinds))
        call = ", ".join(f"x{k}[i]" for k in range(len(kinds)))
        text.append(f'extern "C" void each_{name}(int n, f32 *out, {given}) {{\n'
                    f"  for (int i = 0; i < n; i++) out[i] = (f32){name}({call});\n}}")  # fmt: skip
    for name in (*c.UNARY, *c.BINARY):
        given, call = zip(*[(f"const vec2<f32> *{x}", f"{x}[i]") for x in ("x", "y")[: 1 + (name in c.BINARY)]])
        text.append(f'extern "C" void each_c64_{name}(int n, vec2<f32> *out, {", ".join(given)}) {{\n'
                    f"  for (int i = 0; i < n; i++) out[i] = c64_{name}({', '.join(call)});\n}}")  # fmt: skip
    (folder / "all.cpp").write_text("\n".join(text))
    # Linked without: the flags would have this process flush denormals from now on.
    subprocess.run([compiler, *flags, "-c", "all.cpp", "-o", "all.o"], cwd=folder, check=True)
    subprocess.run([compiler, "-shared", "all.o", "-o", "all.so"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "all.so"))

    def evaluate(name: str, *inputs: np.ndarray) -> np.ndarray:
        kinds = {"i": np.int32, "c": np.complex64}
        arrays = [np.ascontiguousarray(x, kinds.get(x.dtype.kind, np.float32)) for x in inputs]
        out = np.empty(len(inputs[0]), np.complex64 if name.startswith("c64_") else np.float32)
        getattr(library, "each_" + name)(len(out), *(ctypes.c_void_p(x.ctypes.data) for x in (out, *arrays)))
        return out

    return evaluate


@pytest.mark.parametrize("case", m.ACCURACY, ids=str)
def test_accuracy(case, compiled):
    """Sums in another order may cost a unit or two, not the digits that were kept apart for them."""
    m.check_accuracy(case, compiled, list, lambda got, want: np.zeros(len(got), bool), 1.5 * case.ulp + 1)


@pytest.mark.parametrize("name, ulp, kind", m.SPECIAL_CASES, ids=[c[0] for c in m.SPECIAL_CASES])
def test_special_values(name, ulp, kind, compiled):
    """But for the sign of zero, which such a compiler does not keep, and for sums of two numbers that nearly cancel."""

    def wrong(far, got, want):
        with np.errstate(invalid="ignore"):
            return far & ~((np.abs(got - want) < 6e-8) & (np.abs(want) > 1e-3))

    m.check_special_values(name, 1.5 * ulp, kind, compiled, list, wrong)


@pytest.mark.parametrize("name", c.UNARY)
@pytest.mark.parametrize("where", c.SAMPLES)
def test_complex_accuracy(name, where, compiled):
    c.check_accuracy(name, where, lambda z: compiled(f"c64_{name}", z), 4)


@pytest.mark.parametrize("name", [*c.UNARY, *c.BINARY])
def test_complex_special_values(name, compiled):
    """NaN and infinities are where the CPU has them."""
    given = c.special_pairs(name) if name in c.BINARY else [c.special(name)]
    got = c.parts(compiled(f"c64_{name}", *given))
    want = c.parts((c.UNARY | c.BINARY)[name](*map(torch.from_numpy, given)).numpy())
    c.check_special(tuple(given), got, want, signed=False)
