"""Dtypes that torch's kernels for the CPU refuse: such calls are refused here too, in their words, where a kernel or a
decomposition would answer with numbers that were rounded to whole ones."""

from collections.abc import Callable
from functools import wraps

import torch

from .pointwise.promotion import common_dtype

_NAMES = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.uint16: "UInt16", torch.uint32: "UInt32", torch.uint64: "UInt64", torch.bool: "Bool",
    torch.complex32: "ComplexHalf", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip


def scalar_name(dtype: torch.dtype) -> str:
    """As torch's errors call it."""
    return _NAMES.get(dtype, str(dtype))


def _unordered() -> type[Exception]:
    one = torch.ones(1, dtype=torch.complex64, device="cpu")
    try:
        one.argmax()
    except Exception as error:
        return type(error)
    raise AssertionError("torch orders complex numbers")


UNORDERED = _unordered()  # what complex numbers are refused with where they had to have an order; TypeError since 2.15

# By operator, overload or expression: the kinds that the CPU takes (bool, integer, float, complex), and how it refuses.
ADMITTED: dict[str, tuple[str, type, str]] = {
    **{
        name: (kinds, NotImplementedError, f"\"{kernel}\" not implemented for '{{}}'")
        for kinds, kernel, names in (
            ("f", "elu_cpu", "elu"),
            ("f", "GeluKernelImpl", "gelu gelu_tanh gelu_half"),
            ("fc", "silu_cpu", "silu"),
            ("f", "mish_cpu", "mish"),
            ("f", "leaky_relu_cpu", "leaky_relu"),
            ("f", "hardswish_cpu", "hardswish"),
            ("f", "hardsigmoid_cpu", "hardsigmoid"),
            ("f", "hardshrink_cpu", "hardshrink"),
            ("f", "softshrink_check", "softshrink"),
            ("f", "softplus_cpu", "softplus"),
            ("f", "log_sigmoid_cpu", "log_sigmoid_forward"),
            ("f", "glu_cpu", "glu"),
            ("f", "prelu_cpu", "_prelu_kernel"),
            ("if", "threshold_cpu", "threshold"),
            ("f", "frac_cpu", "frac"),
            ("bif", "div_floor_cpu", "floor_divide div_floor"),
            ("bif", "div_trunc_cpu", "div_trunc"),
            ("bif", "copysign_cpu", "copysign"),
            ("fc", "lerp_kernel_tensor", "lerp"),
            ("ifc", "addcmul_cpu_out", "addcmul"),
            ("bif", "xlogy_cpu", "xlogy"),
            ("bif", "xlog1py_cpu", "special_xlog1py"),
            ("fc", "logaddexp_cpu", "logaddexp"),
            ("f", "logaddexp2_cpu", "logaddexp2"),
            ("ifc", "pow", "pow"),
            ("f", "igamma_cpu", "igamma"),
            ("f", "igammac_cpu", "igammac"),
            ("f", "nll_loss_out_frame", "nll_loss_forward"),
            ("f", "nll_loss2d_forward_out_frame", "nll_loss2d_forward"),
            ("f", "LayerNormKernelImpl", "native_layer_norm"),
            ("f", "GroupNormKernelImpl", "native_group_norm"),
            ("f", "batch_norm", "batch_norm native_batch_norm"),
            ("f", "batch_norm", "_native_batch_norm_legit _native_batch_norm_legit.no_stats"),
            ("f", "grid_sampler_2d_cpu_kernel_impl", "grid_sampler_2d"),
            ("f", "grid_sampler3d_cpu", "grid_sampler_3d"),
            ("ifc", "cross", "linalg_cross"),
            ("fc", "linalg_eigh_cpu", "_linalg_eigh"),
            ("fc", "lu_cpu", "linalg_lu linalg_lu_factor_ex"),
            *[("bif", f"{name}_cpu", name) for name in ("lt", "le", "gt", "ge")],
            ("bif", "max_all", "max"),
            ("bif", "min_all", "min"),
            ("if", "median_cpu", "median.elements"),  # both forms; of no elements the CPU takes any
            ("if", "median_out", "median.dim nanmedian.dim"),
            ("bif", "mode_cpu", "mode"),
            ("if", "kthvalue_cpu", "kthvalue"),
            ("bif", "unique", "_unique2 unique_consecutive"),
            ("bif", "unique_dim", "unique_dim unique_dim_consecutive"),
        )
        for name in names.split()
    },
    **{
        name: ("bif", UNORDERED, f"{name} not implemented for complex tensors.")
        for name in ("maximum", "minimum", "fmax", "fmin")
    },
    **dict.fromkeys(("linalg_eig", "_linalg_eigvals"), ("fc", RuntimeError, "Unknown Complex ScalarType for {}")),
    "linalg_lstsq": ("fc", RuntimeError, "This function doesn't handle types other than float and double"),
    **dict.fromkeys(
        ("linalg_pinv", "linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor"),
        ("fc", RuntimeError, "linalg.pinv: expected a tensor of float, double, cfloat or cdouble types, not {}"),
    ),
    "hardtanh": ("ifc", NotImplementedError, "Bool inputs not supported for hardtanh"),
    "relu": ("ifc", NotImplementedError, "Boolean inputs not supported for relu"),
}


def _kind(dtype: torch.dtype) -> str:
    return "c" if dtype.is_complex else "f" if dtype.is_floating_point else "b" if dtype is torch.bool else "i"


def check(name: str, dtype: torch.dtype) -> None:
    """Raises for a dtype that the CPU refuses."""
    kinds, error, words = ADMITTED[name]
    if _kind(dtype) not in kinds:
        raise error(words.format(scalar_name(dtype)))


def checked(name: str, function: Callable) -> Callable:
    """The function of an operator, checking its first tensor first."""

    @wraps(function)
    def call(*args, **kwargs):
        check(name, next(x.dtype for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)))
        return function(*args, **kwargs)

    return call if name in ADMITTED else function


def admitting(name: str, admit: Callable | None) -> Callable | None:
    """What an elementwise entry asks of its inputs, with this: which dtype they have in common."""
    if name not in ADMITTED:
        return admit

    def both(inputs: tuple) -> None:
        check(name, common_dtype(*inputs))
        if admit is not None:
            admit(inputs)

    return both
