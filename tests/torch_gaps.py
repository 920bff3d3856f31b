"""What of PyTorch's own tests does not pass here, by reason. A test is known by a part of its name and
by a pattern in its message.

BY_DESIGN: the test asserts what this device does not promise. MISSING: something is not there, and says so. WORDS: it
is refused as on the CPU, in other words or at another check.
"""

import re

# (part of the name, pattern in the message): reason; either may be empty
BY_DESIGN: dict[tuple[str, str], str] = {
    ("test_conv_backend_", "_ConvBackend"): "names the CPU's own convolution kernels",
    ("", "cannot be shared through DLPack"): "WebGPU gives no address of its memory: a BufferError says so",
    ("test_unsupported_device_error", ""): "expects the error of another backend's DLPack",
    ("test_dlpack", ""): "DLPack without an address",
    ("", "Triton"): "needs Triton",
    ("large", "OutOfMemory"): "larger than the adapter's buffers",
    ("test_stable_sort_against_numpy", "same device"): "gives an index on the CPU, which is refused",
    ("test_pin_memory_on_non_blocking_copy", ""): "memory is not pinned",
    ("test_device_capability_supported_dtypes", ""): "expects a device that lacks dtypes",
    ("test_warn_on_accumulate_grad_stream_mismatch", ""): "there is one stream",
    ("test_current_stream_query", ""): "there is one stream",
    ("test_memory_stats", "DeviceAllocator"): "asks the C++ allocator, which a device in Python has not",
    ("test_linear_cross_entropy_loss", "ULP"): "bounds the rounding of one chunked algorithm",
    ("test_topk_deterministic_tie_breaking", ""): "equal values: which of them is not promised",
    ("test_unique_dim", "not close"): "rows with NaN: the CPU leaves them where they are, here they come last",
    ("test_lazy_clone", "False is not true"): "asks whether memory is shared until it is written: it is copied at once",
    ("test_const_data_ptr", "False is not true"): "asks the same of addresses",
    ("test_broadcast_fn_map", "only implemented on CPU"): "torch has these for the CPU alone",
    ("test_current_accelerator", "privateuse1"): "asks for the name that the device had before it was named",
    ("test_grad_scaler_deprecated_warning", ""): "names of the scalers of CPU and CUDA",
    ("test_grad_scaling_state_dict", "False is not true"): "asks for torch.FloatTensor, the CPU's class",
    ("test_EmbeddingBag_per_sample_weights_and_new_offsets", "not close"): "a sum of 16-bit numbers, rounded once",
    ("test_index_reduce", "not close"): "a sum of 16-bit numbers, rounded in another order",
    ("test_scatter_reduce_prod", "not equal"): "products at one place come in an order that varies, and round by it",
    ("test_Dropout", "Scalars are not close"): "the mean of 40 draws of one seed, to 2.8 deviations",
    ("test_parallel_cow_materialize_error", "not raised"): "asks the same of threads",
    ("test_tensor_storage_type", "Storage"): "asks for the old storage classes of the CPU",
    ("test_nondeterministic_alert_put", "not raised"): "writes are in a fixed order where that is asked for",
    ("test_memory_format_nn_RMSNorm", "False is not true"): "the norm is contiguous, as CUDA's; the CPU's is composed",
    ("test_memory_format_nn_GroupNorm", "False is not true"): "torch's formula gives other devices than the CPU a "
    "contiguous input, and so a contiguous gradient",
    ("test_memory_format_nn_GroupNorm_DEV_float16", "not close"): "a sum of 16-bit numbers, rounded in another order",
    ("vmapvjpvjp_masked_softmax", "nan at"): "where all is masked, torch gives 0 in batches and NaN alone",
    ("_uint8_DEV_uint8", "RuntimeError not raised"): "bytes are interpolated as on the CPU, which the test leaves out",
    (
        "test_pinverse_DEV_float32",
        "not close",
    ): "inverts what the device draws, here an ill-conditioned matrix; no worse than the CPU does the same one",
    ("test_svd", "KeyError: 'webgpu"): "has a table of drivers for the CPU and CUDA alone",
    ("test_linalg_lstsq_input_checks", "on CUDA"): "expects CUDA's words; here they are the CPU's",
    ("test_cow_input", "should remain COW"): "asks whether memory is shared until it is written: it is copied at once",
    ("test_dtypes", "(?s)^(?!.*did not work).*are not listed"): "more dtypes are here than torch's CPU has",
    (
        "refs_native_layer_norm",
        "Dtypes .* are not equal",
    ): "statistics have the CPU's dtype, where torch's formula asks whether the device has its name",
    ("test_python_ref", "Reference result was farther"): "the kernel rounds once, torch's formula at each step",
    ("test_gradcheck_mm_SparseBS", "does not match"): "asks for the CPU's refusal of blocks; their products are here",
    (
        "test_errors_sparse_mul",
        "RuntimeError not raised",
    ): "products of columns and blocks are here, which the CPU refuses",
    ("TestSparse.test_empty_like", "does not match"): "names the backends of the CPU, CUDA and MPS",
    (
        "vmapvjp_nn_functional_conv_transpose3d",
        r"difference: 0\.000[0-9]+ .*(?s:.)*item \[2\]",
    ): "the gradient of a bias: a sum that cancels, rounded in another order",
    ("index_put_functorch", "not close"): "writes twice to one place: which value stays is not promised",
    ("test_pointwise_tag_coverage", "FileNotFoundError"): "reads torch's C++ sources, which are not beside its tests",
    (
        "test_variant_consistency_eager_nn_functional_dropout",
        "not close",
    ): "in place it draws by another formula of torch's, as on CUDA",
    ("refs_stft", "does not return a view"): "the real form of a spectrum is a tensor of its own",
    ("TestFFT.", "dtype Half|FFT doesn't support tensors of type: Half"): "16-bit transforms are CUDA's alone",
    ("TestVmap", "found at least two devices, webgpu:0 and cpu"): "a number on the CPU is a tensor there under vmap",
    (
        "_sub_DEV_complex",
        "not close",
    ): "complex infinities, which the CPU multiplies by 1 + 0i",
    (
        "_add_DEV_complex",
        "not close",
    ): "complex infinities, which the CPU multiplies by 1 + 0i",
    ("_native_batch_norm", "Shapes"): "sizes of what is not used, which torch tells by the device",
    ("_batch_norm_with_update", "Shapes"): "sizes of what is not used, which torch tells by the device",
    ("test_disable_fastpath", "two devices"): "puts a tensor of the CPU in the place of a layer's result",
    ("neg_view_nn_functional_dropout", "not close"): "in place, other numbers of the same seed are drawn",
    ("test_python_ref", "no _refs support"): "a mode of torch's tests refuses what kernels in Python call",
    ("test_fmod_remainder_by_zero_integral_DEV_int64", "not equal"): "-1 as for others; CUDA has 32 ones for some",
    ("test_jvpvjp_linalg_vander", r"difference: 0\.000[0-9]+ "): "a sum that cancels, rounded in another order",
    ("test_division_by_scalar", "not equal"): "a quotient rounded once; the CPU multiplies by the reciprocal",
    ("test_vmap_exhaustive_logspace_tensor", "is_cpu"): "a batched tensor where torch asks for a number of the CPU",
    ("test_op_has_batch_rule_logspace_tensor", "is_cpu"): "a batched tensor where torch asks for a number of the CPU",
    ("test_forward_nn_CrossEntropyLoss_DEV_float16", "not close"): "a sum of 16-bit numbers, rounded once",
    (
        "TestSparse.test_print_",
        "I got this output",
    ): "compares with stored text, of which there is none for this device",
    ("_vdot_DEV_complex", "Conj mismatch"): "the conjugate is computed at once; the CPU's is a view",
    (
        "test_jvpvjp_cumprod_DEV_float32",
        "not close",
    ): "two formulas of torch, as far apart on the CPU",
    ("test_compile_int4_mm", ""): "weights packed for CPU and CUDA kernels",
    ("test_ordered_bool_raises_topk", "not raised"): "booleans have an order here, as they have for sort",
    ("test_instancenorm_mixed_dtype_backward", "not raised"): "parameters of other floating dtypes are taken",
}
MISSING: dict[tuple[str, str], str] = {
    ("test_svd_memory_allocation", "no device kernel"): "a software adapter ends loops over that many rows",
    ("", "sparse.* tensors are not supported"): "sparse tensors: every layout is here, not all arithmetic of each",
    ("", "from the 'Sparse"): "sparse tensors: every layout is here, not all arithmetic of each",
    (
        "Sparse",
        "DispatchStub: missing kernel",
    ): "a check of indices that are said to be in order",
    ("nn_functional_linear_DEV_complex", "linear_backward does not support"): "second gradients of complex linear",
    (
        "linspace_tensor_overload",
        "INTERNAL ASSERT",
    ): "linspace from a tensor to a number in batches: torch's rule makes a "
    "number on the device, which no kernel in Python can be given",
}
WORDS: dict[tuple[str, str], str] = {
    ("test_complex_half_experimental_warning", "no warning caught"): "a warning of the CPU's that is missing here",
    ("", "does not match"): "refused in other words",
    ("", "Error not raised"): "a check of the CPU's that is missing here",
    ("", "Warning not triggered"): "a warning of the CPU's that is missing here",
}
TABLES = {"by design": BY_DESIGN, "missing": MISSING, "words": WORDS}


def reason(name: str, message: str) -> str | None:
    """Why a test does not pass, where that is known. Torch's hint how to run it names its file, which says nothing."""
    message = message.partition("\n\nTo execute this test")[0]
    for kind, table in TABLES.items():
        for (part, words), why in table.items():
            if part in name and re.search(words, message):
                return f"{kind}: {why}"
    return None
