"""Device memory: blocks of fixed size classes, pooled, and the leases that tensors hold on them."""

from heapq import heappop, heappush
from threading import Lock

from .blocks import Block, Lease, size_class, unbroken
from .errors import DeviceError, DeviceLost, OutOfMemory
from .native import NULL, checked, ffi, lib

LARGE = 1 << 20  # from here on a free block of another class may serve
WASTE = 4 / 3  # if it is at most so much larger: an optimizer's scratch then lies where activations were
_FIRST = 1 << 12  # the uids below are the addresses of other devices' tensors, shifted: no block is found there
MOST_MARKS = 1 << 16  # in the log, of blocks that were given out
_numbering = Lock()
USAGE = lib.WGPUBufferUsage_Storage | lib.WGPUBufferUsage_CopySrc | lib.WGPUBufferUsage_CopyDst


class Pool:
    """Free blocks by size class, lowest uid first: a loop that allocates the same way gets the same blocks again,
    and so the same bind groups.

    `blocks[uid]` is a block; its uid is what a tensor's data pointer encodes. The devices of a process share the
    numbers: under one of another device's block stands None.
    """

    def __init__(
        self,
        device,
        max_buffer: int,
        max_binding: int,
        limit: int,
        most_pooled: int,
        index: int = 0,
        pools: "list[Pool] | None" = None,
    ):
        self.device = device
        self.index = index  # of the device, among those of the process
        self.pools = [] if pools is None else pools  # those of all devices
        self.queue = None  # the device's, once it is there
        self.max_buffer = max_buffer
        self.max_binding = max_binding
        self.limit = limit  # bytes that may be taken from the driver
        self.most_pooled = most_pooled  # bytes that may lie free when a block is created
        self.uids = 0  # how many of the numbers are this pool's
        self.free_uids: list[int] = []
        self.free: dict[int, list[int]] = {}
        self.descriptions: list[tuple] = []  # of released blocks: torch may still read their memory
        self.lost: list[int] = []  # where blocks that were lost go when they are given back, to become free ones
        self._heaps: dict[int, list[int]] = {}  # the free lists of these
        self.log: list = []  # the queue's: which blocks were given out since which command
        self.tidy_at = MOST_MARKS  # allocations after which the log is emptied, however few commands it has
        self.on_release = None  # called with the blocks about to be released
        self.dead: str | None = None
        self.generation = 0  # moves when a uid may stand for another block than before
        self.bytes_live = 0
        self.bytes_reserved = 0
        self.bytes_peak = 0
        self.bytes_reserved_peak = 0
        self.allocations = 0
        self.ooms = 0
        self.adopted = 0  # blocks that stand for memory in plans
        with _numbering:
            self.blocks: list[Block | None] = [None] * max([_FIRST, *[len(pool.blocks) for pool in self.pools]])
            self.pools.append(self)

    @property
    def live(self) -> int:
        """Blocks that tensors hold."""
        self._recover()
        pooled = sum(map(len, self.free.values()))
        return self.uids - len(self.free_uids) - pooled - self.adopted

    @property
    def bytes_pooled(self) -> int:
        self._recover()
        return sum(len(heap) * min(size, self.max_buffer) for size, heap in self.free.items())

    def take(self, nbytes: int, size: int) -> Block:
        """A block for the caller to put into a lease. `size` is size_class(nbytes), which its plan has at hand."""
        count = self.allocations = self.allocations + 1
        if count > self.tidy_at:
            self._tidy()
        try:
            block = self.blocks[heappop(self.free[size])]
        except (KeyError, IndexError):
            block = self._create(nbytes, size)
        block.nbytes = nbytes
        self.log.append(block)
        live = self.bytes_live = self.bytes_live + nbytes
        if live > self.bytes_peak:
            self.bytes_peak = live
        return block

    def _tidy(self) -> None:
        """A program that allocates and records nothing would make the log longer for ever."""
        self.tidy_at = self.allocations + MOST_MARKS
        self.queue.flush()

    def swap(self, lease: Lease, nbytes: int) -> Block:
        """Gives the lease a new block (a storage was resized); returns the old one, pooled but still readable."""
        block = lease.block
        if block.lost:
            raise DeviceError(block.lost)
        size = size_class(nbytes)
        if size != block.size:
            # The data pointers of the storage's tensors stay: the new block takes the old one's uid.
            fresh = Lease()
            new = fresh.block = self.take(nbytes, size)
            new.uid, block.uid = block.uid, new.uid
            self.blocks[new.uid], self.blocks[block.uid] = new, block
            new.meta = block.meta = None
            self.generation += 1
            lease.block, fresh.block = new, block
        else:
            self.bytes_live += nbytes - block.nbytes
            block.nbytes = nbytes
        return block

    def give(self, block: Block) -> None:
        """Back to where free blocks of its size are."""
        heappush(block.heap, block.uid)

    def lose(self, block: Block, why: str) -> None:
        """What a block holds is lost, until it is given back."""
        free = block.heap
        if free is None:  # one of the runtime's own
            return
        self._heaps[block.uid] = free
        block.lost, block.heap = why, self.lost
        if block.uid in free:  # its owner is gone
            block.lost, block.heap = None, free

    def _recover(self) -> None:
        """Blocks that were lost and have been given back become free ones."""
        while self.lost:
            block = self.blocks[heappop(self.lost)]
            block.lost = None
            block.heap = self._heaps.pop(block.uid)
            heappush(block.heap, block.uid)

    def release_free(self, keep: int = 0) -> int:
        """Hands pooled blocks back to the driver, the largest first, until `keep` bytes are left; returns the bytes."""
        victims: list[Block] = []
        excess = self.bytes_pooled - keep
        for _, heap in sorted(self.free.items(), reverse=True):
            while heap and (excess > 0 or not keep):
                try:
                    block = self.blocks[heappop(heap)]
                except IndexError:  # another thread took it
                    break
                victims.append(block)
                excess -= block.size
        if not victims:
            return 0
        if self.on_release is not None:
            self.on_release(victims)
        self.generation += 1
        total = 0
        for block in victims:
            lib.wgpuBufferRelease(block.handle)
            self.blocks[block.uid] = None
            self.free_uids.append(block.uid)
            if block.capsule is not None:
                self.descriptions.append((block.capsule, block.name, block.words))
            total += block.size
        self.bytes_reserved -= total
        return total

    def _create(self, nbytes: int, size: int) -> Block:
        if self.dead:
            raise DeviceLost(self.dead)
        self._recover()
        block = self._larger(size) if size >= LARGE else None
        if block is not None:
            return block
        if nbytes > self.max_buffer:
            raise OutOfMemory(
                f"a buffer of {nbytes} bytes is larger than the adapter's limit of {self.max_buffer} bytes"
            )
        if self.bytes_reserved > self.most_pooled and self.bytes_pooled > self.most_pooled:
            self.release_free(self.most_pooled // 2)  # so many at once that it is rare
        heap = self.free.setdefault(size, [])
        real = min(size, self.max_buffer)
        try:
            handle = self._within_limit(real)
        except OutOfMemory:
            self.ooms += 1
            self.release_free()
            handle = self._within_limit(real)
        block = self.adopt(Block(handle, real, 0, heap, self))
        self.bytes_reserved += real
        self.bytes_reserved_peak = max(self.bytes_reserved_peak, self.bytes_reserved)
        return block

    def adopt(self, block: Block) -> Block:
        """Gives a block a uid, under which it is found."""
        with _numbering:
            if self.free_uids:
                block.uid = self.free_uids.pop()
            else:
                block.uid = max([len(pool.blocks) for pool in self.pools])
                for pool in self.pools:
                    pool.blocks += [None] * (block.uid + 1 - len(pool.blocks))
                self.uids += 1
            self.blocks[block.uid] = block
        self.adopted += block.handle is None
        return block

    def _larger(self, size: int) -> Block | None:
        """A free block that is a little too large; None where there is none that one binding still holds."""
        most = size * WASTE
        if size <= self.max_binding:
            most = min(most, self.max_binding)
        while fitting := [s for s, heap in list(self.free.items()) if size < s <= most and heap]:
            try:
                return self.blocks[heappop(self.free[min(fitting)])]
            except IndexError:  # another thread took it
                continue
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


unbroken.add(Pool.take.__code__.co_filename)
