"""How a loop's elements are gathered, and what the threads of a row make of their parts."""

import torch

from ....dtypes import WGSL_TYPE
from ....kernels.text.expression import Emitter
from ....plan import caps
from .values import as_carrier, carrier_of, computed

_SMALLEST = {"f32": float("-inf"), "i32": -(1 << 31), "n64": -(1 << 63), "i64": -(1 << 63), "bool": False, "u32": 0,
             "f64": float("-inf"), "u64": 0, "nu64": 0}  # fmt: skip
_LARGEST = {"f32": float("inf"), "i32": (1 << 31) - 1, "n64": (1 << 63) - 1, "i64": (1 << 63) - 1, "bool": True,
            "u32": (1 << 32) - 1, "f64": float("inf"), "u64": (1 << 64) - 1, "nu64": (1 << 64) - 1}  # fmt: skip
# By the reduction: how two parts join, and what a part begins with.
_PLAIN = {
    "sum": ("a + b", lambda c: 0),
    "prod": ("a * b", lambda c: 1),
    "max": ("max(a, b)", _SMALLEST.__getitem__),
    "min": ("min(a, b)", _LARGEST.__getitem__),
    "any": ("a or b", lambda c: False),
    "xor_sum": ("a ^ b", lambda c: 0),
}
_NONE = (1 << 31) - 1  # no index yet
_MOST = "0x1.fffffep+127f"  # the largest float32


def emit(kernel, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value):
    """The variable, or the variables, of a reduction's result."""
    if kind in _PLAIN:
        return _plain(kernel, dtype, kind, value)
    if kind in ("argmax", "argmin"):
        return _extreme(kernel, dtype, kind, value)
    if kind in ("welford_reduce", "welford_combine"):
        return _welford(kernel, value if isinstance(value, tuple) else (value,))
    raise NotImplementedError(f"webgpu: a reduction by {kind} inside a kernel")


def _joining(kernel, name: str, fields: list[tuple[str, str]], body: list[str]) -> str:
    """The name of the function that joins the parts of a row's threads; how two of them join is given."""
    kernel.joins[name] = (name, tuple((f, WGSL_TYPE[c]) for f, c in fields))
    kernel.helpers[f"join_{name}"] = (
        f"fn join_{name}(s: S_{name}, o: S_{name}) -> S_{name} {{\n    " + "\n    ".join(body) + "\n}"
    )
    return f"total_{name}"


def _plain(kernel, dtype: torch.dtype, kind: str, value):
    source, start = _PLAIN[kind]
    result = computed(dtype)
    own = "bool" if kind == "any" else carrier_of(result)
    (acc,) = kernel.accumulator([("v", own)], [start(own)])
    emitter = Emitter({"a": own, "b": own}, {"a": acc, "b": as_carrier(value, own)}, caps().i64)
    kernel.gathers.writeline(f"{acc} = {emitter.expression(source, own)};")
    joined = Emitter({"a": own, "b": own}, {"a": "s.v", "b": "o.v"}, caps().i64).expression(source, own)
    name = f"{kind}_{own}"
    total = _joining(kernel, name, [("v", own)], [f"return S_{name}({joined});"])
    found = kernel.kept(f"{total}(S_{name}({acc}), lid, lane).v", torch.bool if kind == "any" else result)
    return found


def _extreme(kernel, dtype: torch.dtype, kind: str, value):
    """The first place of the largest or smallest; NaN is both."""
    own, order = carrier_of(value.dtype), ">" if kind == "argmax" else "<"
    name = f"{kind}_{own}"
    nan = "isnan(a) and not isnan(b)" if own in ("f32", "f64") else "False"
    both = "isnan(a) and isnan(b)" if own in ("f32", "f64") else "False"
    test = f"(a {order} b) or ({nan}) or ((a == b or ({both})) and i < j)"
    if own in ("f32", "f64"):
        test = f"(a {order} b and not isnan(b)) or ({nan}) or ((a == b or ({both})) and i < j)"
    else:
        test = f"a {order} b or (a == b and i < j)"
    types = {"a": own, "b": own, "i": "i32", "j": "i32"}
    value_, place = kernel.accumulator(
        [("v", own), ("i", "i32")], [(_SMALLEST if kind == "argmax" else _LARGEST)[own], _NONE]
    )
    texts = {"a": str(value), "b": value_, "i": "r0_index", "j": place}
    better = Emitter(types, texts, caps().i64).expression(test, "bool")
    kernel.gathers.writeline(f"if ({better}) {{ {value_} = {value}; {place} = r0_index; }}")
    texts = {"a": "o.v", "b": "s.v", "i": "o.i", "j": "s.i"}
    joined = Emitter(types, texts, caps().i64).expression(test, "bool")
    body = [f"if ({joined}) {{ return o; }}", "return s;"]
    total = _joining(kernel, name, [("v", own), ("i", "i32")], body)
    found = kernel.kept(f"{total}(S_{name}({value_}, {place}), lid, lane).i", torch.int32)
    return kernel.kept(as_carrier(found, carrier_of(dtype)), dtype)


def _welford(kernel, value: tuple):
    """Mean, sum of squares around it, and count."""
    fields = [("mean", "f32"), ("m2", "f32"), ("n", "f32")]
    body = [
        "let n = s.n + o.n;",
        "let d = o.mean - s.mean;",
        "let part = select(0.0, o.n / n, n != 0.0);",
        "return S_welford(s.mean + d * part, s.m2 + o.m2 + d * (d * (s.n * part)), n);",
    ]
    total = _joining(kernel, "welford", fields, body)
    names = _shifted(kernel, value[0]) if len(value) == 1 else _combined(kernel, fields, value)
    joined = kernel.cse.newvar(dtype=torch.float32)
    kernel.post_loop.writeline(f"let {joined} = {total}(S_welford({', '.join(names)}), lid, lane);")
    return tuple(kernel.kept(f"{joined}.{field}", torch.float32) for field, _ in fields)


def _shifted(kernel, value) -> list[str]:
    """Single elements: a thread adds up what they are above its first one, which takes no division."""
    fields = [("first", "f32"), ("sum", "f32"), ("squares", "f32"), ("n", "f32")]
    first, total, squares, n = kernel.accumulator(fields, [0, 0, 0, 0])
    text = as_carrier(value, "f32")
    kernel.gathers.writelines(
        [
            f"if ({n} == 0.0) {{ {first} = {text}; }}",
            f"{total} += {text} - {first};",
            f"{squares} += ({text} - {first}) * ({text} - {first});",
            f"{n} += 1.0;",
        ]
    )
    mean = f"{total} / max({n}, 1.0)"
    # Of numbers whose square is no number any more: an infinity, as by eager kernels, less one would be NaN.
    spread = f"select({squares} - {total} * ({mean}), {squares}, {squares} > {_MOST} && abs({total}) <= {_MOST})"
    return [f"{first} + {mean}", spread, n]


def _combined(kernel, fields: list, value: tuple) -> list[str]:
    """Parts that have been counted already."""
    names = kernel.accumulator(fields, [0, 0, 0])
    other = [as_carrier(v, "f32") for v in value]
    kernel.gathers.writeline("{")
    with kernel.gathers.indent():
        parts = f"S_welford({', '.join(names)}), S_welford({', '.join(other)})"
        kernel.gathers.writeline(f"let joined = join_welford({parts});")
        for name, (field, _) in zip(names, fields):
            kernel.gathers.writeline(f"{name} = joined.{field};")
    kernel.gathers.writeline("}")
    return names
