"""Gradients of the margin losses over classes, made of device operators: they are rare, and torch has no composite."""

import torch

from .table import custom

_MEAN = 1


def _scaled(grad_output, gradient, self, reduction):
    """What the loss passes back of the incoming gradient: a mean over classes, and over samples where it was asked for."""
    samples, classes = gradient.shape
    share = 1.0 / (classes * samples) if reduction == _MEAN else 1.0 / classes
    incoming = grad_output.unsqueeze(-1) if grad_output.dim() else grad_output
    return (gradient * incoming * share).to(self.dtype).reshape(self.shape)


@custom("multi_margin_loss_backward")
def multi_margin_loss_backward(grad_output, self, target, p, margin, weight=None, reduction=1):
    x = torch.atleast_2d(self)
    own = target.reshape(-1, 1)
    z = margin - x.gather(1, own) + x
    excess = torch.where(z > 0, 1.0 if p == 1 else 2 * z, 0.0)
    if weight is not None:
        excess = excess * weight[own]
    excess = excess.scatter(1, own, 0.0)
    return _scaled(grad_output, excess.scatter(1, own, -excess.sum(1, keepdim=True)), self, reduction)


@custom("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target):
    """A row's labels end at its first -1."""
    x, labels = torch.atleast_2d(self), torch.atleast_2d(target)
    valid = (labels < 0).cumsum(1) == 0
    index = torch.where(valid, labels, 0)
    violated = 1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1) > 0
    violated &= valid.unsqueeze(2) & (is_target.reshape(x.shape) == 0).unsqueeze(1)
    gradient = violated.sum(1).to(x.dtype).scatter_add(1, index, -violated.sum(2).to(x.dtype))
    return _scaled(grad_output, gradient, self, reduction)
