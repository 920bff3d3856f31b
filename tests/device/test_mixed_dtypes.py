"""Operands of several dtypes: refused where the CPU refuses them, and its dtype where it does not."""

import pytest
import torch
import torch.nn.functional as F

from tests import needs
from tests.device._compare import D, close, of_a_kind

OTHERS = [torch.float64, torch.float16, torch.int64, torch.int32, torch.bool, torch.complex64]


def same_answer(call):
    """The result of the CPU, or its type of error and its words."""
    found = []
    for device in ("cpu", D):
        try:
            found.append(call(device))
        except (RuntimeError, NotImplementedError) as error:
            found.append((type(error), str(error)))
    theirs, ours = found
    if isinstance(theirs, tuple) or isinstance(ours, tuple):
        assert of_a_kind(ours[0], theirs[0]) and ours[1] == theirs[1]
    elif isinstance(theirs, bool):
        assert ours is theirs
    else:
        close(ours, theirs, 1e-3)


def positive(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1


# Each a function of a tensor [3, 3] of the dtype and one of float32.
CALLS = {
    "linear_bias": lambda x, f: F.linear(f, f, x[0]),
    "linear_bias_3d": lambda x, f: F.linear(f[None], f, x[0]),
    "linear_bias_4d": lambda x, f: F.linear(f[None, None], f, x[0]),
    "linear_weight": lambda x, f: F.linear(f, x, f[0]),
    "mm": lambda x, f: x @ f,
    "addmm": lambda x, f: torch.addmm(x, f, f),
    "addmm_last": lambda x, f: torch.addmm(f, f, x),
    "bmm": lambda x, f: torch.bmm(f[None], x[None]),
    "baddbmm": lambda x, f: torch.baddbmm(x[None], f[None], f[None]),
    "mv": lambda x, f: torch.mv(x, f[0]),
    "dot": lambda x, f: torch.dot(x[0], f[0]),
    "cross": lambda x, f: torch.linalg.cross(x, f),
    "cross_alike": lambda x, f: torch.linalg.cross(x, x),
    "equal": lambda x, f: torch.equal(x, f),
    "equal_ones": lambda x, f: torch.equal(torch.ones_like(x), torch.ones_like(f)),
    "cdist": lambda x, f: torch.cdist(x, f[:0]),
    "bce_target": lambda x, f: F.binary_cross_entropy(f, x),
    "bce_input": lambda x, f: F.binary_cross_entropy(x, f),
    "bce_alike": lambda x, f: F.binary_cross_entropy(x, x),
    "bce_weight": lambda x, f: F.binary_cross_entropy(f, f, x),
    "bce_weights": lambda x, f: F.binary_cross_entropy(f, f, x, reduction="none"),
    "bce_wide_weight": lambda x, f: torch.ops.aten.binary_cross_entropy(f, f, x[None]),
    "mse": lambda x, f: F.mse_loss(x, f),
    "mse_target": lambda x, f: F.mse_loss(f, x, reduction="none"),
    "mse_alike": lambda x, f: F.mse_loss(x, x),
    "smooth_l1": lambda x, f: F.smooth_l1_loss(x, f, reduction="none"),
    "smooth_l1_alike": lambda x, f: F.smooth_l1_loss(x, x),
    "huber": lambda x, f: F.huber_loss(x, f),
    "huber_target": lambda x, f: F.huber_loss(f, x, reduction="none"),
    "huber_alike": lambda x, f: F.huber_loss(x, x),
    "where": lambda x, f: torch.where(x, f, f),
    "isin": lambda x, f: torch.isin(x, f),
    "isin_of": lambda x, f: torch.isin(f, x),
    "isin_number": lambda x, f: torch.isin(x, 1),
    "round": lambda x, f: torch.round(x, decimals=2),
    "round_none": lambda x, f: torch.round(x, decimals=0),
    "median": lambda x, f: x.median(),
    "nanmedian_dim": lambda x, f: x.nanmedian(1)[0],
    "kthvalue": lambda x, f: x.kthvalue(2)[0],
    "eigvals": lambda x, f: torch.linalg.eigvals(torch.diag(x[0])).abs().sort()[0],
    "matmul_number": lambda x, f: x[0, 0] @ f,
}


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_beside_float32(name, dtype):
    if dtype is torch.float64:
        needs.feature("f64")
    f = positive(3, 3)
    x = f.to(dtype)
    same_answer(lambda d: CALLS[name](x.to(d), f.to(d)))


def test_distances_have_a_number_for_a_norm():
    for device in ("cpu", D):
        with pytest.raises(RuntimeError, match="only supports non-negative p"):
            torch.cdist(positive(3, 3).to(device), positive(3, 3).to(device), float("nan"))


@pytest.mark.parametrize("shape", [((3, 3), (1, 3, 3)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3,))])
def test_solutions_of_vectors_for_each_matrix(shape):
    a, b = positive(*shape[0]) + torch.eye(3), positive(*shape[1])
    same_answer(lambda d: torch.linalg.lstsq(a.to(d), b.to(d))[0])


@pytest.mark.parametrize("factor", [0, -1])
@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle"])
def test_factors_of_images(name, factor):
    same_answer(lambda d: getattr(F, name)(positive(1, 9, 3, 3).to(d), factor))


EDGES = torch.linspace(0, 1, 5)
HISTOGRAMS = {
    "edges of another dtype": lambda x, e: torch.histogram(x, e.half()),
    "a number for edges": lambda x, e: torch.histogram(x, e[0]),
    "rows of edges": lambda x, e: torch.histogram(x, e[None]),
    "no edges": lambda x, e: torch.histogram(x, e[:0]),
    "one edge": lambda x, e: torch.histogram(x, e[:1]),
    "few weights": lambda x, e: torch.histogram(x, e, weight=x[:1]),
    "few weights by count": lambda x, e: torch.histogram(x, 4, weight=x[:1]),
    "weights of another dtype": lambda x, e: torch.histogram(x, e, weight=x.half()),
    "whole edges": lambda x, e: torch.histogramdd(x, [e, e.long(), e]),
    "one edge of three": lambda x, e: torch.histogramdd(x, [e, e[:1], e]),
    "a weight for each number": lambda x, e: torch.histogramdd(x, [3, 3, 3], weight=x),
    "two weights": lambda x, e: torch.histogramdd(x, [e, e, e], weight=x[0, :2]),
    "one point": lambda x, e: torch.histogramdd(x[0], [e, e, e]),
    "one point by counts": lambda x, e: torch.histogramdd(x[0], [2, 2, 2]),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name):
    said = []
    for device in ("cpu", D):
        with pytest.raises(RuntimeError) as raised:
            HISTOGRAMS[name](positive(3, 3).to(device), EDGES.to(device))
        said.append(str(raised.value).partition(", but got")[0])  # dtypes have C's names there
    assert said[0] == said[1]
