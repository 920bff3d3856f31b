"""`mode="max-autotune"`: the matrix products of a graph are timed with the tiles that they could have.

A graph's first call plans it by estimates and names its products; those that nobody has timed yet are timed then, with
operands of their sizes and strides, and the graph is planned again. What was found lies in Inductor's cache folder, in
a file for each adapter and state of our code, so that the next process measures nothing.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import torch
from torch._inductor import config
from torch._inductor.runtime.cache_dir_utils import cache_dir

from .... import tensor as T
from ....kernels.layout import span
from ....kernels.matmul.matmul import choices, plan
from ....kernels.matmul.measured import Choice, asking
from ....kernels.matmul.product import Matrix, Product, class_of
from ....kernels.matmul.tiles import Tile
from ....plan import caps, launch
from ....plan.run import planning_here
from ....program import Plan
from ....runtime.errors import BindingTooLarge
from ....runtime.gpu import gpu
from ...device import module, profiler
from .passes import fingerprint

SECONDS = 1.0  # for one product, with the compilation of its kernels; the first candidates are the likeliest
MOST = {"gpu": 12, "cpu": 3}  # candidates of a product
RUNS = 5
_PARTS = ("kernels/matmul", "kernels/text", "kernels/lib")

timed = 0  # products, in this process
_found: dict[str, dict[str, Choice]] = {}  # by file, of this process and those before


def asked() -> bool:
    """Whether Inductor is configured to measure matrix products."""
    return bool(config.max_autotune or config.max_autotune_gemm)


def planned(function: Callable, make: Callable[[Callable], Callable]) -> Callable:
    """The function of a graph as `make` plans it, with the measured kernels of its products. Products are measured
    after the first call alone: where sizes change, that is one of many, as it is for Inductor's own templates."""
    unknown: dict[str, Product] = {}

    def choose(product: Product) -> Choice | None:
        found = _known().get(_key(product))
        if found is None:
            unknown[_key(product)] = product
        return found

    def choosing(*args):
        if planning_here() is None:  # operator by operator, by the plans of eager calls
            return function(*args)
        with asking(choose):
            return function(*args)

    run, first = make(choosing), True

    def call(*args):
        nonlocal run, first
        found = run(*args)
        if first and planning_here() is None:  # a graph inside of what is captured is measured when it runs by itself
            first = False
            if unknown:
                _measure(unknown)
                run = make(choosing)
        return found

    return call


def _measure(products: dict[str, Product]) -> None:
    """Times products and keeps what was best, also for the next process."""
    global timed
    found = {}
    for key, product in products.items():
        best = _best(product)
        if best is not None:
            timed += 1
            found[key] = best
    _known().update(found)
    _save(found)


def _best(product: Product) -> Choice | None:
    """The fastest of a product's choices, or None where it has one at most."""
    candidates = choices(product, caps())[: MOST[caps().kind]]
    if len(candidates) < 2:
        return None
    try:
        operands = _operands(product)
        stop, times = time.perf_counter() + SECONDS, []
        for candidate in candidates:
            with asking(lambda _, candidate=candidate: candidate):
                work = plan(product, caps())
            times.append(_seconds(work, operands))
            if time.perf_counter() > stop:
                break
        return candidates[times.index(min(times))]
    except (torch.OutOfMemoryError, BindingTooLarge):  # its graph can do without, or has a way of its own
        return None


def _operands(q: Product) -> list[torch.Tensor | None]:
    """Tensors that lie as a product's operands do, with numbers that are neither large nor special."""

    def like(x: Matrix | None, rows: int, columns: int) -> torch.Tensor | None:
        if x is None:
            return None
        _, last = span((q.outer, q.inner, rows, columns), (x.outer, x.inner, x.row, x.col), x.offset)
        dtype = getattr(torch, x.dtype.name)
        if dtype.is_floating_point:
            return torch.linspace(-1, 1, last, dtype=dtype, device=T.here())
        return torch.zeros(last, dtype=dtype, device=T.here())

    with torch.no_grad():
        more = [] if q.d is None else [like(q.d, q.m, q.n)]
        return [like(q.a, q.m, q.k), like(q.b, q.n, q.k), like(q.c, q.m, q.n), *more, like(q.out, q.m, q.n)]


def _seconds(work: Plan, operands: list) -> float:
    """The shortest of a few runs: by the adapter's own clock where it has one, else by the host's."""
    launch(work, *operands)  # compiles
    module.synchronize()
    if profiler.is_available() and gpu().queue.recording is None:
        with profiler.profile() as kernels:
            for _ in range(RUNS):
                launch(work, *operands)
        events, steps = kernels.events, len(work.steps)
        runs = [events[i : i + steps] for i in range(0, len(events), steps)]
        return min([run[-1].end - run[0].start for run in runs]) * 1e-9
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        launch(work, *operands)
        module.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


# -- what is known


def _key(q: Product) -> str:
    """What a product's time follows from: not where its operands start, but how they are read and written."""
    apart = [x and (x.dtype.name, bool(x.outer), bool(x.inner)) for x in (q.a, q.b, q.c, q.d, q.out)]
    read = class_of(q.a, q.m, q.k) + class_of(q.b, q.n, q.k)
    sizes = (q.m, q.n, q.k, q.outer, q.inner)
    return repr((sizes, read, apart, q.out.col == 1, q.alpha != 1 or q.beta != 1, q.act))


def _file() -> Path:
    state = "\n".join([fingerprint(_PARTS), module.get_device_name(), repr(caps())])
    state = sha256(state.encode()).hexdigest()[:32]
    return Path(cache_dir(), T.NAME, f"tiles-{state}.json")


def _known() -> dict[str, Choice]:
    """The choices that were measured for this adapter."""
    path = _file()
    if str(path) not in _found:
        _found[str(path)] = {} if config.force_disable_caches else _read(path)
    return _found[str(path)]


def _read(path: Path) -> dict[str, Choice]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {key: Choice(way, Tile(**tile), parts) for key, (way, tile, parts) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # none yet, or damaged
        return {}


def _save(found: dict[str, Choice]) -> None:
    """Adds choices to the file, which other processes may have added to meanwhile."""
    if not found or config.force_disable_caches:
        return
    path = _file()
    rows = {key: (c.way, c.tile._asdict(), c.parts) for key, c in (_read(path) | found).items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            json.dump(rows, file)
        os.replace(file.name, path)
    except OSError:  # a folder that is full or read-only: measured again by the next process
        pass
