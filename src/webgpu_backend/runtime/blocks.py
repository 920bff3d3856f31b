"""Blocks of device memory and the leases that tensors hold on them. Knows nothing of wgpu."""

from heapq import heappush

MIN_BLOCK = 256
# Code, and names of files, in which no signal's handler runs: a block, a buffer or a batch would be lost there.
unbroken: set = set()


def size_class(nbytes: int) -> int:
    """Powers of two up to 1 MiB, then sixteen steps per power: at most 6 % of a large block is padding."""
    if nbytes <= MIN_BLOCK:
        return MIN_BLOCK
    bits = (nbytes - 1).bit_length()
    if bits <= 20:
        return 1 << bits
    step = 1 << (bits - 5)
    return (nbytes + step - 1) & -step


class Block:
    """A wgpu buffer. It lives in the pool or belongs to exactly one lease. One without a handle stands for memory in a
    plan.

    `uid` is its place in the pool's list of blocks, and what the data pointers of its tensors encode. `capsule`,
    `name`, `words` and `meta` are the frontend's: the description from which the next tensor on it is made.
    """

    __slots__ = ("handle", "size", "uid", "heap", "pool", "nbytes", "capsule", "name", "words", "meta", "lost")

    def __init__(self, handle, size: int, uid: int = 0, heap: list[int] | None = None, pool=None):
        self.handle = handle
        self.size = size
        self.uid = uid
        self.heap = heap  # the free list of its size class
        self.pool = pool
        self.nbytes = 0  # what its tensor asked for
        self.capsule = self.name = self.words = self.meta = None
        self.lost: str | None = None  # why nobody may use what it holds, until it is given back: see `refusal`


class Lease:
    """What a storage holds: its block returns to the pool when the last reference dies, on whatever thread."""

    __slots__ = ("block",)

    def __del__(self):
        # Runs inside garbage collection, so it takes no lock: each step is one atomic operation of the interpreter.
        block = self.block
        block.pool.bytes_live -= block.nbytes
        heappush(block.heap, block.uid)
