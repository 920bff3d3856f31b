"""Device memory: blocks of fixed size classes, pooled, and the leases that tensors hold on them."""

from heapq import heappop, heappush
from threading import Lock

from .native import NULL, OutOfMemory, checked, ffi, lib

_USAGE = lib.WGPUBufferUsage_Storage | lib.WGPUBufferUsage_CopySrc | lib.WGPUBufferUsage_CopyDst
MIN_BLOCK = 256


def size_class(nbytes: int) -> int:
    """Powers of two up to 1 MiB, then eight steps per power: at most 12.5 % of a large block is padding."""
    if nbytes <= MIN_BLOCK:
        return MIN_BLOCK
    bits = (nbytes - 1).bit_length()
    if bits <= 20:
        return 1 << bits
    step = 1 << (bits - 4)
    return (nbytes + step - 1) & -step


class Block:
    """A wgpu buffer. It lives in the pool or belongs to exactly one lease."""

    __slots__ = ("handle", "size", "uid")

    def __init__(self, handle, size: int, uid: int):
        self.handle = handle
        self.size = size
        self.uid = uid


class Lease:
    """What a storage holds: its block returns to the pool when the last reference dies, on whatever thread."""

    __slots__ = ("block", "nbytes", "slot", "pool")

    def __init__(self, pool: "Pool", block: Block, nbytes: int, slot: int):
        self.pool = pool
        self.block = block
        self.nbytes = nbytes
        self.slot = slot

    def __del__(self):
        self.pool.give(self)


class Pool:
    """Free blocks by size class, lowest uid first: a loop that allocates the same way gets the same blocks again,
    and so the same bind groups.

    Every lease has a slot; `blocks[slot]` is its block. The slot is what a tensor's data pointer encodes.
    """

    def __init__(self, device, max_buffer: int):
        self.device = device
        self.max_buffer = max_buffer
        self.blocks: list[Block | None] = [None]
        self.free_slots: list[int] = []
        self.free: dict[int, list[int]] = {}
        self.by_uid: dict[int, Block] = {}
        self.next_uid = 1
        self.lock = Lock()
        self.on_release = None  # called with the blocks about to be released
        self.bytes_live = 0
        self.bytes_pooled = 0
        self.bytes_peak = 0
        self.bytes_reserved_peak = 0
        self.live = 0
        self.allocations = 0
        self.ooms = 0

    def take(self, nbytes: int, size: int) -> Lease:
        """`size` is size_class(nbytes), which the caller's plan has at hand."""
        heap = self.free.get(size)
        block = None
        if heap:
            try:
                block = self.by_uid[heappop(heap)]
                self.bytes_pooled -= size
            except IndexError:  # another thread took the last one
                block = None
        if block is None:
            block = self._create(nbytes, size)
        try:
            slot = self.free_slots.pop()
            self.blocks[slot] = block
        except IndexError:
            with self.lock:
                slot = len(self.blocks)
                self.blocks.append(block)
        self.live += 1
        self.allocations += 1
        live = self.bytes_live = self.bytes_live + nbytes
        if live > self.bytes_peak:
            self.bytes_peak = live
        return Lease(self, block, nbytes, slot)

    def give(self, lease: Lease) -> None:
        # Runs inside garbage collection, so it takes no lock: each step is one atomic operation of the interpreter.
        block = lease.block
        self.blocks[lease.slot] = None
        self.free_slots.append(lease.slot)
        self.live -= 1
        self.bytes_live -= lease.nbytes
        self._pool(block)

    def swap(self, lease: Lease, nbytes: int) -> Block:
        """Gives the lease a new block (a storage was resized); returns the old one, pooled but still readable."""
        block = lease.block
        size = size_class(nbytes)
        if size != block.size:
            fresh = self.take(nbytes, size)
            new, fresh.block = fresh.block, block
            lease.block = self.blocks[lease.slot] = new
            fresh.nbytes, lease.nbytes = lease.nbytes, nbytes
        else:
            self.bytes_live += nbytes - lease.nbytes
            lease.nbytes = nbytes
        return block

    def release_free(self) -> int:
        """Hands every pooled block back to the driver; returns the bytes."""
        victims = []
        for heap in list(self.free.values()):
            while heap:
                try:
                    victims.append(self.by_uid.pop(heappop(heap)))
                except IndexError:
                    break
        if not victims:
            return 0
        if self.on_release is not None:
            self.on_release(victims)
        total = 0
        for block in victims:
            lib.wgpuBufferRelease(block.handle)
            total += block.size
        self.bytes_pooled -= total
        return total

    def _pool(self, block: Block) -> None:
        heap = self.free.get(block.size)
        if heap is None:
            heap = self.free.setdefault(block.size, [])
        self.bytes_pooled += block.size
        heappush(heap, block.uid)

    def _create(self, nbytes: int, size: int) -> Block:
        if nbytes > self.max_buffer:
            raise OutOfMemory(f"a buffer of {nbytes} bytes is larger than the adapter's limit of {self.max_buffer} bytes")
        size = min(size, self.max_buffer)
        try:
            handle = self.create_buffer(size, _USAGE)
        except OutOfMemory:
            self.ooms += 1
            self.release_free()
            handle = self.create_buffer(size, _USAGE)
        with self.lock:
            uid = self.next_uid
            self.next_uid += 1
        block = self.by_uid[uid] = Block(handle, size, uid)
        reserved = self.bytes_live + self.bytes_pooled + size
        self.bytes_reserved_peak = max(self.bytes_reserved_peak, reserved)
        return block

    def create_buffer(self, size: int, usage: int, mapped: bool = False):
        descriptor = ffi.new("WGPUBufferDescriptor *", {"usage": usage, "size": size, "mappedAtCreation": int(mapped)})
        with checked(f"allocating {size} bytes"):
            handle = lib.wgpuDeviceCreateBuffer(self.device, descriptor)
        if handle == NULL:
            raise OutOfMemory(f"allocating {size} bytes: the adapter returned no buffer")
        return handle
