"""3x3 convolutions with unit steps and many channels: transforms around sixteen products (see kernels.winograd)."""

import torch

from ... import tensor as T
from ...kernels.conv import by_tables
from ...kernels.conv.winograd import plan
from ...kernels.matmul.product import Matrix, Product
from ...plan import caps, launch
from ..matmul.product import multiply, output
from . import tables
from .ending import dtype_of

CHANNELS = 32  # the least for which the transforms are worth their time
MOST = 1 << 26  # elements of a transformed image: beyond, memory is worth more
FEWEST = 1 << 20  # multiplications of each of the sixteen products
TILES = 128  # fewer would spend more on the weights' transform than they save


def served(g, dtype: torch.dtype) -> bool:
    """`g` is the geometry of the forward pass."""
    if not (tables.floats(dtype) and g.groups == 1 and g.dims == 2 and g.some and g.small):
        return False
    unit = (1, 1, 1)
    if by_tables.by_units(T.DTYPES[dtype], caps()):
        return False  # units do the 36 products of a tile in less time than lanes do 16
    if g.window != (1, 3, 3) or g.stride != unit or g.dilation != unit or max(g.padding) > 2:
        return False
    tiles, (fewest, most) = Tiles(g.batch, g.y_sizes).count, sorted((g.x_channels, g.y_channels))
    size = 16 * most * max(tiles, fewest)
    enough = tiles >= TILES and most * fewest * tiles >= FEWEST
    return fewest >= CHANNELS and enough and size <= MOST and tables.bindable(size)


class Tiles:
    """Tiles of 2x2 over images of these sizes; their number is filled up to whole vectors."""

    def __init__(self, images: int, sizes):
        self.images = images
        self.height, self.width = sizes[1:]
        self.across = (-(-self.height // 2), -(-self.width // 2))
        self.count = -(-images * self.across[0] * self.across[1] // 4) * 4

    @property
    def words(self) -> tuple:
        return (self.count, *self.across, self.images)


def _spread(x, channels: int, tiles: Tiles, padding, kind: str = "image"):
    """[16, channels, tiles] of an image, or of a gradient."""
    out = T.empty((16, channels, tiles.count), torch.float32)
    words = (*tiles.words, *x.shape[2:], x.storage_offset(), *x.stride(), *padding)
    launch(plan(kind, T.dtype_of(x), T.dtype_of(out), channels * tiles.count, words, caps()), x, out)
    return out


def _weights(weight, rows: int, k: int, s_m: int, s_k: int, flip: bool):
    """[16, k, rows]"""
    out = T.empty((16, k, rows), torch.float32)
    words = (rows, weight.storage_offset(), s_m, s_k)
    launch(plan("weight", T.dtype_of(weight), T.dtype_of(out), rows * k, words, caps(), flip), weight, out)
    return out


def _product(mode: str, m: int, n: int, k: int, a, b):
    """Sixteen products: [16, m, n]; "image" of [16, k, m] and [16, k, n], "weight" of [16, m, k] and [16, n, k]."""
    f32 = T.DTYPES[torch.float32]
    (row_a, row_b), (col_a, col_b) = ((1, 1), (m, n)) if mode == "image" else ((k, k), (1, 1))
    left, right = Matrix(f32, 0, row_a, col_a, 0, m * k), Matrix(f32, 0, row_b, col_b, 0, n * k)
    product = Product(m, n, k, left, right, output(torch.float32, m, n, 16), inner=16)
    return multiply((16, m, n), torch.float32, product, a, b)


def _image(x, weight, s_m: int, s_k: int, flip: bool, bias, shape, padding, ending):
    """Tiles of x times transformed weights, back to an image of `shape`; rows of weights are s_m apart, columns s_k."""
    tiles = Tiles(shape[0], (1, *shape[2:]))
    rows, k = shape[1], x.shape[1]
    turned = _weights(weight, rows, k, s_m, s_k, flip)
    found = _product("image", rows, tiles.count, k, turned, _spread(x, k, tiles, padding))
    out = T.empty(shape, dtype_of(ending, x))
    source = (k, *x.shape[2:], x.storage_offset(), *x.stride(), *padding, weight.storage_offset(), s_m, s_k)
    words = (*tiles.words, *shape[2:], rows, *source)
    extra = () if bias is None else (bias.storage_offset(), bias.stride(0))
    after = ending and ending.after(shape, rows)
    back = plan("out", T.dtype_of(x), T.dtype_of(out), rows * tiles.count, words, caps(), flip, extra, after)
    read = [t for t in ((bias,) if ending is None else ending.tensors) if t is not None]
    launch(back, found, x, weight, *read, out)
    return out


def forward(x, weight, bias, shape, padding, ending):
    """`weight` is contiguous."""
    return _image(x, weight, 9 * weight.shape[1], 9, False, bias, shape, padding, ending)


def backward_image(dy, weight, bias, shape, padding, ending):
    return _image(dy, weight, 9, 9 * weight.shape[1], True, bias, shape, tuple(2 - p for p in padding), ending)


def backward_weight(x, dy, shape, padding):
    tiles = Tiles(x.shape[0], (1, *dy.shape[2:]))
    rows, columns = shape[:2]
    gradient = _spread(dy, rows, tiles, (0, 0), "grad")
    found = _product("weight", rows, columns, tiles.count, gradient, _spread(x, columns, tiles, padding))
    out = T.empty(shape, x.dtype)
    launch(plan("back", T.dtype_of(x), T.dtype_of(out), rows * columns, (), caps()), found, out)
    return out
