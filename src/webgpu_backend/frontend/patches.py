"""Everything of torch and of other packages that this one replaces, or relies on although it is private: one table.

A row says where it is, what it must look like, what takes its place (nothing, where it is only relied on), what for,
and with which releases that was seen. Rows are checked before anything is replaced. One that does not fit is told once
and left as it is; a row without which there can be no device refuses the import. The code of a replacement stands where
it belongs and is named here as `module:function` of this folder: a function from what was there to what shall be there.

`tests/pure/test_patches.py` sees to it that there is nothing beside the table.
"""

import importlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..env import tell

# When a row is checked and installed: with the package, at the device's first use, where another device than the first
# is selected, or with the module that is named.
IMPORT, SIGNALS, FIRST_USE = "import", "first use, before all else", "first use"
SELECTED = "another device than the first is selected"
MOMENTS = (IMPORT, SIGNALS, FIRST_USE, SELECTED)

TORCH = "torch 2.11 to 2.15"
WGPU = "wgpu 0.32 with cffi 2.0 and 2.1"
ACCELERATE = "accelerate 1.15"
TRANSFORMERS = "transformers 5.17 to 5.23"
SAFETENSORS = "safetensors 0.8"
LIGHTNING = "lightning 2.6"
TORCHAO = "torchao 0.18"
_AO = "torchao.quantization"


class Row(NamedTuple):
    target: str
    """The dotted name, from a module on."""
    expects: str
    """`(a, b=, **c)`: a function in Python with these parameters. `takes a b`: one that has these among others.
    `builtin`: a function in C. `class`, `property`. `has x y`: an object with these attributes. `uses x y`: a class
    whose methods name these attributes. `module:function`: that function is called with what is there, and returns
    what is wrong with it. Empty: that it is there."""
    replacement: str
    why: str
    seen: str
    when: str = IMPORT
    also: tuple[str, ...] = ()
    """Other names of the same thing."""
    everywhere: bool = False
    """Whoever has imported it by name gets the replacement too."""
    needed: bool = False
    newer: bool = False
    """The oldest of the releases do not have it yet."""


def _needed(target: str, expects: str, why: str) -> Row:
    return Row(target, expects, "", why, TORCH, needed=True)


def _relied(target: str, expects: str, why: str, seen: str = TORCH, when: str = FIRST_USE) -> Row:
    return Row(target, expects, "", why, seen, when)


def _accelerator(name: str, parameters: str, newer: bool = False) -> Row:
    module = "torch.accelerator.memory" if "memory" in name or "cache" in name else "torch.accelerator"
    also = (f"torch.accelerator.{name}",) if module.endswith("memory") else ()
    why = f"torch.accelerator.{name}, which asks C++ hooks that a backend in Python cannot supply"
    return Row(f"{module}.{name}", parameters, f"device.accelerator:{name}", why, TORCH, also=also, newer=newer)


def _inductor(target: str, expects: str, module: str = "") -> Row:
    return _relied(target, expects, "fused WGSL by Inductor", TORCH, module or target.rpartition(".")[0])


_OVERLOAD = "torch.ops.aten.add.Tensor"

ROWS: tuple[Row, ...] = (
    # -- without these there is no device
    _needed(
        "torch.utils.backend_registration._setup_privateuseone_for_python_backend",
        "(rename=, backend_module=, hook=, device_guard=)",
        "the registration of a device in Python",
    ),
    _needed("torch._C._acc.PrivateUse1Hooks", "has is_available is_built has_primary_context", "the device's hooks"),
    _needed("torch._C._acc.DeviceGuard", "has type_", "the device's guard"),
    _needed("torch._C._autograd.DeviceType.PrivateUse1", "", "the kind of device that the guard answers with"),
    _needed("torch._C.DispatchKey", "has CPU PrivateUse1 AutogradPrivateUse1 SparseCPU AutocastPrivateUse1 "
            "CompositeImplicitAutograd CompositeExplicitAutograd PythonTLSSnapshot PythonDispatcher",
            "kernels by dispatch key"),
    _needed("torch._C._from_dlpack", "builtin", "tensors over the device's memory"),
    _needed("torch._C._dynamo.guards._reinterpret_tensor", "builtin", "views of them"),
    _needed("torch._C._dynamo.guards.TensorGuards", "class", "comparing the metadata of many tensors at once"),
    _needed("torch.storage.UntypedStorage._cdata", "", "the address of a storage"),
    _needed("torch.storage.UntypedStorage.resize_", "device.storage:find_byte_count", "storages of another size"),
    _needed(f"{_OVERLOAD}._op_dk", "builtin", "torch's kernels for metadata, which are the CPU's"),
    _needed(f"{_OVERLOAD}._schema", "has name overload_name arguments returns", "registration by schema"),
    _needed("torch._C._dispatch_has_kernel_for_dispatch_key", "builtin", "the tiers of operators"),
    _needed("torch._C._has_storage", "builtin", "batches of gradients of recurrent layers"),
    _needed("torch._C._are_functorch_transforms_active", "builtin", "leaving tensors under transforms to torch"),
    _needed("torch._C._len_torch_dispatch_stack", "builtin", "calls of kernels that no mode is to see"),
    _needed("torch._C.Generator", "class", "the device's generators"),
    _needed("torch._C.Generator._cdata", "", "finding a generator's stream in a kernel"),
    # -- torch, with the import
    Row("torch.storage.UntypedStorage.__new__", "builtin", "device.storage:new",
        "storages of the device by their class, which crash without", TORCH),
    Row("torch.storage.UntypedStorage.resize_", "builtin", "device.storage:resize", "storages of another size", TORCH),
    Row("torch.storage.UntypedStorage.__getitem__", "(self, *args, **kwargs)", "device.storage:item",
        "parts of storages, which C++ finds by adding to an address", TORCH),
    Row("torch.Generator", "class", "device.rng:generator", "torch.Generator(device='webgpu')", TORCH),
    Row("torch.Stream", "class", "device.streams:stream_class", "streams of the device", TORCH),
    Row("torch.Event", "class", "device.streams:event_class", "events of the device", TORCH),
    Row("torch.Tensor.__dlpack__", "takes self stream max_version dl_device copy", "device.storage:unshared",
        "saying that the device's memory cannot be shared", TORCH),
    Row("torch.Tensor.__dlpack_device__", "(self)", "device.storage:unshared",
        "saying that the device's memory cannot be shared", TORCH),
    Row("torch.utils.dlpack.to_dlpack", "builtin", "device.storage:unshared",
        "saying that the device's memory cannot be shared", TORCH, also=("torch.to_dlpack",)),
    Row("torch.autograd.graph.save_on_cpu.__init__", "(self, pin_memory=, device_type=)", "device.storage:unpinned",
        "activations kept on the CPU with pin_memory=True, of which there is none", TORCH),
    _accelerator("synchronize", "(device=, /)"),
    _accelerator("get_device_capability", "(device=, /)"),
    _accelerator("set_device_index", "(device, /)"),
    _accelerator("current_stream", "(device=, /)"),
    _accelerator("current_device_index", "()"),
    *(
        Row(f"torch._C._accelerator_{name}", "builtin", "device.accelerator:exchange_device",
            "torch.accelerator.device_index, whose guard knows one device", TORCH)
        for name in ("exchangeDevice", "maybeExchangeDevice")
    ),
    _accelerator("empty_cache", "()"),
    _accelerator("empty_host_cache", "()", newer=True),
    _accelerator("memory_stats", "(device_index=, /)"),
    _accelerator("memory_allocated", "(device_index=, /)"),
    _accelerator("max_memory_allocated", "(device_index=, /)"),
    _accelerator("memory_reserved", "(device_index=, /)"),
    _accelerator("max_memory_reserved", "(device_index=, /)"),
    _accelerator("reset_peak_memory_stats", "(device_index=, /)"),
    _accelerator("reset_accumulated_memory_stats", "(device_index=, /)"),
    _accelerator("get_memory_info", "(device_index=, /)"),
    Row("torch.accelerator.graphs.Graph", "class", "device.capture:accelerator_graph",
        "torch.accelerator.Graph, which asks C++ hooks that a backend in Python cannot supply", TORCH,
        also=("torch.accelerator.Graph",), newer=True),
    Row("torch.distributed.distributed_c10d.Backend.backend_capability", "has get",
        "integrations.distributed:capability", "gloo for tensors of the device", TORCH,
        when="torch.distributed.distributed_c10d"),
    Row("torch.distributed.distributed_c10d.Backend.default_device_backend_map", "has get",
        "integrations.distributed:default_backend", "gloo for tensors of the device", TORCH,
        when="torch.distributed.distributed_c10d"),
    Row("torch.distributed.distributed_c10d.BackendConfig.__init__", "(self, backend)",
        "integrations.distributed:backend_config", "process groups for the device and the CPU", TORCH,
        when="torch.distributed.distributed_c10d"),
    Row("torch.distributed.distributed_c10d.irecv", "(tensor, src=, group=, tag=, group_src=)",
        "integrations.distributed:receive", "receiving from any process", TORCH,
        when="torch.distributed.distributed_c10d", everywhere=True),
    # -- torch, where another device than the first is selected
    _relied("torch.jit._builtins", "has _find_builtin _register_builtin", "torch.tensor in TorchScript", when=SELECTED),
    Row("torch.utils._device.DeviceContext.__torch_function__", "(self, func, types, args=, kwargs=)",
        "device.current:default", "the current device, where it is the default without a number", TORCH, when=SELECTED),
    *(
        Row(target, "builtin", f"device.current:{by}", "the current device, where its name comes without a number",
            TORCH, when=SELECTED)
        for target, by in (("torch.Tensor.to", "moved"), ("torch.Tensor.new_tensor", "new"), ("torch.tensor", "made"),
                           ("torch.as_tensor", "made"))
    ),
    # -- torch, at the device's first use
    Row("signal.signal", "(signalnum, handler)", "device.signals:set_handler",
        "handlers that raise while torch asks the device something, which ends the process", "Python 3.11 and 3.12",
        when=SIGNALS),
    Row("signal.getsignal", "(signalnum)", "device.signals:get_handler", "showing handlers as they were given",
        "Python 3.11 and 3.12", when=SIGNALS),
    _relied("_signal.signal", "builtin", "the handlers that are there already", "Python 3.11 and 3.12", SIGNALS),
    _relied("_thread.interrupt_main", "builtin", "a signal that comes once more", "Python 3.11 and 3.12", SIGNALS),
    Row("torch.autograd.graph._engine_run_backward", "(t_outputs, *args, **kwargs)", "device.guard:run_backward",
        "gradients on the thread that asks for them", TORCH, when=FIRST_USE,
        also=("torch.autograd._engine_run_backward",)),
    _relied("torch._C._is_multithreading_enabled", "builtin", "gradients on the thread that asks for them"),
    _relied("torch._C._set_multithreading_enabled", "builtin", "gradients on the thread that asks for them"),
    Row("torch._C._set_default_dtype", "builtin", "dispatch.world:default_dtype", "plans by default dtype", TORCH,
        when=FIRST_USE),
    Row("torch._C._set_deterministic_algorithms", "builtin", "dispatch.world:deterministic",
        "plans with and without deterministic algorithms", TORCH, when=FIRST_USE),
    Row("torch._C._set_deterministic_fill_uninitialized_memory", "builtin", "dispatch.world:filled",
        "plans that fill what nobody has written", TORCH, when=FIRST_USE),
    Row("torch.autograd.forward_ad.enter_dual_level", "()", "dispatch.forward_mode:observed", "tangents of linear",
        TORCH, when=FIRST_USE),
    Row("torch.autograd.forward_ad.exit_dual_level", "(*, level=)", "dispatch.forward_mode:observed",
        "tangents of linear", TORCH, when=FIRST_USE),
    _relied("torch.autograd.forward_ad._current_level", "", "leaving tensors with tangents to torch"),
    Row("torch.clear_autocast_cache", "builtin", "dispatch.autocast:clear_cache", "weights that are cast once", TORCH,
        when=FIRST_USE),
    _relied("torch._C._ExcludeDispatchKeyGuard", "class", "autocast"),
    _relied("torch._C.DispatchKeySet", "class", "autocast"),
    _relied("torch._C._dispatch_tls_is_dispatch_key_excluded", "builtin", "conjugated views inside of modes"),
    _relied("torch._C._dispatch_tls_set_dispatch_key_excluded", "builtin", "conjugated views inside of modes"),
    Row("torch._tensor_str._tensor_str", "(self, indent)", "integrations.printing:contents",
        "printing tensors while a plan is made", TORCH, when=FIRST_USE),
    Row("torch._tensor_str._Formatter.__init__", "(self, tensor)", "integrations.printing:formatter",
        "printing tensors of the device", TORCH, when=FIRST_USE),
    Row("torch.amp.grad_scaler.GradScaler.unscale_", "(self, optimizer)", "integrations.float64:unscale",
        "gradient scaling without float64", TORCH, when=FIRST_USE),
    _relied("torch.amp.grad_scaler.GradScaler", "uses _scale", "gradient scaling without float64"),
    _relied("torch._C._disabled_torch_function_impl", "builtin", "gradient scaling without float64"),
    Row("torch.nn.modules.transformer.TransformerEncoder.__call__", "(self, *args, **kwargs)",
        "integrations.encoder:padded", "zeros in the padded places of nn.TransformerEncoder", TORCH, when=FIRST_USE),
    Row("torch._C._conv_determine_backend_memory_format", "builtin", "graphs.fakes:conv_format",
        "strides of convolutions in graphs", TORCH, when=FIRST_USE),
    Row("torch.optim.adam._multi_tensor_adam",
        "(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, grad_scale, found_inf, *, amsgrad, "
        "has_complex, beta1, beta2, lr, weight_decay, eps, maximize, capturable, differentiable, "
        "decoupled_weight_decay)",
        "integrations.optimizers:adam", "Adam and AdamW in one kernel", TORCH, when=FIRST_USE),
    Row("torch.optim.sgd._multi_tensor_sgd",
        "(params, grads, momentum_buffer_list, grad_scale, found_inf, *, weight_decay, momentum, lr, dampening, "
        "nesterov, maximize, has_sparse_grad)",
        "integrations.optimizers:sgd", "SGD in one kernel", TORCH, when=FIRST_USE),
    *(
        Row(f"torch.nn.parallel.comm.{name}", parameters, f"integrations.parallel:{name}",
            "nn.DataParallel and its functions, which are CUDA's in C++", TORCH, when=FIRST_USE)
        for name, parameters in (
            ("broadcast", "(tensor, devices=, *, out=)"),
            ("broadcast_coalesced", "(tensors, devices, buffer_size=)"),
            ("reduce_add", "(inputs, destination=)"),
            ("scatter", "(tensor, devices=, chunk_sizes=, dim=, streams=, *, out=)"),
            ("gather", "(tensors, dim=, destination=, *, out=)"),
        )
    ),
    Row("torch.nn.parallel.distributed.DistributedDataParallel.__init__",
        "takes self module find_unused_parameters static_graph", "integrations.ddp:init",
        "DistributedDataParallel that looks for unused parameters", TORCH, when=FIRST_USE),
    Row("torch.nn.parallel.distributed.DistributedDataParallel._run_ddp_forward", "(self, *inputs, **kwargs)",
        "integrations.ddp:forward", "DistributedDataParallel that looks for unused parameters", TORCH, when=FIRST_USE),
    _relied("torch.autograd.Variable._execution_engine.queue_callback", "builtin",
            "DistributedDataParallel that looks for unused parameters"),
    _relied("torch._C._distributed_c10d", "has PythonCallbackWork Work _create_work_from_future",
            "collectives on tensors of the device", when="torch.distributed.distributed_c10d"),
    Row("torch.multiprocessing.reductions.reduce_tensor", "(tensor)", "integrations.processes:reduce_tensor",
        "tensors that go to other processes", TORCH, when=FIRST_USE),
    Row("torch.multiprocessing.reductions.reduce_storage", "(storage)", "integrations.processes:reduce_storage",
        "storages that go to other processes", TORCH, when=FIRST_USE),
    Row("torch.storage.UntypedStorage.share_memory_", "(self, *args, **kwargs)",
        "integrations.processes:share_memory", "saying that the device's memory cannot be shared", TORCH,
        when=FIRST_USE),
    _relied("torch._decomp.decomposition_table", "has get", "operators by torch's decompositions"),
    _relied("torch._prims_common.canonicalize_dim", "(rank, idx, wrap_scalar=)", "torch's rules for dimensions"),
    _relied("torch._prims_common.compute_elementwise_output_strides", "(*tensors)", "torch's rules for strides"),
    _relied("torch.utils._pytree", "has tree_map tree_flatten tree_unflatten", "tensors in lists and dictionaries"),
    _relied("torch.library.Library._destroy", "(self)", "taking a registration back"),
    _relied("torch.Tensor._is_view", "builtin", "autocast"),
    _relied("torch.Tensor._make_wrapper_subclass", "builtin", "tensors of quantized dtypes"),
    _relied("torch._utils._rebuild_qtensor",
            "(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks)",
            "tensors of quantized dtypes in files"),
    _relied("torch._C._LinAlgError", "class", "torch's errors of linear algebra"),
    _relied("torch._C._increment_version", "builtin", "versions of tensors that are written"),
    _relied("torch._C._set_conj", "builtin", "planning with conjugated tensors"),
    _relied("torch._C._set_neg", "builtin", "planning with negated tensors"),
    _relied("torch._C._dispatch_keyset_full_after", "builtin", "tensor subclasses, which see torch's composites"),
    _relied("torch._C._dispatch_get_registrations_for_dispatch_key", "builtin",
            "tensor subclasses, which see torch's composites"),
    _relied("torch._C._dispatch_get_all_op_names", "builtin", "the list of operators in the docs"),
    _relied("torch.autograd.profiler_util.EventList", "uses _use_device", "kernels in torch.profiler's tables"),
    Row("torch.nested._internal.sdpa.jagged_scaled_dot_product_attention",
        "(query, key, value, attn_mask=, dropout_p=, is_causal=, scale=, enable_gqa=)",
        "integrations.attention:jagged", "attention over jagged tensors", TORCH, when="torch.nested._internal.sdpa",
        everywhere=True),
    _relied("torch.nested._internal.nested_tensor.NestedTensor",
            "has _get_max_seqlen _maybe_max_seqlen _maybe_min_seqlen", "attention over jagged tensors",
            when="torch.nested._internal.nested_tensor"),
    _relied("torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths",
            "(values, offsets, lengths, ragged_idx=, min_seqlen=, max_seqlen=)", "attention over jagged tensors",
            when="torch.nested._internal.nested_tensor"),
    Row("torch.nn.attention.flex_attention._validate_device", "(query, key, value)", "integrations.attention:flexible",
        "FlexAttention, whose list of devices is fixed", TORCH, when="torch.nn.attention.flex_attention"),
    # -- torch.compile: replays by the backend's name; by Inductor with our code generator, which is made of its parts
    Row("torch._dynamo.backends.registry", "has register_backend", "graphs.backend:registered",
        "torch.compile(backend='webgpu')", TORCH, when="torch._dynamo.backends.registry"),
    Row("torch._dynamo.trace_rules", "has add", "graphs.backend:untraced",
        "kernels that are called between two graphs", TORCH, when="torch._dynamo.trace_rules"),
    Row("torch._dynamo.trace_rules.get_legacy_mod_inlinelist", "has cache_clear __wrapped__", "graphs.backend:traced",
        "modules that graphs are made of", TORCH, when="torch._dynamo.trace_rules"),
    Row("torch._inductor.compile_fx.compile_fx",
        "takes model_ example_inputs_", "graphs.backend:in_place_of_inductor", "torch.compile by its defaults", TORCH,
        when="torch._inductor.compile_fx", everywhere=True),
    _relied("torch._dynamo.backends.common.aot_autograd", "(**kwargs)", "torch.compile with gradients",
            when="torch._dynamo.backends.common"),
    _inductor("torch._dynamo.device_interface.DeviceInterface", "has get_device_properties"),
    _inductor("torch._dynamo.device_interface.register_interface_for_device", "(device, device_interface)"),
    _inductor("torch._dynamo.exc.RestartAnalysis", "class"),
    _inductor("torch._inductor.compile_fx.compile_fx_inner", "takes gm example_inputs"),
    _inductor("torch._inductor.config", "has patch fallback_random emulate_precision_casts max_autotune "
              "max_autotune_gemm force_disable_caches", "torch._inductor.config"),
    _inductor("torch._inductor.codegen.common.BackendFeature", "has SCAN TUPLE_REDUCTION"),
    _inductor("torch._inductor.codegen.common.CSEVariable", "class"),
    _inductor("torch._inductor.codegen.common.DeferredLine", "class"),
    _inductor("torch._inductor.codegen.common.DeviceOpOverrides", "has device_guard set_device synchronize"),
    _inductor("torch._inductor.codegen.common.IndentedBuffer", "has writeline splice indent clear getvalue"),
    _inductor("torch._inductor.codegen.common.OpOverrides", "has constant indirect_indexing"),
    _inductor("torch._inductor.codegen.common.SizeArg", "class"),
    _inductor("torch._inductor.codegen.common.TensorArg", "class"),
    _inductor("torch._inductor.codegen.common.register_backend_for_device",
              "takes device device_scheduling device_wrapper_codegen"),
    _inductor("torch._inductor.codegen.common.register_device_op_overrides", "(device, device_op_overrides)"),
    _inductor("torch._inductor.codegen.simd.SIMDKernel", "has prepare_indexing rename_indexing get_strides_of_load "
              "disable_reduction codegen_iteration_ranges_entry store_reduction swap_buffers"),
    _inductor("torch._inductor.codegen.simd.SIMDScheduling", "has can_fuse define_kernel kernel_type"),
    _inductor("torch._inductor.codegen.wrapper.PythonWrapperCodegen", "has create write_header make_allocation "
              "codegen_device_copy generate_after_suffix _generate_extern_kernel_out_helper "
              "codegen_python_shape_tuple"),
    _inductor("torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen", "has generate_after_suffix"),
    _inductor("torch._inductor.custom_graph_pass.CustomGraphPass", "has uuid"),
    _inductor("torch._inductor.dependencies.MemoryDep", "has is_indirect get_numel"),
    _inductor("torch._inductor.dtype_propagation.DtypePropagationOpsHandler", "class"),
    _inductor("torch._inductor.fx_passes.post_grad.ConstructorMoverPass", "class"),
    Row("torch._inductor.fx_passes.post_grad.move_constructors_to_gpu", "(graph)",
        "graphs.backend:move_constructors", "graphs that make ranges on the CPU", TORCH,
        when="torch._inductor.fx_passes.post_grad"),
    _inductor("torch._inductor.ir.MutationLayoutSHOULDREMOVE", "class"),
    _inductor("torch._inductor.ir.NonOwningLayout", "class"),
    _inductor("torch._inductor.ir.Pointwise", "has create"),
    _inductor("torch._inductor.ir.Scan", "class"),
    _inductor("torch._inductor.lowering.register_lowering", "takes aten_fn broadcast type_promotion_kind"),
    _inductor("torch._inductor.runtime.cache_dir_utils.cache_dir", "()"),
    _inductor("torch._inductor.scheduler.SchedulerNode", "has get_ranges"),
    _inductor("torch._inductor.utils.get_bounds_index_expr", "(index)"),
    _inductor("torch._inductor.utils.get_fused_kernel_name", "(node_schedule, descriptive_names)"),
    _inductor("torch._inductor.utils.get_kernel_metadata", "(node_schedule, wrapper)"),
    _inductor("torch._inductor.utils.sympy_index_symbol", "(name)"),
    _inductor("torch._inductor.utils.sympy_product", "(it)"),
    _inductor("torch._inductor.virtualized.OpsValue", "class"),
    _inductor("torch._inductor.virtualized.V", "has graph kernel"),
    _inductor("torch._inductor.virtualized.ops", ""),
    _inductor("torch.utils._sympy.printers.ExprPrinter", "has doprint"),
    _inductor("torch.utils._sympy.symbol.SymT", "has TMP FLOAT UNBACKED_FLOAT"),
    _inductor("torch.utils._sympy.symbol.free_symbol_is_type", "(e, prefix)"),
    # -- wgpu
    Row("wgpu.backends.wgpu_native._ffi.ffi._parser.parse_type", "(self, cdecl)",
        "..runtime.ctypes_of_wgpu:quickened", "opening a device in a tenth of the time", WGPU,
        when="wgpu.backends.wgpu_native._ffi"),
    _relied("wgpu.backends.wgpu_native._ffi.ffi._parser", "has _declarations _get_type_pointer",
            "opening a device in a tenth of the time", WGPU, "wgpu.backends.wgpu_native._ffi"),
    _relied("wgpu.backends.wgpu_native._api.error_handler", "has capture release", "errors of direct calls", WGPU,
            "wgpu.backends.wgpu_native._api"),
    _relied("wgpu._classes.GPUObjectBase", "uses _internal", "handles for direct calls", WGPU, "wgpu._classes"),
    # -- packages that keep a list of the devices they know
    Row("safetensors._safetensors_rust.safe_open", "class", "integrations.packages:safe_open",
        "safetensors that are loaded to the device", SAFETENSORS, when="safetensors._safetensors_rust",
        everywhere=True),
    Row("accelerate.state.PartialState.default_device", "property", "integrations.packages:default_device",
        "the device of a script that names none", ACCELERATE, when="accelerate.state"),
    Row("accelerate.state.PartialState._prepare_backend", "takes self cpu",
        "integrations.packages:prepare_backend", "several processes", ACCELERATE, when="accelerate.state"),
    Row("accelerate.state.AcceleratorState.__init__", "takes self fsdp_plugin", "integrations.packages:sharded",
        "FSDP with accelerate", ACCELERATE, when="accelerate.state"),
    _relied("accelerate.state.AcceleratorState", "uses _mixed_precision", "FSDP with accelerate", ACCELERATE,
            "accelerate.state"),
    Row("accelerate.utils.dataclasses.FullyShardedDataParallelPlugin.__post_init__", "(self)",
        "integrations.packages:sharding_plugin", "FSDP with accelerate", ACCELERATE,
        when="accelerate.utils.dataclasses"),
    _relied("accelerate.state.PartialState._shared_state", "has get", "FSDP with accelerate", ACCELERATE,
            "accelerate.state"),
    _relied("accelerate.state.AcceleratorState._shared_state", "has get", "float16 with accelerate", ACCELERATE,
            "accelerate.state"),
    Row("accelerate.accelerator.Accelerator.__init__", "takes self mixed_precision",
        "integrations.packages:accelerator", "float16 with accelerate", ACCELERATE, when="accelerate.accelerator"),
    Row("accelerate.utils.modeling.get_max_memory", "(max_memory=)", "integrations.packages:get_max_memory",
        "models that are spread over devices", ACCELERATE, when="accelerate.utils.modeling", everywhere=True),
    Row("transformers.training_args.TrainingArguments._setup_devices", "integrations.packages:is_cached_property",
        "integrations.packages:setup_devices", "the Trainer's device", TRANSFORMERS, when="transformers.training_args"),
    Row("transformers.generation.utils.GenerationMixin._valid_auto_compile_criteria",
        "(self, model_kwargs, generation_config)", "integrations.packages:auto_compile",
        "generate() that compiles itself where the cache has a fixed size", TRANSFORMERS,
        when="transformers.generation.utils"),
    _relied("transformers.generation.configuration_utils.CompileConfig", "has to_dict _compile_all_devices",
            "generate() that compiles itself where the cache has a fixed size", TRANSFORMERS,
            "transformers.generation.configuration_utils"),
    Row("transformers.cache_utils.StaticLayer.update", "takes self key_states value_states",
        "integrations.decoding:static_update", "a cache of fixed size in fewer steps", TRANSFORMERS,
        when="transformers.cache_utils"),
    Row("transformers.masking_utils.AttentionMaskInterface._global_mapping", "has get", "integrations.decoding:masks",
        "a token's mask before a cache of fixed size", TRANSFORMERS, when="transformers.masking_utils"),
    Row("transformers.generation.utils.create_masks_for_generate",
        "takes config inputs_embeds attention_mask past_key_values", "integrations.decoding:generation_masks",
        "a token's mask before a cache of fixed size", TRANSFORMERS, when="transformers.generation.utils"),
    _relied("transformers.configuration_utils.PreTrainedConfig._attn_implementation", "property",
            "a token's mask before a cache of fixed size", TRANSFORMERS, "transformers.configuration_utils"),
    Row("transformers.integrations.sdpa_attention.use_gqa_in_sdpa", "takes attention_mask key",
        "integrations.decoding:grouped_attention", "attention of grouped heads with a mask", TRANSFORMERS,
        when="transformers.integrations.sdpa_attention"),
    Row("transformers.utils.import_utils.is_torch_bf16_gpu_available", "()", "integrations.packages:bf16_available",
        "the Trainer in bfloat16", TRANSFORMERS, when="transformers.utils.import_utils", everywhere=True),
    Row(f"{_AO}.quant_api._int4_weight_only_quantize_tensor", "(weight, config)", "integrations.torchao:int4_weights",
        "Int4WeightOnlyConfig on the device", TORCHAO, when=f"{_AO}.quant_api"),
    Row(f"{_AO}.quantize_.workflows.int8.int8_tensor.Int8Tensor", "has implements implements_torch_function "
        "_TORCH_FN_TABLE", "integrations.torchao:int8_linear", "weights of eight bits that are multiplied as they are",
        TORCHAO, when=f"{_AO}.quantize_.workflows.int8.int8_tensor"),
    Row("torchao.kernel.intmm.safe_int_mm", "(input, mat2)", "integrations.torchao:int_product",
        "products of eight bits that are multiplied as they are", TORCHAO, when="torchao.kernel.intmm",
        everywhere=True),
    _relied(f"{_AO}.quantize_.workflows.int4.int4_tile_packed_to_4d_tensor", "has Int4TilePackedTo4dTensor "
            "Int4ChooseQParamsAlgorithm MappingType _choose_qparams_affine_tinygemm _quantize_affine_tinygemm "
            "_choose_qparams_and_quantize_affine_hqq pack_tinygemm_scales_and_zeros",
            "Int4WeightOnlyConfig on the device", TORCHAO,
            f"{_AO}.quantize_.workflows.int4.int4_tile_packed_to_4d_tensor"),
    *(
        row
        for package in ("lightning.pytorch", "pytorch_lightning")
        for at in (f"{package}.trainer.connectors.accelerator_connector",)
        for row in (
            Row(f"{package}.accelerators", "has Accelerator AcceleratorRegistry", "integrations.lightning:register",
                "Trainer(accelerator='webgpu')", LIGHTNING, when=f"{package}.accelerators"),
            Row(f"{at}._AcceleratorConnector._choose_strategy", "(self)", "integrations.lightning:choose_strategy",
                "the Trainer's single-device strategy", LIGHTNING, when=at),
            Row(f"{at}._AcceleratorConnector._check_and_init_precision", "(self)",
                "integrations.lightning:init_precision", "the Trainer's mixed precision", LIGHTNING, when=at),
            Row(f"{at}._AcceleratorConnector._choose_auto_accelerator", "()",
                "integrations.lightning:choose_accelerator", "the Trainer that names no device", LIGHTNING, when=at),
            _relied(f"{at}._AcceleratorConnector",
                    "uses _num_nodes_flag _parallel_devices _precision_flag _precision_plugin_flag",
                    "the Trainer on the device", LIGHTNING, at),
        )
    ),
    *(
        row
        for package in ("lightning.fabric", "lightning_fabric")
        for at in (f"{package}.connector",)
        for row in (
            Row(f"{package}.accelerators", "has Accelerator ACCELERATOR_REGISTRY", "integrations.lightning:register",
                "Fabric(accelerator='webgpu')", LIGHTNING, when=f"{package}.accelerators"),
            Row(f"{at}._Connector._choose_strategy", "(self)", "integrations.lightning:choose_strategy",
                "Fabric's single-device strategy", LIGHTNING, when=at),
            Row(f"{at}._Connector._check_and_init_precision", "(self)",
                "integrations.lightning:init_fabric_precision", "Fabric's mixed precision", LIGHTNING, when=at),
            Row(f"{at}._Connector._choose_auto_accelerator", "()", "integrations.lightning:choose_accelerator",
                "Fabric that names no device", LIGHTNING, when=at),
            _relied(f"{at}._Connector", "uses _num_nodes_flag _parallel_devices _precision_input _precision_instance",
                    "Fabric on the device", LIGHTNING, at),
        )
    ),
)  # fmt: skip


# -- checking


def find(target: str) -> tuple[Any, str, Any]:
    """The object that has the last name of a dotted one, that name, and what is there. Imports nothing."""
    parts = target.split(".")
    owner, found = None, sys.modules.get(parts[0])
    if found is None:
        raise LookupError(f"{parts[0]} is not there")
    for i, name in enumerate(parts[1:], 2):
        owner, module = found, sys.modules.get(".".join(parts[:i]))
        try:
            found = module if module is not None else _attribute(owner, name)
        except (AttributeError, KeyError):
            raise LookupError(f"{'.'.join(parts[:i])} is not there") from None
    return owner, parts[-1], found


def _attribute(owner: Any, name: str) -> Any:
    """As it stands in a class: a property, not its value."""
    if isinstance(owner, type) and name in vars(owner):
        found = vars(owner)[name]
        return found.__func__ if isinstance(found, staticmethod) else found
    return getattr(owner, name)


def parameters(function: Any) -> str:
    """Those of a function in Python, `=` after one with a default; `builtin` for a function in C."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return "class" if isinstance(function, type) else "builtin" if callable(function) else type(function).__name__
    count, only, names = code.co_argcount, code.co_kwonlyargcount, list(code.co_varnames)
    given = len(function.__defaults__ or ())
    parts = [name + "=" * (i >= count - given) for i, name in enumerate(names[:count])]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    extra = names[count + only :]
    if code.co_flags & 4:
        parts.append(f"*{extra.pop(0)}")
    elif only:
        parts.append("*")
    parts += [name + "=" * (name in (function.__kwdefaults__ or ())) for name in names[count : count + only]]
    if code.co_flags & 8:
        parts.append(f"**{extra[0]}")
    return f"({', '.join(parts)})"


def misfit(row: Row) -> str | None:
    """What is wrong with the thing that a row names, or None."""
    try:
        found = find(row.target)[2]
    except LookupError as error:
        return None if row.newer else str(error)
    word, _, rest = row.expects.partition(" ")
    if not row.expects:
        return None
    if ":" in row.expects:
        return _load(row.expects)(found)
    if word == "has":
        missing = [name for name in rest.split() if not hasattr(found, name)]
        return f"it has no {', '.join(missing)}" if missing else None
    if word == "takes":
        taken = {name.strip("*/=") for name in parameters(found).strip("()").split(", ")}
        missing = [name for name in rest.split() if name not in taken]
        return f"it does not take {', '.join(missing)}" if missing else None
    if word == "uses":
        used = {name for f in vars(found).values() for name in getattr(getattr(f, "__code__", None), "co_names", ())}
        missing = [name for name in rest.split() if name not in used]
        return f"it does not use {', '.join(missing)}" if missing else None
    seen = "property" if isinstance(found, property) else parameters(found)
    return None if seen == row.expects else f"it is {seen}, not {row.expects}"


def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    relative = module if module.startswith(".") else f".{module}"
    return getattr(importlib.import_module(relative, __package__), function)


# -- installing


def rows(when: str) -> Iterator[Row]:
    return (row for row in ROWS if row.when == when)


def modules() -> list[str]:
    """Modules whose import rows wait for."""
    return list(dict.fromkeys(row.when for row in ROWS if row.when not in MOMENTS))


def require() -> None:
    """Refuses a torch that lacks what the device is made of."""
    for row in ROWS:
        problem = misfit(row) if row.needed else None
        if problem is not None:
            raise ImportError(
                f"webgpu_backend does not work with {_release(row)}: {row.target} is for {row.why}, and {problem} "
                f"(it was seen with {row.seen})"
            )


def apply(when: str) -> None:
    """Checks the rows of a moment and puts the replacements in."""
    for row in rows(when):
        if row.needed:
            continue
        problem = misfit(row)
        if problem is None and row.replacement:
            problem = _replace(row)
        if problem is not None:
            tell(
                f"{row.target} of {_release(row)} is not what it was in {row.seen}: {problem}. It stays as it is, and "
                f"this may not work: {row.why}"
            )


def _replace(row: Row) -> str | None:
    try:
        owner, name, original = find(row.target)
    except LookupError:  # of a row for newer releases
        return None
    try:
        new = _load(row.replacement)(original)
    except (AttributeError, KeyError, TypeError) as error:
        return repr(error)
    if new is original:  # told of the device, and otherwise as it was
        return None
    if isinstance(vars(owner).get(name) if isinstance(owner, type) else None, staticmethod):
        new = staticmethod(new)
    setattr(owner, name, new)
    for alias in row.also:
        place, _, last = alias.rpartition(".")
        setattr(find(place)[2], last, new)
    if row.everywhere:
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", {})
            if names.get(name) is original:
                names[name] = new
    return None


def _release(row: Row) -> str:
    package = row.target.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", None)
    return f"{package} {version}" if version else package
