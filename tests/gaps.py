"""Every known gap of the operator database, with its reason.

FALLBACK: right, but a part runs on the CPU. WRONG: the device's answer differs from the CPU's. Keys are OpInfo names;
values are (reason, dtypes), no dtypes meaning all.
"""

import torch

FALLBACK: dict[str, tuple] = {}
WRONG: dict[str, tuple] = {}


def find(name: str, dtype: torch.dtype) -> str | None:
    for kind, table in (("wrong", WRONG), ("fallback", FALLBACK)):
        if name in table:
            _, *dtypes = table[name]
            if not dtypes or dtype in dtypes:
                return kind
    return None
