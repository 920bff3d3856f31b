"""Every known gap of the operator database, with its reason.

FALLBACK: right, but a part runs on the CPU. WRONG: the device's answer differs from the CPU's. ROUNDED: it differs from
the CPU's 16-bit answer and is as the CPU's float32 answer. Keys are OpInfo names; values are the reason and then every
dtype in which it is so. tests/device/test_ops.py runs each of them and fails where one has closed; docs/ops.md has
numbers for each.
"""

import torch

FALLBACK: dict[str, tuple] = {}
WRONG: dict[str, tuple] = {
    "nn.functional.normalize": (
        "a gradient of zero is a difference; the CPU's x ** -0.5 of few elements rounds sqrt(x) first",
        torch.bfloat16,
    ),
    "renorm": ("the CPU's gradient for p=inf is NaN: it compares float32 with float64 norms", torch.complex64),
}
BY_AVX512 = ("nn.functional.normalize",)  # the CPU rounds so where it has AVX-512, and not with AVX2
ROUNDED: dict[str, tuple] = {
    "_unsafe_masked_index_put_accumulate": (
        "the CPU rounds after every addition; here they are added in float32",
        torch.float16, torch.bfloat16,
    ),
    "matrix_exp": ("the CPU's 16-bit answer is NaN; here the steps are float32", torch.float16, torch.bfloat16),
    "nn.functional.conv_transpose2d": ("the CPU rounds its columns before it adds them up", torch.bfloat16),
    "nn.functional.conv_transpose3d": (
        "the CPU rounds its columns before it adds them up",
        torch.float16, torch.bfloat16,
    ),
}  # fmt: skip
OLDER: dict[str, tuple] = {}  # of an older torch than the one that docs/ops.md was made with
if torch.__version__ < "2.13":
    OLDER["histc"] = ("the CPU's places of bins are rounded to float16", torch.float16)
ROUNDED |= OLDER

TABLES = {"wrong": WRONG, "fallback": FALLBACK, "rounded": ROUNDED}


def entries() -> list[tuple[str, str, torch.dtype]]:
    """Every gap in every dtype that it names: its kind, the operator, the dtype."""
    return [(kind, name, d) for kind, table in TABLES.items() for name, (_, *dtypes) in table.items() for d in dtypes]


def find(name: str, dtype: torch.dtype) -> str | None:
    """The kind of gap that an operator has in a dtype."""
    return next((kind for kind, gap, d in entries() if (gap, d) == (name, dtype)), None)
