"""PyTorch's own device-generic tests on this device: one of its test files, or a fixed sample of it, in this process.

    python -m tests.torch_suite FOLDER FILE [--every 20] [--residue 0] [--seconds 60] [--json OUT]
    python -m tests.torch_suite FOLDER FILE --ledger [--residue 0-7]
    python -m tests.torch_suite FOLDER FILE --ledger --slow --most 900

FOLDER is `test/` of a checkout of PyTorch at the tag of the installed torch; nothing of it is kept here. `--every k`
takes the tests whose names' checksums are divisible by k, the same ones everywhere; `--residue r` those that leave r,
none of which is in a sample of another remainder. They run in the order of their checksums, so that those within
`--seconds` are of all kinds. `--ledger` takes sixteenths, one after the other, by default those that have not run, and
writes each down in `torch_ledger` when it has run to its end; with `--slow` it takes the tests that took too long.

What fails is printed as it does. A test that fails runs again with every kernel waited for (as by WEBGPU_BLOCKING): if
that is all it lacked, because it expects an error at the call, it has passed. What does not pass has its reason in
`torch_gaps`.
"""

import argparse
import collections
import importlib.util
import json
import os
import re
import signal
import sys
import time
import unittest
import zlib
from pathlib import Path

from tests import torch_gaps, torch_ledger

os.environ.setdefault("WEBGPU_FALLBACK", "silent")
os.environ.setdefault("LP_NUM_THREADS", "0")  # kernels are so small here that a software adapter's threads only wait
os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "webgpu"
MOST_SECONDS = 60  # for one test
LATE = "not raised|does not match|when its results are waited for"  # how a test fails whose error comes late


class TooSlow(BaseException):
    pass


def _alarm(*_):
    raise TooSlow


def load(folder: Path, file: str):
    """The module of a test file, whose classes torch makes for each device while it is imported."""
    import torch  # noqa: F401  loads the backend
    from torch.testing._internal import common_device_type

    make = common_device_type.instantiate_device_type_tests

    def for_this_too(tests, scope, *args, only_for=None, **rest):
        """What is for CPU and CUDA alike is generic; some files name the devices that torch itself tests."""
        if only_for and {"cpu", "cuda"} <= set(only_for):
            only_for = (*only_for, "webgpu")
        return make(tests, scope, *args, only_for=only_for, **rest)

    common_device_type.instantiate_device_type_tests = for_this_too

    path = folder / file
    sys.path[:0] = [str(folder), str(path.parent)]
    sys.argv = [str(path)]
    os.chdir(folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def name_of(test: unittest.TestCase) -> str:
    """As it is for every device: Class.test_something_DEV_dtype."""
    cls = re.sub("(PRIVATEUSE1|WEBGPU)$", "", type(test).__name__)
    return f"{cls}.{re.sub('_(privateuse1|webgpu)(?=_|$)', '_DEV', test._testMethodName)}"


def chosen(module, every: int, residue: int) -> list[unittest.TestCase]:
    found = []
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and hasattr(cls, "device_type"):
            if cls.__name__.upper().endswith(("PRIVATEUSE1", "WEBGPU")):
                found += [cls(name) for name in unittest.defaultTestLoader.getTestCaseNames(cls)]
    sums = {t: zlib.crc32(name_of(t).encode()) for t in found}
    return sorted([t for t in found if sums[t] % every == residue], key=sums.get)


def excused(name: str) -> str | None:
    """A reason not to pass that torch gives itself: its database of operators makes an exception for the CPU."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db, python_ref_db
    from torch.testing._internal.opinfo.core import DecorateInfo

    cls, _, rest = name.partition(".")
    before, _, dtype = rest.partition("_DEV_")
    dtype = getattr(torch, dtype.rpartition("_")[2] or "float32", None)
    for op in (*op_db, *python_ref_db):
        if before.endswith(f"_{op.formatted_name}"):
            test = before.removesuffix(f"_{op.formatted_name}")
            for rule in op.decorators:
                if isinstance(rule, DecorateInfo) and rule.device_type == "cpu":
                    if rule.is_active(cls, test, "cpu", dtype, {}):
                        return "by design: torch makes an exception for its CPU, whose numbers these are"
    return None


class Outcome(unittest.TestResult):
    def __init__(self, most: int = MOST_SECONDS):
        super().__init__()
        self.most = most
        self.told: dict[str, list] = {}

    def startTest(self, test):
        super().startTest(test)
        self.told[name_of(test)] = ["passed", ""]
        signal.alarm(self.most)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def _note(self, test, outcome: str, why: str) -> None:
        if hasattr(test, "_testMethodName"):  # not what sets up a class
            self.told[name_of(test)] = [outcome, why]

    def addFailure(self, test, err):
        self._note(test, "failed", f"{err[0].__name__}: {err[1]}"[:500])

    def addError(self, test, err):
        self._note(test, "slow" if err[0] is TooSlow else "failed", f"{err[0].__name__}: {err[1]}"[:500])

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self._note(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self._note(test, "passed", "expected to fail")

    def addUnexpectedSuccess(self, test):
        self._note(test, "passed", "though torch expects a failure")


def wait_for_kernels(each: bool) -> None:
    from webgpu_backend import env
    from webgpu_backend.plan import run

    env.BLOCKING = each
    run.connect()


def close_what_is_open() -> None:
    """An alarm may come at the beginning of what would have closed a transform or a level of tangents, for all tests
    that follow."""
    import torch
    from torch.autograd import forward_ad

    while forward_ad._current_level >= 0:
        forward_ad.exit_dual_level()
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)
    torch.set_grad_enabled(True)


def run(test: unittest.TestCase, result: Outcome) -> tuple[str, str]:
    """Runs a test; returns its outcome and why."""
    import torch

    name = name_of(test)
    test.run(result)
    try:
        torch.webgpu.synchronize()
    except Exception as late:  # of this test, though nothing in it waited
        result.told[name] = ["failed", f"{type(late).__name__}: {late}"]
    outcome, why = result.told[name]
    if outcome == "slow":
        close_what_is_open()
    if outcome == "failed":
        wait_for_kernels(True)
        try:
            test.run(result)
        finally:
            wait_for_kernels(False)
        if result.told[name][0] == "passed" and not re.search(LATE, why):
            result.told[name] = ["failed", f"only where kernels are not waited for: {why}"]
    return tuple(result.told[name])


def _short(message: str) -> str:
    """Without torch's hint how to run its test."""
    return message.partition("\n\nTo execute this test")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("file")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--residue", type=torch_ledger.parts, help="remainders of the checksums, as 0 or 0,3-5")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--most", type=int, default=MOST_SECONDS, help="seconds for one test")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ledger", type=Path, nargs="?", const=torch_ledger.FILE)
    parser.add_argument("--slow", action="store_true", help="of the ledger, those that took too long")
    given = parser.parse_args()
    target, ledger = given.json and given.json.absolute(), given.ledger and given.ledger.absolute()
    import torch

    version = torch.__version__.partition("+")[0]
    if ledger:
        given.every = torch_ledger.PARTS
        given.residue = given.residue or torch_ledger.left(ledger, version, given.file)

    signal.signal(signal.SIGALRM, _alarm)
    module, start = load(given.folder.absolute(), given.file), time.time()
    if ledger and given.slow:
        names = set(torch_ledger.read(ledger).get(torch_ledger.SLOW + given.file, []))
        for test in [t for t in chosen(module, 1, 0) if name_of(t) in names]:
            begun = time.time()
            (kind,) = run_all([test], Outcome(given.most), start + given.seconds)["kinds"] or ["slow"]
            print(f"{kind} {name_of(test)}: {time.time() - begun:.0f} s", flush=True)
            torch_ledger.record_again(ledger, given.file, {name_of(test): kind})
        return
    for residue in given.residue or [0]:
        tests = chosen(module, given.every, residue)
        told = run_all(tests, Outcome(given.most), start + given.seconds)
        ran = sum(told["kinds"].values())
        part = f"{residue} of {given.every}, {ran} of {len(tests)}"
        print(f"{given.file}: {part}: {dict(told['kinds'])}, {time.time() - start:.0f} s", flush=True)
        if ledger and ran == len(tests):
            torch_ledger.record(ledger, version, given.file, residue, told["kinds"], told["slow"])
        if target:
            target.write_text(json.dumps(told))


def run_all(tests: list[unittest.TestCase], result: Outcome, until: float) -> dict:
    """Runs tests one after the other until it is time; returns how many ended how, and what failed why."""
    unknown, known, slow, kinds = {}, {}, [], collections.Counter()
    for test in tests:
        if time.time() > until:
            break
        name, (outcome, why) = name_of(test), run(test, result)
        if outcome in ("failed", "slow"):
            reason = torch_gaps.reason(name, why) or excused(name)
            print(f"{outcome} {name}: {reason or _short(why)}", flush=True)
            if reason is None:
                unknown[name] = why
            else:
                known[name] = (reason, why)
            outcome = reason.partition(":")[0] if reason else "slow" if outcome == "slow" else "unknown"
            if outcome == "slow":
                slow.append(name)
        kinds[outcome] += 1
    return {"kinds": kinds, "unknown": unknown, "known": known, "slow": slow, "of": len(tests)}


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads that a test left would hold the process
