"""The operator database's inputs that must be refused: how often the device raises what the CPU raises.

    python -m benchmarks.errors [--only index]

Prints every input for which it does not, then the shares with the CPU's type of error and with the database's message.
"""

import argparse
import re
import warnings
from dataclasses import dataclass

import torch

import webgpu_backend  # noqa: F401  registers the device

from .opcheck import database, name_of


@dataclass(frozen=True)
class Refusal:
    """What became of one input on either device: the types of what was raised, None for nothing."""

    name: str
    index: int
    wanted: type | None
    got: type | None
    worded: bool  # the database's pattern is in the message
    message: str
    cpu_message: str

    @property
    def as_cpu(self) -> bool:
        return self.got is self.wanted or (self.got is NotImplementedError and self.wanted is RuntimeError)


def _outcome(op, sample) -> tuple[type | None, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op(sample.input, *sample.args, **sample.kwargs)
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, torch.Tensor) and x.device.type != "meta":
                x.cpu()  # an index out of range is known when the host waits
        return None, ""
    except Exception as error:
        return type(error), str(error)


def refusals(op, device="webgpu") -> list[Refusal]:
    """Of the inputs that the CPU refuses. They are made on either device, not moved: some share memory. Where the
    database has others for a device than for the CPU (tensors of both, what is not checked on GPUs), these are tried
    with what the database itself expects."""
    made = []
    for where in ("cpu", device):
        torch.manual_seed(0)
        made.append(list(op.error_inputs(where)))
    same = len(made[0]) == len(made[1])
    found = []
    for index, ours in enumerate(made[1]):
        wanted, cpu_message = ours.error_type, ours.error_regex
        if same:
            wanted, cpu_message = _outcome(op, made[0][index].sample_input)
        if wanted is not None:
            got, message = _outcome(op, ours.sample_input)
            worded = got is not None and re.search(ours.error_regex, message) is not None
            found.append(Refusal(name_of(op), index, wanted, got, worded, message, cpu_message))
    return found


def entries() -> list:
    return [op for op in database() if op.error_inputs_func is not None]


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(whole, 1):.1f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated parts of operator names")
    only = [part for part in parser.parse_args().only.split(",") if part]
    found = []
    for op in entries():
        if not only or any(part in name_of(op) for part in only):
            found += refusals(op)
    for r in found:
        if not r.as_cpu or not r.worded:
            names = [None if t is None else t.__name__ for t in (r.got, r.wanted)]
            print(
                f"{r.name}[{r.index}]: {names[0]}, the CPU {names[1]}\n    {r.message[:300]}\n    {r.cpu_message[:300]}"
            )
    print("the CPU's type of error:", share(sum(r.as_cpu for r in found), len(found)))
    print("the database's message: ", share(sum(r.worded for r in found), len(found)))


if __name__ == "__main__":
    main()
