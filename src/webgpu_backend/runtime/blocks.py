"""Blocks of device memory and the leases that tensors hold on them. Knows nothing of wgpu."""

from heapq import heappush

MIN_BLOCK = 256


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
    """A wgpu buffer. It lives in the pool or belongs to exactly one lease."""

    __slots__ = ("handle", "size", "uid", "heap")

    def __init__(self, handle, size: int, uid: int, heap: list[int]):
        self.handle = handle
        self.size = size
        self.uid = uid
        self.heap = heap  # the free list of its size class


class Lease:
    """What a storage holds: its block returns to the pool when the last reference dies, on whatever thread."""

    __slots__ = ("block", "nbytes", "slot", "pool")

    def __init__(self, pool, block: Block, nbytes: int, slot: int):
        self.pool = pool
        self.block = block
        self.nbytes = nbytes
        self.slot = slot

    def __del__(self):
        # Runs inside garbage collection, so it takes no lock: each step is one atomic operation of the interpreter.
        pool, block = self.pool, self.block
        pool.blocks[self.slot] = None
        pool.free_slots.append(self.slot)
        pool.live -= 1
        pool.bytes_live -= self.nbytes
        pool.bytes_pooled += block.size
        heappush(block.heap, block.uid)
