"""What the CPU refuses of index_add, index_copy, index_reduce, index_fill and put, in its words."""

import pytest
import torch

from tests.device._compare import D

JOINED = {"index_add": (), "index_copy": (), "index_reduce": ("amax",)}
# sizes of self, index and source, and the dimension
SIZES = {
    "one dimension less": ((1, 1), (1,), (1,), 0),
    "two for a number": ((), (2,), (), 0),
    "none for a number": ((), (0,), (), 0),
    "a number into one": ((1,), (1,), (), 0),
    "a number into a matrix": ((3, 2), (1,), (), 0),
    "one into a number": ((), (1,), (1,), 0),
    "dimension that source has not": ((1, 5, 5), (5,), (5, 5), -1),
    "last dimension that source has not": ((5, 5), (5,), (5,), -1),
    "other count": ((5, 5), (3,), (5, 5), 0),
    "other slices": ((5, 5), (3,), (3, 4), 0),
    "a matrix of indices": ((5, 5), (1, 3), (3, 5), 0),
    "no such dimension": ((5, 5), (3,), (3, 5), 3),
    "as it should be": ((5, 5), (3,), (3, 5), 0),
}


def answers(call):
    """What both devices say: sizes, or the type of the error and its words."""
    found = []
    for device in ("cpu", D):
        try:
            found.append(call(device).shape)
        except (RuntimeError, IndexError) as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("case", SIZES)
@pytest.mark.parametrize("name", JOINED)
def test_sizes(name, case):
    into, at, of, dim = SIZES[case]

    def call(device):
        index = torch.zeros(at, dtype=torch.int64, device=device)
        function, rest = getattr(torch, name), JOINED[name]
        return function(torch.ones(into, device=device), dim, index, torch.ones(of, device=device), *rest)

    theirs, ours = answers(call)
    assert ours == theirs


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("name", [*JOINED, "index_fill", "put"])
def test_dtypes_of_indices(name, dtype):
    def call(device):
        x, index = torch.ones(5, 5, device=device), torch.zeros(3, dtype=dtype, device=device)
        if name == "index_fill":
            return torch.index_fill(x, 0, index, 2.0)
        if name == "put":
            return torch.put(x, index, x[0, :3])
        return getattr(torch, name)(x, 0, index, x[:3], *JOINED[name])

    theirs, ours = answers(call)
    assert ours == theirs


@pytest.mark.parametrize("name", [*JOINED, "put"])
def test_a_source_of_another_dtype(name):
    def call(device):
        x, index = torch.ones(5, 5, device=device), torch.zeros(3, dtype=torch.int64, device=device)
        if name == "put":
            return torch.put(x, index, x[0, :3].half())
        return getattr(torch, name)(x, 0, index, x[:3].half(), *JOINED[name])

    theirs, ours = answers(call)
    assert ours == theirs and isinstance(ours, tuple)


def test_the_rest():
    def indices(device, *shape):
        return torch.zeros(shape, dtype=torch.int64, device=device)

    for call in (
        lambda d: torch.index_fill(torch.ones(5, 5, device=d), 0, indices(d, 1, 3), 2.0),
        lambda d: torch.index_fill(
            torch.ones(5, 5, device=d), 0, indices(d, 3), torch.ones((), dtype=torch.complex64, device=d)
        ),
        lambda d: torch.put(torch.ones(5, device=d), indices(d, 2), torch.ones(3, device=d)),
        lambda d: torch.put(torch.ones(0, device=d), indices(d, 2), torch.ones(2, device=d)),
        lambda d: torch.index_add(torch.ones(0, device=d), 0, indices(d, 1), torch.ones(1, device=d)),
        lambda d: torch.index_reduce(torch.ones(0, device=d), 0, indices(d, 1), torch.ones(1, device=d), "amax"),
    ):
        theirs, ours = answers(call)
        assert ours == theirs and issubclass(ours[0], Exception)
    with pytest.raises(IndexError):  # the CPU says that its memory is too small
        torch.index_copy(torch.ones(0, device=D), 0, indices(D, 1), torch.ones(1, device=D))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("index", [(5,), (5, 5, 1), (11, 5), (5, 6)])
@pytest.mark.parametrize("name", ["scatter", "scatter_add", "sum", "mean", "amin"])
def test_scattered(name, index, dtype):
    def call(device):
        at = torch.zeros(index, dtype=torch.int64, device=device)
        x, source = torch.ones(10, 5, dtype=dtype, device=device), torch.ones(5, 5, device=device)
        if name.startswith("scatter"):
            return getattr(torch, name)(x, 1, at, source)
        return x.scatter_reduce(1, at, source, name, include_self=False)

    theirs, ours = answers(call)
    assert ours[0] is theirs[0] is RuntimeError  # the words are those of torch's shape functions
