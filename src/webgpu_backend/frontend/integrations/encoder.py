"""nn.TransformerEncoder with padding, where PyTorch makes nested tensors: their padded places come back as zeros."""

from functools import wraps

import torch

from ...ops.attention.fast_path import ASKED


def padded(original):
    @wraps(original)
    def __call__(self, *args, **kwargs):
        if torch.compiler.is_compiling():  # no nested tensors on any device
            return original(self, *args, **kwargs)
        before, ASKED.keep = ASKED.keep, None
        try:
            out = original(self, *args, **kwargs)
            keep = ASKED.keep
        finally:
            ASKED.keep = before
        return out if keep is None or not _would_nest(self, args, kwargs) else _blank(out, keep, self.norm)

    return __call__


def _would_nest(encoder, args: tuple, kwargs: dict) -> bool:
    """What `TransformerEncoder.forward` looks at after it has asked whether the padding is at the end."""
    src = args[0] if args else kwargs["src"]
    mask = args[1] if len(args) > 1 else kwargs.get("mask")
    tensors = (src, *encoder.layers[0].parameters())
    if mask is not None or torch.is_autocast_enabled() or torch.overrides.has_torch_function(tensors):
        return False
    return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))


def _blank(out: torch.Tensor, keep: torch.Tensor, norm) -> torch.Tensor:
    """Padded places as the encoder's last norm leaves zeros; all of it as it is where padding is not at the end."""
    at_the_end = (keep[:, 1:] & ~keep[:, :-1]).any().logical_not()
    zero = out.new_zeros((1, 1, out.shape[-1]))
    return torch.where(keep.unsqueeze(-1) | ~at_the_end, out, zero if norm is None else norm(zero))
