"""Branches, loops and regions of a compiled graph, which are functions of their own in it."""

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

from tests.device._adapter import kernels_of
from webgpu_backend.frontend.graphs.inductor import compiling

D = "webgpu"
pytestmark = [
    pytest.mark.usefixtures("compiled_by_inductor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(f, *args, kernels: int):
    """Twice; `kernels` of the second time."""
    compiled, given = torch.compile(f), [a.to(D) for a in args]
    expected = torch.utils._pytree.tree_leaves(f(*args))
    for _ in range(2):
        found = torch.utils._pytree.tree_leaves(compiled(*given))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b)
    names = kernels_of(lambda: compiled(*given))
    assert len(names) == kernels, names


@pytest.mark.parametrize("shape", [(5, 9), (3, 1), (1030,)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch(shape, sign):
    def f(x, y):
        z = torch.cond(x.sum() > 0, lambda x, y: (x.sin() * 2 + y).relu(), lambda x, y: x.cos() - y, (x, y))
        return z * 3 + x

    check(f, torch.rand(shape) * sign, torch.rand(shape), kernels=3)  # the predicate, the branch, what follows


def test_products_in_a_branch():
    def f(x, w):
        return torch.cond(x[0, 0] > 0, lambda x, w: (x @ w).relu() + 1, lambda x, w: w @ x, (x, w)).exp()

    x = torch.randn(7, 7)
    for sign in (1, -1):
        check(f, x / x[0, 0] * sign, torch.randn(7, 7), kernels=3)


def test_a_loop():
    def f(i, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x * 2).sin() + 1), (i, x))

    for first in (0, 4, 7):
        steps = max(5 - first, 0)
        check(f, torch.tensor(first), torch.rand(3, 11), kernels=3 * steps + 1 if steps else 3)


def test_a_region_that_is_compiled_once():
    @torch.compiler.nested_compile_region
    def layer(x, w):
        return (x @ w).relu() + x

    def f(x, w, v):
        return layer(layer(x, w), v) * 2

    check(f, torch.rand(6, 8), torch.rand(8, 8), torch.rand(8, 8), kernels=3)


def test_a_branch_that_reads_the_host():
    """It is replayed, and that is said."""
    number = torch.tensor(3.0)

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x * number, lambda x: x + number, (x,))

    x = torch.rand(4)
    with pytest.warns(UserWarning, match="replays a graph as it is written, because Inductor refuses it"):
        assert torch.equal(torch.compile(f)(x.to(D)).cpu(), x * 3)
    compiling._told.clear()
