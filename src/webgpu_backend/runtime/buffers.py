"""Device memory: blocks of fixed size classes, pooled, and the leases that tensors hold on them."""

from heapq import heappop
from threading import Lock

from .blocks import Block, Lease, size_class
from .errors import DeviceLost, OutOfMemory
from .native import NULL, checked, ffi, lib

LARGE = 1 << 20  # from here on a free block of another class may serve
WASTE = 4 / 3  # if it is at most so much larger: an optimizer's scratch then lies where activations were

USAGE = lib.WGPUBufferUsage_Storage | lib.WGPUBufferUsage_CopySrc | lib.WGPUBufferUsage_CopyDst


class Pool:
    """Free blocks by size class, lowest uid first: a loop that allocates the same way gets the same blocks again,
    and so the same bind groups.

    Every lease has a slot; `blocks[slot]` is its block. The slot is what a tensor's data pointer encodes.
    """

    def __init__(self, device, max_buffer: int, max_binding: int, limit: int):
        self.device = device
        self.max_buffer = max_buffer
        self.max_binding = max_binding
        self.limit = limit  # bytes that may be taken from the driver
        self.blocks: list[Block | None] = [None]
        self.free_slots: list[int] = []
        self.free: dict[int, list[int]] = {}
        self.by_uid: dict[int, Block] = {}
        self.next_uid = 1
        self.lock = Lock()
        self.on_release = None  # called with the blocks about to be released
        self.dead: str | None = None
        self.bytes_live = 0
        self.bytes_pooled = 0
        self.bytes_reserved = 0
        self.bytes_peak = 0
        self.bytes_reserved_peak = 0
        self.live = 0
        self.allocations = 0
        self.ooms = 0

    def take(self, nbytes: int, size: int) -> Lease:
        """`size` is size_class(nbytes), which the caller's plan has at hand."""
        try:
            block = self.by_uid[heappop(self.free[size])]
            self.bytes_pooled -= block.size
        except (KeyError, IndexError):
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
        self.bytes_reserved -= total
        return total

    def _create(self, nbytes: int, size: int) -> Block:
        if self.dead:
            raise DeviceLost(self.dead)
        block = self._larger(size) if size >= LARGE else None
        if block is not None:
            return block
        if nbytes > self.max_buffer:
            raise OutOfMemory(
                f"a buffer of {nbytes} bytes is larger than the adapter's limit of {self.max_buffer} bytes"
            )
        heap = self.free.setdefault(size, [])
        real = min(size, self.max_buffer)
        try:
            handle = self._within_limit(real)
        except OutOfMemory:
            self.ooms += 1
            self.release_free()
            handle = self._within_limit(real)
        with self.lock:
            uid = self.next_uid
            self.next_uid += 1
        block = self.by_uid[uid] = Block(handle, real, uid, heap)
        self.bytes_reserved += real
        self.bytes_reserved_peak = max(self.bytes_reserved_peak, self.bytes_reserved)
        return block

    def _larger(self, size: int) -> Block | None:
        """A free block that is a little too large; None where there is none that one binding still holds."""
        most = size * WASTE
        if size <= self.max_binding:
            most = min(most, self.max_binding)
        while fitting := [s for s, heap in list(self.free.items()) if size < s <= most and heap]:
            try:
                block = self.by_uid[heappop(self.free[min(fitting)])]
            except IndexError:  # another thread took it
                continue
            self.bytes_pooled -= block.size
            return block
        return None

    def _within_limit(self, size: int):
        if self.bytes_reserved + size > self.limit:
            raise OutOfMemory(
                f"{self.bytes_reserved} bytes are taken, {size} more pass the limit of {self.limit} bytes"
            )
        return self.create_buffer(size, USAGE)

    def create_buffer(self, size: int, usage: int, mapped: bool = False):
        descriptor = ffi.new("WGPUBufferDescriptor *", {"usage": usage, "size": size, "mappedAtCreation": int(mapped)})
        with checked(f"allocating {size} bytes"):
            handle = lib.wgpuDeviceCreateBuffer(self.device, descriptor)
        if handle == NULL:
            raise OutOfMemory(f"allocating {size} bytes: the adapter returned no buffer")
        return handle
