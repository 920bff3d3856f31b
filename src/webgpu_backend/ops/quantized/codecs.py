"""GGUF's formats in torch's own arithmetic, on any device: from floats, from the bytes of a file, and back to floats.

Codes and scales are whole numbers, those of halves their bits: a model that is cast to another dtype keeps them.

The blocks of a file are taken apart into codes and scales as `kernels/quantized/formats.py` lays them out; no bit of
either is lost, and nothing is rounded.
"""

import torch

from ...kernels.quantized.formats import FORMATS, PIECE

BYTES = {"q8_0": 34, "q4_0": 18, "q4_k": 144, "q6_k": 210}  # of a block in a file


# -- codes in words


def pack(codes: torch.Tensor, format: str) -> torch.Tensor:
    """Codes [n, k] (uint8, from zero up; signed for eight bits) as words [n, ...]."""
    n, k = codes.shape
    kind = FORMATS[format].codes[0]
    if kind == "8":
        return codes.contiguous().view(torch.int32)
    codes = codes.to(torch.int32)
    if kind == "4":
        return _joined(codes.view(n, k // 8, 8), 4)
    pieces = codes.view(n, k // PIECE, 4, 8)
    low = _joined(pieces & 15, 4)  # [n, pieces, 4]
    quads = (pieces >> 4).view(n, k // PIECE, 2, 4, 4)  # [half of the piece, quad v, element j]
    high = torch.zeros(quads.shape[:3], dtype=torch.int32, device=codes.device)
    for v in range(4):
        for j in range(4):
            high |= quads[..., v, j] << _high_bit(v, j)
    return torch.cat([low, high], -1).view(n, -1)


def unpack(words: torch.Tensor, format: str) -> torch.Tensor:
    """The other way: int32 codes [n, k], from zero up, or signed for eight bits."""
    n, kind = words.shape[0], FORMATS[format].codes[0]
    if kind == "8":
        return words.contiguous().view(torch.int8).to(torch.int32)
    if kind == "4":
        return _parted(words, 4, 8).view(n, -1)
    pieces = words.view(n, -1, 6)
    low = _parted(pieces[..., :4], 4, 8).reshape(n, -1, 2, 4, 4)
    places = torch.tensor(
        [[_high_bit(v, j) for j in range(4)] for v in range(4)], dtype=torch.int32, device=words.device
    )
    high = (pieces[..., 4:, None, None] >> places) & 3
    return (low | high << 4).view(n, -1)


def _high_bit(v: int, j: int) -> int:
    return 16 * (v // 2) + 2 * (v % 2) + 4 * j


def _joined(fields: torch.Tensor, bits: int) -> torch.Tensor:
    """Fields of the last dimension in one word, the first in the lowest bits."""
    found = fields[..., 0].clone()
    for i in range(1, fields.shape[-1]):
        found |= fields[..., i] << (bits * i)
    return found


def _parted(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    shifts = torch.arange(0, bits * count, bits, dtype=torch.int32, device=words.device)
    return (words[..., None] >> shifts) & ((1 << bits) - 1)


# -- scales


def _header_k4(d: torch.Tensor, least: torch.Tensor, scales: torch.Tensor, minima: torch.Tensor) -> torch.Tensor:
    """d and dmin (float16, [n, blocks]) and their eight factors of six bits each as four words a block."""
    scales, minima = scales.to(torch.int32), minima.to(torch.int32)
    halves = torch.stack([d, least], -1).contiguous().view(torch.int32)
    rest = _joined((scales >> 4) | (minima >> 4) << 2, 4)
    words = [halves.squeeze(-1), _joined(scales & 15, 4), _joined(minima & 15, 4), rest]
    return torch.stack(words, -1).view(d.shape[0], -1)


def _header_k6(d: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """d (float16, [n, blocks]) and sixteen factors of eight bits as five words a block."""
    halves = torch.stack([d, torch.zeros_like(d)], -1).contiguous().view(torch.int32)
    words = torch.cat([halves, scales.to(torch.int8).contiguous().view(torch.int32)], -1)
    return words.view(d.shape[0], -1)


def factors(scales: torch.Tensor, format: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Float32 scales [n, groups], and the offsets where the format has them."""
    n = scales.shape[0]
    kind = FORMATS[format].scales
    if kind == "plain":
        return scales.view(torch.float16).float(), None
    header = scales.view(n, -1, FORMATS[format].header)
    d = header[..., :1].contiguous().view(torch.float16).float()
    if kind == "k6":
        signed = header[..., 1:].contiguous().view(torch.int8).float()
        return (d[..., :1] * signed).view(n, -1), None
    low, least, rest = (_parted(header[..., i], 4, 8) for i in (1, 2, 3))
    found = d[..., :1] * (low | (rest & 3) << 4), -d[..., 1:] * (least | (rest & 12) << 2)
    return found[0].view(n, -1), found[1].view(n, -1)


def dequantised(codes: torch.Tensor, scales: torch.Tensor, format: str) -> torch.Tensor:
    """The weights in float32, [n, k]."""
    zero = {"4z": 8, "6": 32}.get(FORMATS[format].codes, 0)
    numbers = (unpack(codes, format) - zero).float()
    scale, offset = factors(scales, format)
    grouped = numbers.view(*scale.shape, -1) * scale[..., None]
    return (grouped if offset is None else grouped + offset[..., None]).view(numbers.shape)


# -- the blocks of a file


def from_blocks(raw: torch.Tensor, format: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of the rows [n, bytes] of a tensor in a GGUF file."""
    n = raw.shape[0]
    blocks = raw.contiguous().view(n, -1, BYTES[format])
    if format == "q8_0":
        return pack(blocks[..., 2:].reshape(n, -1).view(torch.int8), format), _halves(blocks[..., :2]).view(torch.int16)
    if format == "q4_0":
        quants = blocks[..., 2:]
        codes = pack(torch.cat([quants & 15, quants >> 4], -1).view(n, -1), format)
        return codes, _halves(blocks[..., :2]).view(torch.int16)
    if format == "q4_k":
        scales, minima = _six_bits(blocks[..., 4:16])
        quants = blocks[..., 16:].view(n, -1, 4, 32)
        codes = torch.stack([quants & 15, quants >> 4], -2).view(n, -1)
        return pack(codes, format), _header_k4(_halves(blocks[..., :2]), _halves(blocks[..., 2:4]), scales, minima)
    low, high = blocks[..., :128].view(n, -1, 2, 2, 32), blocks[..., 128:192].view(n, -1, 2, 1, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=raw.device)[:, None]
    codes = torch.cat([low & 15, low >> 4], -2) | ((high >> shifts) & 3) << 4
    scales = blocks[..., 192:208].contiguous().view(torch.int8)
    return pack(codes.view(n, -1), format), _header_k6(_halves(blocks[..., 208:210]), scales)


def _halves(raw: torch.Tensor) -> torch.Tensor:
    return raw.contiguous().view(torch.float16).squeeze(-1)


def _six_bits(raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight scales and eight minima of twelve bytes."""
    first, second, third = raw[..., :4], raw[..., 4:8], raw[..., 8:]
    scales = torch.cat([first & 63, (third & 15) | (first >> 6) << 4], -1)
    minima = torch.cat([second & 63, (third >> 4) | (second >> 6) << 4], -1)
    return scales, minima


# -- from floats


def quantised(weight: torch.Tensor, format: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a matrix [n, k] whose rows are whole blocks."""
    n, k = weight.shape
    weight = weight.detach().float()
    if format == "q8_0":
        groups = weight.reshape(n, -1, PIECE)
        d = (groups.abs().amax(-1) / 127).to(torch.float16)
        codes = _rounded(groups, d.float(), -127, 127).to(torch.int8)
        return pack(codes.view(n, k), format), d.view(torch.int16)
    if format == "q4_0":
        groups = weight.reshape(n, -1, PIECE)
        d = (_farthest(groups) / -8).to(torch.float16)
        codes = (_rounded(groups, d.float(), -8, 7) + 8).to(torch.uint8)
        return pack(codes.view(n, k), format), d.view(torch.int16)
    if format == "q4_k":
        return _quantised_k4(weight.reshape(n, -1, 8, 32))
    if format == "q6_k":
        return _quantised_k6(weight.reshape(n, -1, 16, 16))
    raise ValueError(f"unknown format {format!r}: one of {sorted(BYTES)}")


def _rounded(x: torch.Tensor, d: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return torch.where(d[..., None] != 0, (x / d[..., None]).round(), 0.0).clamp(low, high)


def _farthest(groups: torch.Tensor) -> torch.Tensor:
    """The element farthest from zero, with its sign."""
    return groups.gather(-1, groups.abs().argmax(-1, keepdim=True)).squeeze(-1)


def _quantised_k4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[n, blocks, 8, 32]: of several ranges the one whose least-squares line leaves the least weighted error."""
    importance = x.square().mean(-1, keepdim=True).sqrt() + x.abs()
    total, sum_x = importance.sum(-1), (importance * x).sum(-1)
    low = x.amin(-1).clamp(max=0)
    span = x.amax(-1) - low
    best_scale, best_low = span / 15, low
    best = None
    for step in range(-1, 21):
        steps = 15.0 if step < 0 else 14.0 + 0.1 * step
        codes = torch.where(span[..., None] > 0, ((x - low[..., None]) * (steps / span)[..., None]).round(), 0.0).clamp(
            0, 15
        )
        sum_c, sum_cc = (importance * codes).sum(-1), (importance * codes * codes).sum(-1)
        sum_cx = (importance * codes * x).sum(-1)
        det = total * sum_cc - sum_c * sum_c
        scale = torch.where(det > 0, (total * sum_cx - sum_x * sum_c) / det, span / 15)
        least = torch.where(det > 0, (sum_cc * sum_x - sum_c * sum_cx) / det, low)
        scale = torch.where(least > 0, sum_cx / sum_cc.clamp(min=1e-30), scale)
        least = least.clamp(max=0)
        error = (importance * (scale[..., None] * codes + least[..., None] - x).square()).sum(-1)
        if best is None:
            best, best_scale, best_low = error, scale, least
        else:
            better = error < best
            best = torch.where(better, error, best)
            best_scale, best_low = torch.where(better, scale, best_scale), torch.where(better, least, best_low)
    scales, minima = best_scale.clamp(min=0), -best_low
    d, d_least = (s.amax(-1).div(63).to(torch.float16) for s in (scales, minima))
    factors = [_rounded(s, h.float(), 0, 63) for s, h in ((scales, d), (minima, d_least))]
    scale, least = d.float()[..., None] * factors[0], d_least.float()[..., None] * factors[1]
    codes = _rounded(x + least[..., None], scale, 0, 15)
    n = x.shape[0]
    return pack(codes.to(torch.uint8).view(n, -1), "q4_k"), _header_k4(d, d_least, *factors)


def _quantised_k6(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[n, blocks, 16, 16]: of several scales the one that leaves the least error."""
    most = _farthest(x)
    best, best_scale = None, None
    for step in (0, *range(-9, 0), *range(1, 10)):
        inverse = torch.where(most != 0, -(32 + 0.1 * step) / most, 0.0)
        codes = (x * inverse[..., None]).round().clamp(-32, 31)
        weight = x.square()
        sum_cc = (weight * codes * codes).sum(-1)
        scale = torch.where(sum_cc > 0, (weight * codes * x).sum(-1) / sum_cc, 0.0)
        gain = scale * (weight * codes * x).sum(-1)
        if best is None:
            best, best_scale = gain, scale
        else:
            better = gain > best
            best, best_scale = torch.where(better, gain, best), torch.where(better, scale, best_scale)
    d = (_farthest(best_scale) / -128).to(torch.float16)
    factors = _rounded(best_scale, d.float(), -128, 127)
    codes = _rounded(x, d.float()[..., None] * factors, -32, 31) + 32
    return pack(codes.to(torch.uint8).view(x.shape[0], -1), "q6_k"), _header_k6(d, factors)
