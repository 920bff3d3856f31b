"""What may be one kernel, the Python around the kernels, and where Inductor finds all of it."""

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor import ir
from torch._inductor.codegen.common import (
    BackendFeature,
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.dependencies import MemoryDep
from torch._inductor.lowering import register_lowering
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata, sympy_product
from torch._inductor.virtualized import V

from .... import tensor as T
from ....plan import caps
from ...device import module
from . import random, tuning
from .kernel import Kernel
from .nodes import realized

_MADE = ("mm", "addmm", "bmm", "baddbmm", "bias_addmm")  # extern kernels that need no `out`
_ASSERTED = "assert_size_stride(buf"
_HERE = f"{__package__}.launch"


class Scheduling(SIMDScheduling):
    kernel_type = Kernel

    @classmethod
    def get_backend_features(cls, device):
        return {BackendFeature.SCAN, BackendFeature.TUPLE_REDUCTION}  # the latter: scans of several values

    def can_fuse(self, node1, node2) -> bool:
        return self._bindable(node1, node2) and not _scattered(node1, node2) and super().can_fuse(node1, node2)

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    @staticmethod
    def _bindable(node1, node2) -> bool:
        """Whether the buffers of both can be bound at once; one binding is left for faults."""
        names = set()
        for node in (node1, node2):
            names |= {d.name for d in (*node.read_writes.reads, *node.read_writes.writes)}
        return len(names) <= caps().max_bindings - 1

    def define_kernel(self, src_code: str, node_schedule, kernel: Kernel) -> str:
        wrapper = V.graph.wrapper_code
        if src_code in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[src_code]
        name = f"wgsl_{get_fused_kernel_name(node_schedule, 'original_aten')}_{wrapper.next_kernel_suffix()}"
        wrapper.src_to_kernel.update({src_code: name})
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        wrapper.header.splice(f"{origins}\n{detailed}")
        wrapper.header.splice(f"{name} = Compiled({name!r}, {src_code})\n")
        return name


def _scattered(node1, node2) -> bool:
    """Whether one adds to memory or writes to it here and there, and the other reads it: threads would meet."""
    real = V.graph.scheduler.mutation_real_name
    for writer, reader in ((node1, node2), (node2, node1)):
        if any(map(_meets, writer.get_nodes())):
            written = {real.get(n, n) for b in writer.get_outputs() for n in b.get_mutations()}
            if written & {real.get(d.name, d.name) for d in reader.read_writes.reads}:
                return True
    return False


def _meets(node) -> bool:
    """Whether threads of a node may write to one place: by an index, or all of them to a dimension of one."""
    if not isinstance(node, SchedulerNode):
        return False
    count = sympy_product(node.get_ranges()[0])
    stores = [d for d in node.read_writes.writes if isinstance(d, MemoryDep)]
    return any(d.mode is not None or d.is_indirect() or d.get_numel() != count for d in stores)


class _Calls(PythonWrapperCodegen):
    """The generated Python: our kernels among calls of eager operators."""

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        return _Part(subgraph_name, parent_wrapper, partition_signatures) if is_subgraph else Wrapper()

    def __init__(self, *given):
        super().__init__(*given)
        self.uploads: set[str] = set()  # arguments that are tensors of the CPU, and that kernels read

    def define_kernel(self, kernel_name, *args, **kwargs) -> None:
        """Kernels of other devices come this way: the CPU's would take a C++ compiler."""
        raise NotImplementedError(f"{kernel_name} is computed on the CPU")

    def make_allocation(self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False):
        if device.type != T.NAME:
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        if allocation_shape is not None and allocation_shape != shape:
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        sizes, strides = (self.codegen_python_shape_tuple(x) for x in (shape, stride))
        return f"{name} = empty_strided_{T.NAME}({sizes}, {strides}, {dtype})"

    def _generate_extern_kernel_out_helper(self, kernel, out, out_view, args, device, *rest, **more) -> None:
        """Our operators make their results: one that looks as it should takes the place of the buffer."""
        buffer = V.graph.get_buffer(out)
        owns = buffer is not None and not isinstance(buffer.layout, ir.NonOwningLayout)
        if device != T.NAME or out_view or not owns or kernel.rpartition(".")[2] not in _MADE:
            super()._generate_extern_kernel_out_helper(kernel, out, out_view, args, device, *rest, **more)
            return
        self.writeline(f"{out} = made({kernel}({', '.join(args)}), {out})")

    def write_assert_size_stride(self, name, size, stride, op_name, *rest) -> None:
        """Where operators lay out their results in another way than torch's descriptions of them, they are copied."""
        if name.startswith("buf"):
            self.writeline(f"{name} = laid({name}, {size}, {stride}, {op_name!r})")
        else:
            super().write_assert_size_stride(name, size, stride, op_name, *rest)

    def writeline(self, line) -> None:
        if isinstance(line, str) and line.startswith(_ASSERTED):  # torch 2.11 writes it so
            rest = line.removeprefix(_ASSERTED)
            line = f"buf{rest.partition(',')[0]} = laid(buf{rest}"
        super().writeline(line)


class _Part(_Calls, SubgraphPythonWrapperCodegen):
    """The Python of a branch, of a loop's body or of a region that is compiled once for all of its calls."""

    def generate_after_suffix(self, result) -> None:
        super().generate_after_suffix(result)
        if self.uploads:
            raise NotImplementedError(f"{self.subgraph_name} reads {', '.join(sorted(self.uploads))} on the CPU")


class Wrapper(_Calls):
    """The Python of a graph, planned as a whole."""

    def __init__(self):
        super().__init__()
        self.moved: set[str] = set()  # arguments that are copied to the device, and nothing else

    def write_header(self) -> None:
        super().write_header()
        self.imports.splice(f"from {_HERE} import Compiled, laid, made, planned, empty as empty_strided_{T.NAME}\n")

    def codegen_device_copy(self, src, dst, *rest) -> None:
        if src in V.graph.graph_inputs and _only_moved(src):
            self.moved.add(src)
        super().codegen_device_copy(src, dst, *rest)

    def generate_after_suffix(self, result) -> None:
        super().generate_after_suffix(result)
        mutated = tuple(sorted(V.graph.mutated_input_idxs))
        uploads, moved = (
            tuple(i for i, name in enumerate(V.graph.graph_inputs) if name in names)
            for names in (self.uploads, self.moved - self.uploads)
        )
        rest = f"lambda: [{', '.join(V.graph.constants)}], {tuning.asked()}"
        result.splice(f"\ncall = planned(call, {mutated!r}, {uploads!r}, {moved!r}, {rest})\n")


def _only_moved(name: str) -> bool:
    """Whether all that a graph does with an argument is to copy it to the device."""
    node = next(n for n in V.graph.graph.nodes if n.op == "placeholder" and n.target == name)
    return all(
        user.target is torch.ops.prims.device_put.default and torch.device(user.args[1]).type == T.NAME
        for user in node.users
    )


class Overrides(DeviceOpOverrides):
    """A graph is for one device, which is the current one when it runs: see `backend.fused`."""

    def device_guard(self, device_idx: int) -> str:
        return "torch._ops.contextlib.nullcontext()"

    def set_device(self, device_idx: int) -> str:
        return "pass"

    def synchronize(self) -> str:
        return f"torch.{T.NAME}.synchronize()"

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(_): return 0"


class Interface(DeviceInterface):
    """The device as Dynamo and Inductor ask for it."""

    device = module.device
    current_device = staticmethod(module.current_device)
    set_device = staticmethod(module.set_device)
    device_count = staticmethod(module.device_count)
    is_available = staticmethod(module.is_available)
    synchronize = staticmethod(module.synchronize)

    @staticmethod
    def get_device_properties(device=None):
        """As Inductor's estimates know devices; WebGPU tells no number of compute units."""
        found = module.get_device_properties(device)
        found.multi_processor_count = 128 if caps().kind == "gpu" else 8
        found.max_threads_per_multi_processor = 2048
        found.warp_size = 32
        return found

    class Worker:
        set_device = staticmethod(module.set_device)
        current_device = staticmethod(module.current_device)
        get_device_properties = staticmethod(module.get_device_properties)

    @staticmethod
    def get_raw_stream(index: int) -> int:
        return 0

    @staticmethod
    def exchange_device(index: int) -> int:
        before = module.current_device()
        if index >= 0:
            module.set_device(index)
        return before

    maybe_exchange_device = exchange_device

    @staticmethod
    def get_compute_capability(device=None) -> str:
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype in T.STORED

    @staticmethod
    def memory_allocated(device=None) -> int:
        return module.memory_allocated(device)


def _realize(x):
    x.realize()
    return x


def register() -> None:
    register_lowering(realized, type_promotion_kind=None)(_realize)
    random.register()
    register_backend_for_device(T.NAME, Scheduling, Wrapper)
    register_device_op_overrides(T.NAME, Overrides())
    register_interface_for_device(T.NAME, Interface)
