"""cdist and pdist against the CPU: every norm, broadcast batches, no elements, equal rows, gradients."""

import pytest
import torch

from tests.device._compare import close, gradients

NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")]


def sample(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("p", NORMS)
def test_cdist(p):
    mode = "donot_use_mm_for_euclid_dist"
    for one, two in (
        ((5, 3), (4, 3)),
        ((2, 1, 6, 7), (3, 2, 7)),
        ((0, 3), (4, 3)),
        ((5, 0), (2, 0)),
        ((30, 2), (40, 2)),
    ):
        x, y = sample(one), sample(two, 1)
        if x.numel() and y.numel():
            y[..., 0, :] = x[..., :1, :].reshape(-1, x.shape[-1])[0]  # a distance of zero
        close(torch.cdist(x.to("webgpu"), y.to("webgpu"), p, mode), torch.cdist(x, y, p, mode))
        if x.numel():
            gradients(lambda a, b: torch.cdist(a, b, p, mode), x, y)
    view = sample((4, 9)).to("webgpu")
    close(
        torch.cdist(view[:, 1:5], view.T[2:6, :].T, p, mode),
        torch.cdist(view.cpu()[:, 1:5], view.cpu()[:, 2:6], p, mode),
    )


def test_cdist_by_products():
    x, y = sample((2, 60, 5)), sample((2, 40, 5), 1)
    gradients(torch.cdist, x, y, tolerance=1e-3)


@pytest.mark.parametrize("p", NORMS)
def test_pdist(p):
    for shape in ((6, 4), (1, 4), (0, 4), (5, 0), (70, 3)):
        x = sample(shape)
        if shape == (6, 4):
            x[3] = x[1]
        close(torch.pdist(x.to("webgpu"), p), torch.pdist(x, p))
        if x.numel():
            gradients(lambda t: torch.pdist(t, p), x)


def test_errors():
    x = torch.ones(3, 2, device="webgpu")
    with pytest.raises(RuntimeError, match="non-negative p"):
        torch.cdist(x, x, -1.0)
    with pytest.raises(RuntimeError, match="non-negative p"):
        torch.pdist(x, -1.0)
    with pytest.raises(RuntimeError, match="same number of columns"):
        torch.cdist(x, x[:, :1])


def test_counted_differences_keep_nan():
    x, y = torch.tensor([[1.0, float("nan")], [1.0, 2.0], [float("inf"), 2.0]]), torch.tensor([[1.0, 2.0]])
    expected = torch.cdist(x, y, p=0.0)
    torch.testing.assert_close(torch.cdist(x.to("webgpu"), y.to("webgpu"), p=0.0).cpu(), expected, equal_nan=True)
    assert expected.isnan().sum() == 1
