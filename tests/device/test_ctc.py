"""ctc_loss against the CPU: labels padded and concatenated, repeated labels, short and impossible sequences."""

import pytest
import torch
import torch.nn.functional as F

from tests.device._compare import close, gradients


def _case(steps, batch, classes, labels, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(steps, batch, classes, generator=generator)
    return x, torch.randint(1, classes, (batch, labels), generator=generator)


def _loss(targets, lengths, counts, **rest):
    return lambda x: F.ctc_loss(x.log_softmax(-1), targets.to(x.device), lengths, counts, **rest)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_padded_and_concatenated(adapter_class, reduction):
    x, targets = _case(50, 4, 20, 12)
    lengths, counts = [50, 33, 41, 7], [12, 5, 0, 3]
    flat = torch.cat([row[:n] for row, n in zip(targets, counts)])
    for labels in (targets, targets.int(), flat):
        gradients(_loss(labels, lengths, counts, reduction=reduction), x, tolerance=1e-4)
        gradients(_loss(labels, torch.tensor(lengths), torch.tensor(counts), reduction=reduction), x, tolerance=1e-4)
    gradients(_loss(targets % 19, lengths, counts, blank=19, reduction=reduction), x, tolerance=1e-4)


def test_more_states_than_threads(adapter_class):
    x, targets = _case(700, 2, 6, 300)
    gradients(_loss(targets, [700, 650], [300, 170], reduction="none"), x, tolerance=1e-3)


def test_impossible_sequences():
    x, targets = _case(6, 3, 5, 6)
    targets[0] = 2  # six equal labels need blanks between them
    lengths, counts = [6, 4, 6], [6, 6, 2]
    close(*(_loss(targets, lengths, counts, reduction="none")(t) for t in (x.to("webgpu"), x)))
    gradients(_loss(targets, lengths, counts, reduction="none", zero_infinity=True), x)


def test_views_and_single_sequences():
    x, targets = _case(9, 3, 8, 4)
    wide = torch.randn(3, 8, 2, 9)
    gradients(lambda x: _loss(targets, [9, 9, 9], [4, 4, 4])(x[:, :, 1].permute(2, 0, 1)), wide)
    gradients(_loss(targets[0], torch.tensor(9), torch.tensor(4)), x[:, 0])


def test_no_steps_and_no_labels():
    x, targets = _case(5, 2, 4, 2)
    for lengths, counts in (([3, 0], [1, 0]), ([5, 5], [0, 0]), ([0, 5], [2, 2])):
        close(*(_loss(targets, lengths, counts, reduction="none")(t) for t in (x.to("webgpu"), x)))


@pytest.mark.parametrize(
    "lengths, counts, blank",
    [([5, 6], [2, 2], 0), ([5, 5], [2, 3], 0), ([5], [2, 2], 0), ([5, -1], [2, 2], 0), ([5, 5], [2, 2], 4)],
)
def test_errors(lengths, counts, blank):
    x, targets = _case(5, 2, 4, 2)
    with pytest.raises(RuntimeError) as expected:
        torch._ctc_loss(x, targets, lengths, counts, blank)
    with pytest.raises(RuntimeError) as got:
        torch._ctc_loss(x.to("webgpu"), targets.to("webgpu"), lengths, counts, blank)
    assert str(got.value) == str(expected.value)
