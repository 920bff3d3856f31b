"""ctc_loss: the loss of a labelling under every alignment, and its gradient."""

import torch

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.loss import ctc
from ...plan import caps, launch
from ..shape.copy import fill
from ..table import custom

_CHECKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def _check(log_probs, targets, steps, labels, blank) -> None:
    """What the CPU refuses, in its words."""
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if targets.dtype not in (torch.int64, torch.int32):
        kind = torch.empty((), dtype=targets.dtype, device="cpu").type()
        raise RuntimeError(
            f"Expected tensor for argument #2 'targets' to have scalar type Int; but got {kind} instead {_CHECKING}"
        )
    if log_probs.dim() != 3:
        got = f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor"
        raise RuntimeError(f"{got} for argument #1 'log_probs' {_CHECKING}")
    if targets.dim() not in (1, 2):
        got = f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor"
        raise RuntimeError(f"{got} for argument #2 'targets' {_CHECKING}")
    most, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", steps), ("target_lengths", labels)):
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        for n in lengths:
            if n < 0:
                raise RuntimeError(f"Expected {name} to have value at least 0, but got value {n} {_CHECKING}")
            if n > most and name == "input_lengths":
                raise RuntimeError(f"Expected {name} to have value at most {most}, but got value {n} {_CHECKING}")
    rows = batch if targets.dim() == 2 else sum(labels)
    if targets.shape[0] != rows:
        got = f"Expected tensor to have size {rows} at dimension 0, but got size {targets.shape[0]}"
        raise RuntimeError(f"{got} for argument #2 'targets' {_CHECKING}")
    if targets.dim() == 2 and targets.shape[1] < max(labels):
        got = f"Expected tensor to have size at least {max(labels)} at dimension 1, but got size {targets.shape[1]}"
        raise RuntimeError(f"{got} for argument #2 'targets' {_CHECKING}")


def _ready(log_probs, targets, steps, labels, blank, zero_infinity):
    """The sizes, and the tensors every kernel reads: lengths and places of labels, labels, log probabilities."""
    starts, place = [], 0
    for row, n in enumerate(labels):
        starts.append(row * targets.shape[1] if targets.dim() == 2 else place)
        place += n
    lengths = torch.tensor([*steps, *labels, *starts], dtype=torch.int32, device="cpu").to(T.here())
    wanted = targets.to(T.here(), torch.int32).contiguous()
    if not wanted.numel():
        wanted = fill(T.empty((1,), torch.int32), 0)
    sizes = ctc.Sizes(*log_probs.shape, 2 * max(labels) + 1, blank, zero_infinity, log_probs.dtype is torch.float64)
    if sizes.states > ctc.MAX_STATES:
        raise Unsupported("webgpu: ctc_loss of labellings this long")
    return sizes, (_plain(lengths), _plain(wanted), _plain(log_probs))


def _plain(x):
    """Kernels begin at the block's first element."""
    x = x.contiguous()
    return x.clone() if x.storage_offset() else x


@custom("_ctc_loss")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"webgpu: ctc_loss of {log_probs.dtype}")
    sizes, (lengths, wanted, x) = _ready(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    alpha = T.empty((sizes.batch, sizes.steps, sizes.states), x.dtype)
    launch(ctc.plan_walk("alpha", sizes, caps()), lengths, wanted, x, alpha)
    loss = T.empty((sizes.batch,), x.dtype)
    launch(ctc.plan_each("loss", sizes, caps()), lengths, wanted, alpha, loss)
    return loss, alpha


@custom("_ctc_loss_backward")
def ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    sizes, given = _ready(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    beta = T.empty((sizes.batch, sizes.steps, sizes.states), log_probs.dtype)
    launch(ctc.plan_walk("beta", sizes, caps()), *given, beta)
    out = fill(T.empty(log_probs.shape, log_probs.dtype), float("-inf"))
    launch(ctc.plan_each("gather", sizes, caps()), *given, _plain(log_alpha), beta, out)
    launch(ctc.plan_each("finish", sizes, caps()), *given, _plain(neg_log_likelihood), _plain(grad), out)
    return out


@custom("_ctc_loss.Tensor")
def ctc_loss_tensor(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    return ctc_loss(log_probs, targets, input_lengths.tolist(), target_lengths.tolist(), blank, zero_infinity)


@custom("_ctc_loss_backward.Tensor")
def ctc_loss_backward_tensor(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    lengths = input_lengths.tolist(), target_lengths.tolist()
    return ctc_loss_backward(grad, log_probs, targets, *lengths, neg_log_likelihood, log_alpha, blank, zero_infinity)
