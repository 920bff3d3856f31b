"""One open compute pass per batch; dispatches, uploads and read-backs in the order they were asked for."""

import struct
from threading import RLock
from time import perf_counter
from typing import NamedTuple

from ..program import Caps, Program, Step, Window
from . import binding, budget, faults, handing, late, loop, refusal, rereads, ring, spares, tape, transfer
from .blocks import Block, unbroken
from .buffers import USAGE, Pool
from .clock import Clock
from .errors import BindingTooLarge, DeviceError, DeviceLost, NoBuffer
from .native import NULL, checked, classify, error_handler, ffi, lib, raise_interrupt, when_mapped
from .pipelines import Pipeline, Pipelines

# The first batch after a wait is short so that the GPU starts at once; later ones grow so that submits are few.
FIRST_BATCH = 16
LARGEST_BATCH = 256
# The first dispatch of so many workgroups after a wait is submitted at once: the GPU would idle while the calls after
# it are recorded. For less, the submit takes longer than the work. The batch after it is short, and each one a little
# longer than the one before: where a GPU takes as long for a call as the host, what it has not begun at the end counts
# as much as the submits do, and both then go with the root of the number of calls.
LARGE = 256
LARGE_BATCH = 4
LARGE_MORE = 4
# Seconds after which a batch for a GPU is submitted however short it is, and by how much that grows with each: where
# calls take long to make, counting them would leave half of the work for the end.
FIRST_SPAN = 1e-3
MORE_SPAN = 1e-4
# Seconds for which a wait asks a GPU again and again: to be woken takes 40 to 60 us more. A software adapter needs the
# core for the work itself.
SPIN = 2e-2
ASKS = 100  # at a time: a signal's handler waits for so long
_NEVER = 1 << 62
ARENA_BYTES = 1 << 20

_pack, _ENTRY_BYTES, _BYTES_AT = loop.ENTRY.pack_into, loop.ENTRY.size, loop.BYTES_AT
_write_buffer = lib.wgpuQueueWriteBuffer
_begin_pass = lib.wgpuCommandEncoderBeginComputePass
_finish = lib.wgpuCommandEncoderFinish
_poll = lib.wgpuDevicePoll
_map_async = lib.wgpuBufferMapAsync
_mapped_range = lib.wgpuBufferGetConstMappedRange
_MAP_READ, _MAPPED = lib.WGPUMapMode_Read, lib.WGPUMapAsyncStatus_Success
_CHARS = ffi.typeof("char *")


class Recorded(NamedTuple):
    """A dispatch as it was encoded, for who watches the queue."""

    step: Step
    buffers: tuple
    params: bytes


class Queue:
    def __init__(self, device, queue, caps: Caps, pool: Pool, pipelines: Pipelines):
        self.device = device
        self.queue = queue
        self.caps = caps
        self.pool = pool
        self.pipelines = pipelines
        self.compiled: dict[Program, Pipeline] = {}  # what `pipelines` has, by the programs that were recorded
        self.lock = RLock()
        self.encoder = self.pass_ = None
        self._opened: list = []  # the pass
        self.packed = loop.Packed(LARGEST_BATCH)  # dispatches of the pass that are not encoded yet
        self.packs = loop.known()
        self.bound: Pipeline | None = None
        self.bound_params: bytes | None = None
        self.log: list = []  # the commands of the open batch, as in `refusal`
        self._looked = 0  # how many of them an upload has asked about, and the blocks of these
        self._seen: set[Block] = set()
        self.closed: list = []  # commands of batches that are ended and not yet submitted
        self.void: list = []  # what `_repeat` needs of a batch that was refused and is not yet done again
        self._alone = False  # what is recorded is submitted alone, and raises where it is refused
        self.refused: DeviceError | None = None  # to be raised at the next wait
        self.count = 0
        self.limit = FIRST_BATCH
        self.more = 0  # by which the limit grows; 0: it doubles
        gpu = caps.kind == "gpu"
        self.spin, self.asks = (SPIN, ASKS) if gpu else (0.0, 1)
        self.first_large = self.large = LARGE if gpu else _NEVER
        self.first_span = self.span = FIRST_SPAN if gpu else 1e9
        self.until = 0.0
        self._submitted = 0
        self.submits = 0
        self.bind_groups_created = 0
        self.bytes_uploaded = self.bytes_read = 0
        self.copies = 0  # commands that are no dispatch
        self.recording: list[Recorded] | None = None
        self.clock: Clock | None = None
        self.dead: str | None = None
        self.bind_groups = 0
        self.epoch = 0  # moves when a bind group or a pipeline is gone
        self.most_groups = budget.bind_groups(caps.kind)
        self._status = ffi.new("int *")
        self._map_info = when_mapped(self._status)
        self.ring = ring.Ring(self, LARGEST_BATCH)
        self._arena = None
        self._arena_used = 0
        self.watched: dict[tuple, tuple] = {}  # kernels that may report a bad index, recorded since the last look
        self._faults: Block | None = None
        self._transfer = transfer.Transfer(self)
        self._rereads = rereads.Rereads(self)
        self._hand = handing.Hand(self)
        self.spares = spares.Spares(self)
        self.hands_over = handing.pays(caps.kind)
        pool.queue = self
        pool.on_release = self.forget
        pool.log = self.log
        pipelines.on_release = self._forget_pipelines

    # -- dispatches

    def record(self, step: Step, buffers: tuple, params: bytes) -> None:
        """Adds one dispatch to the open batch. The caller has proved sizes, aliasing and limits."""
        with self.lock:
            try:
                try:
                    pipeline = self.compiled[step.program]
                    group = pipeline.groups[buffers]
                except KeyError:
                    if step.moved is not None and self._move(step, buffers):
                        return
                    pipeline, group = self._prepare(step, buffers)
                encoder = self.pass_
                if encoder is None:
                    encoder = self._begin()
                x, y, z = step.grid
                if self.packs and pipeline.immediate and params.__class__ is bytes:
                    packed = self.packed
                    at, size = packed.count * _ENTRY_BYTES, len(params)
                    _pack(packed.memory, at, pipeline.number, group, id(params) + _BYTES_AT, size, x, y, z, 0)
                    # No interrupt comes between these lines; the log holds the parameters.
                    self.log += [(step, buffers, params)]
                    packed.count += 1
                    self.count = count = self.count + 1
                else:
                    count = ring.record_at_once(self, pipeline, group, step, buffers, params)
                if pipeline.guarded:
                    faults.watch(self.watched, pipeline.name, params)
                if self.recording is not None:
                    self.recording.append(Recorded(step, buffers, params))
                    if self.clock is not None:
                        self._end_pass()  # a pass of its own for each dispatch that is timed
                if count >= self.limit:
                    self.grow()
                    self.pass_on()
                elif x * y * z >= self.large:
                    self.large, self.limit, self.more = _NEVER, LARGE_BATCH, LARGE_MORE
                    self.pass_on()
                elif perf_counter() > self.until:
                    self.span += MORE_SPAN
                    self.pass_on()
            except BaseException:
                # Perhaps an interrupt between two calls into the library: nobody knows what is bound, parameters may be
                # written that no dispatch reads, and a full batch may be left as it is.
                self.pass_ = self.bound = None
                self.ring.forget(self.count)
                raise

    def encode(self) -> None:
        """Encodes what is packed, which comes before anything else that is done to the pass, or to what it uses."""
        if self.packed.count and not self.dead:
            self.bound = None
            self.packed.encode(self._opened[0])

    tape_of, replay = tape.tape_of, tape.replay

    def record_and_wait(self, step: Step, buffers: tuple, params: bytes) -> None:
        """As record; what is wrong is raised here (WEBGPU_BLOCKING)."""
        with self.lock:
            self.record(step, buffers, params)
            self.synchronize()

    def attempt(self, step: Step, buffers: tuple, params: bytes) -> None:
        """As record, for a dispatch that the adapter may refuse: then it is raised here, and nothing has changed."""
        with self.lock:
            self.flush()
            self.raise_refused()
            self._alone = True
            try:
                self.do(step, buffers, params)
            finally:
                self._alone = False

    def do(self, what, buffers: tuple, detail) -> None:
        """A command of the log, alone."""
        with self.lock:
            if isinstance(what, Step):
                self.record(what, buffers, detail)
            else:
                getattr(self, f"_{what}")(*buffers, *detail)
            self.flush()

    def _move(self, step: Step, buffers: tuple) -> bool:
        """Copies by a command, not by a kernel, unless somebody watches kernels or this one would be refused."""
        plain = [type(b) is Block and not b.lost and b.pool is self.pool for b in buffers]
        if self.recording is not None or not all(plain):
            return False
        self._copy(*buffers, *step.moved)
        self.count += 1
        if self.count >= self.limit:
            self.grow()
            self.flush()
        return True

    def grow(self) -> None:
        """The next batch may have more dispatches than this one."""
        self.limit = min(self.count + (self.more or self.count), LARGEST_BATCH)

    def _prepare(self, step: Step, buffers: tuple):
        """What record looks up: compiles and binds what is new."""
        pipeline = self.compiled.get(step.program)
        if pipeline is None:
            pipeline = self.pipelines.find(step.program)
            if len(self.compiled) >= self.pipelines.most:  # programs of the same text, which are gone perhaps
                self.compiled.clear()
            if step.moved is None:  # what a command may do is asked about each time
                self.compiled[step.program] = pipeline
        group = pipeline.groups.get(buffers)
        return pipeline, self._bind(pipeline, buffers) if group is None else group

    def compile(self, program: Program) -> None:
        """Compiles a program before it is used, so that what is wrong with it is raised here."""
        with self.lock:
            self.pipelines.find(program)

    def _forget_pipelines(self) -> None:
        """Some are about to be released: what is recorded is submitted, which keeps them alive until it is done."""
        self.flush()
        self.compiled.clear()
        self.epoch += 1
        self.spares.clear()

    @property
    def dispatches(self) -> int:
        """Dispatches recorded since the start."""
        return self._submitted + self.count

    def _begin(self):
        if self.dead:
            raise DeviceLost(self.dead)
        if self.count >= LARGEST_BATCH:  # an interrupt came before it was submitted
            self.flush()
        timed = NULL if self.clock is None else self.clock.next_pass()
        if self.encoder is None:
            self._open()
            self.until = perf_counter() + self.span
        if not self._opened:
            self._opened.extend(map(_begin_pass, (self.encoder,), (timed,)))  # as in _close
        self.pass_ = self._opened[0]
        self.bound = None
        return self.pass_

    def _end_pass(self) -> None:
        if self._opened:
            self.encode()
            ended, self.pass_, self.bound = self._opened[0], None, None
            del self._opened[0]
            lib.wgpuComputePassEncoderEnd(ended)
            lib.wgpuComputePassEncoderRelease(ended)

    def _open_encoder(self):
        """The batch's encoder, outside any pass."""
        self._end_pass()
        if self.dead:
            raise DeviceLost(self.dead)
        if self.encoder is None:
            self._open()
        return self.encoder

    def _open(self) -> None:
        """Begins a batch. One that is closed already, before an interrupt, goes first: what is staged for it, and its
        parameters, would be written over."""
        if self.closed or self.void:
            self._submit()
        self.log.clear()
        self._seen.clear()
        self._looked = 0
        self.encoder = lib.wgpuDeviceCreateCommandEncoder(self.device, NULL)

    def fault_words(self) -> Block:
        """What kernels report bad indices in."""
        if self._faults is None:
            self._faults = Block(self.pool.create_buffer(256, USAGE), 256)
        return self._faults

    def _bind(self, pipeline: Pipeline, buffers: tuple):
        limit = self.caps.max_binding
        for buffer in buffers:
            if buffer is None:
                raise NoBuffer(f"{pipeline.name}: something without memory on the device was to be bound")
            block = buffer.block if type(buffer) is Window else buffer
            if block.lost:
                raise DeviceError(f"{pipeline.name}: {block.lost}")
            if block.pool is not self.pool and isinstance(block.pool, Pool):
                there = block.pool.index
                raise DeviceError(
                    f"{pipeline.name}: memory of device {there} cannot be used on device {self.pool.index}"
                )
            if buffer.size > limit:
                raise BindingTooLarge(
                    f"{pipeline.name}: a tensor of {buffer.size} bytes does not fit one binding "
                    f"(the adapter's limit is {limit} bytes)"
                )
        binding.check_aliases(pipeline, refusal.blocks_of(buffers))
        if self.bind_groups >= self.most_groups:
            self._drop_groups(lambda key: True)
        bound = (*buffers, self.fault_words()) if pipeline.guarded else buffers
        group = loop.address_of(binding.create_group(self.device, pipeline.layout.handle, bound))
        pipeline.groups[buffers] = group
        self.bind_groups += 1
        self.bind_groups_created += 1
        return group

    def _drop_groups(self, doomed) -> None:
        self.encode()  # what is encoded holds its bind groups
        self.epoch += 1
        self.spares.clear()
        for layout in self.pipelines.layouts.values():
            for key in [k for k in layout.groups if doomed(k)]:
                binding.release_group(layout.groups.pop(key))
                self.bind_groups -= 1

    def forget(self, blocks: list[Block]) -> None:
        """Drops the bind groups of some blocks."""
        gone = set(blocks)
        with self.lock:
            self._rereads.forget()
            self._drop_groups(lambda key: any(b in gone for b in refusal.blocks_of(key)))

    # -- submitting and waiting

    pass_on = handing.pass_on

    def flush(self) -> None:
        """Submits what is recorded. A batch that is refused is done again in parts: see `refusal`."""
        with self.lock:
            if self._hand.waiting and not self._alone:
                self._hand.wait()
            if self.encoder is not None or self.closed or self.void:
                self._submit()
            self.log.clear()

    def _submit(self) -> None:
        """An interrupt (control-C) may fall between any two calls: what is closed is kept until it is submitted."""
        if self._hand.waiting and not self._alone:
            self._hand.wait()
        if self.encoder is not None:
            self._close()
        if self.closed:
            commands, count = ffi.new("WGPUCommandBuffer[]", self.closed), len(self.closed)
            error_handler.capture("submit")
            try:
                if self.dead:
                    raise DeviceLost(self.dead)
                lib.wgpuQueueSubmit(self.queue, count, commands)
            finally:
                del self.closed[:count]  # without a call, in which an interrupt could come before it
                late = error_handler.release("submit")
            for command in commands:
                lib.wgpuCommandBufferRelease(command)
            if late is not None:
                raise classify(late[0], f"submitting a batch: {late[1]}")
        if self.void:
            self._repeat(*self.void.pop())

    def _close(self) -> None:
        """Ends the open batch and puts its commands with those to be submitted, or with those that were refused."""
        self._end_pass()
        self.ring.write()
        batch, encoder = self.count, self.encoder
        keep, finish = self.closed.extend, map(_finish, (encoder,), (NULL,))
        error_handler.capture("batch")
        try:
            # No interrupt comes between these lines, and in the one call none loses the commands.
            self.encoder = None
            self._submitted += batch
            self.submits += 1
            self.count = self.ring.used = 0
            keep(finish)
        finally:
            error = error_handler.release("batch")
            if error is None:
                self._arena_used = 0
            else:
                self.closed.pop()
                self.void.append((self.log[:], batch, *error))
        lib.wgpuCommandEncoderRelease(encoder)

    def _repeat(self, log: list, batch: int, kind: str, message: str) -> None:
        """A batch was refused: does what it can of it."""
        names = [refusal.name_of(entry[0]) for entry in log if entry.__class__ is tuple]
        name = f" ({names[-1]})" if batch == 1 and names else ""
        error = classify(kind, f"a batch of {batch} dispatches{name} was refused: {message}")
        if self._alone or isinstance(error, DeviceLost):
            raise error
        watchers = self.recording, self.clock
        self.recording = self.clock = None
        self._alone = True
        try:
            found = refusal.repeat(self, log)
            self.refused = self.refused or found
        finally:
            self._alone = False
            self.recording, self.clock = watchers
            self._arena_used = 0

    def raise_refused(self) -> None:
        """Raises what is known of refused work and not told yet."""
        if self.refused is not None:
            error, self.refused = self.refused, None
            raise error

    def synchronize(self) -> None:
        with self.lock:
            if self.watched:
                self._read_chunk(self._faults, 0, ffi.new("char[]", faults.BYTES), faults.BYTES)
                return
            self.flush()
            self.raise_refused()
            self._wait()

    def is_idle(self) -> bool:
        """All that was recorded is done. Asks, and does not wait."""
        with self.lock:
            self.flush()
            return loop.is_idle(self.device, 1)

    def _wait(self) -> None:
        self.spares.begin()
        stop = perf_counter() + self.spin
        while not loop.is_idle(self.device, self.asks):
            if perf_counter() > stop:
                _poll(self.device, 1, NULL)
                break
        self.limit, self.more = FIRST_BATCH, 0
        self.large = self.first_large
        self.span = self.first_span
        if self.dead:
            raise DeviceLost(self.dead)

    # -- copies between host and device

    read_later = late.read_later

    def _is_used(self, block: Block) -> bool:
        for entry in self.log[self._looked :]:
            if entry.__class__ is tuple:
                self._seen.update(refusal.blocks_of(entry[1]))
        self._looked = len(self.log)
        return block in self._seen

    def write(self, block: Block, offset: int, pointer, nbytes: int) -> None:
        """Host memory to a block, after everything recorded so far; offset and nbytes are multiples of four.

        `write_buffer` runs before commands that are recorded but not submitted: it is used as it is where none of
        those touches the block; a small write is staged inside the batch; a large one flushes first. A few bytes for a
        GPU are a dispatch.
        """
        with self.lock:
            if self.dead:
                raise DeviceLost(self.dead)
            if block.lost:
                raise DeviceError(block.lost)
            self.bytes_uploaded += nbytes
            if transfer.fits_parameters(self.caps, block, nbytes):
                step, params = transfer.stored(offset, bytes(ffi.buffer(ffi.cast("char *", pointer), nbytes)))
                self.record(step, (block,), params)
                return
            if self.encoder is None or self._hand.waiting:
                self.flush()  # a batch that was closed before an interrupt, or handed over, is not overtaken
            if self.encoder is not None and self._is_used(block):
                if nbytes <= ARENA_BYTES - self._arena_used:
                    self._write_staged(block, offset, pointer, nbytes)
                    return
                self.flush()
            if nbytes >= transfer.LARGE:
                self.flush()
                self._transfer.upload(block, offset, int(pointer), nbytes)
                return
            with checked(f"uploading {nbytes} bytes"):
                _write_buffer(self.queue, block.handle, offset, ffi.cast("void *", pointer), nbytes)

    def _write_staged(self, block: Block, offset: int, pointer, nbytes: int) -> None:
        if self._arena is None:
            usage = lib.WGPUBufferUsage_CopySrc | lib.WGPUBufferUsage_CopyDst
            self._arena = self.pool.create_buffer(ARENA_BYTES, usage)
        at = self._arena_used
        self._arena_used = at + nbytes
        _write_buffer(self.queue, self._arena, at, ffi.cast("void *", pointer), nbytes)
        self._upload(block, at, offset, nbytes)

    def _upload(self, block: Block, at: int, offset: int, nbytes: int) -> None:
        encoder = self._open_encoder()
        self.log.append(("upload", (block,), (at, offset, nbytes)))
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, self._arena, at, block.handle, offset, nbytes)

    def copy(self, source: Block, source_offset: int, target: Block, target_offset: int, nbytes: int) -> None:
        """Device to device, byte ranges that are multiples of four and do not overlap within one block."""
        with self.lock:
            if source.lost or target.lost:
                raise DeviceError(source.lost or target.lost)
            self._copy(source, target, source_offset, target_offset, nbytes)
            self.copies += 1

    def _copy(self, source: Block, target: Block, source_offset: int, target_offset: int, nbytes: int) -> None:
        encoder = self._open_encoder()
        self.log.append(("copy", (source, target), (source_offset, target_offset, nbytes)))
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, source.handle, source_offset, target.handle, target_offset, nbytes
        )

    def clear(self, block: Block, offset: int, nbytes: int) -> None:
        with self.lock:
            if block.lost:
                raise DeviceError(block.lost)
            self._clear(block, offset, nbytes)
            self.copies += 1

    def _clear(self, block: Block, offset: int, nbytes: int) -> None:
        encoder = self._open_encoder()
        self.log.append(("clear", (block,), (offset, nbytes)))
        lib.wgpuCommandEncoderClearBuffer(encoder, block.handle, offset, nbytes)

    def read(self, block: Block, offset: int, pointer, nbytes: int) -> None:
        """A block to host memory, after everything recorded so far. Offset is a multiple of four."""
        with self.lock:
            if block.lost:
                raise DeviceError(block.lost)
            at = 0
            if nbytes >= transfer.LARGE:
                self.flush()
                self.raise_refused()
                at = nbytes - 4096 & ~3  # the rest goes the way that looks at the fault words
                self._transfer.download(block, offset, int(pointer), at)
            self._read_chunk(block, offset + at, ffi.cast(_CHARS, pointer + at), nbytes - at)
            self.bytes_read += nbytes

    def read_few(self, block: Block, offset: int, nbytes: int) -> bytes:
        """As read, for a few bytes of which others may be asked for next."""
        with self.lock:
            return self._rereads.read(block, offset, nbytes)

    def _read_chunk(self, block: Block, offset: int, target, nbytes: int) -> None:
        size = end = (nbytes + 3) & ~3
        self.raise_refused()
        watched = dict(self.watched)
        if watched:
            end += faults.BYTES
        wanted, staging = self._transfer.small_stage(end)
        encoder = self._open_encoder()
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, block.handle, offset, staging, 0, size)
        if watched:
            lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, self._faults.handle, 0, staging, size, faults.BYTES)
        self._submit()
        if self.refused is not None:  # the copies too
            self._transfer.keep(wanted, staging)
            self.raise_refused()
        status = self._status
        status[0] = 0
        error = None
        error_handler.capture("read")
        try:
            _map_async(staging, _MAP_READ, 0, end, self._map_info)
            self._wait()
        finally:
            error = error_handler.release("read")
        raise_interrupt()
        if error is not None:
            raise classify(error[0], f"reading {nbytes} bytes: {error[1]}")
        if status[0] != _MAPPED:
            raise DeviceError(f"reading {nbytes} bytes: mapping failed with status {status[0]}")
        mapped = ffi.cast(_CHARS, _mapped_range(staging, 0, end))
        ffi.memmove(target, mapped, nbytes)
        words = struct.unpack(f"<{faults.WORDS}I", ffi.buffer(mapped + size, faults.BYTES)) if watched else (0,)
        lib.wgpuBufferUnmap(staging)
        self._transfer.keep(wanted, staging)
        if watched:
            self.watched.clear()
        if words[0]:
            self.clear(self._faults, 0, faults.BYTES)
            raise faults.raised(words, watched)


unbroken.update(f.__code__ for f in (Queue._close, Queue.encode, loop.Packed.encode))
