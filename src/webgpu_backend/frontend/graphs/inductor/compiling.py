"""The entry: a graph goes to Inductor, and what it refuses is replayed as it is written."""

import copy
from collections.abc import Callable

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx_inner

from ....env import tell
from ....plan import caps
from . import schedule
from .passes import Passes, before_lowering, keep_apart

_registered = False
_told: set[str] = set()


def settings() -> dict:
    """How Inductor is configured for the device."""
    # What versions have that take a repetition of elements for another order of them.
    wrong = {name: False for name in ("loop_index_inversion_in_fusion",) if hasattr(config, name)}
    return wrong | {
        "fallback_random": True,  # random numbers by eager's seed rules
        "layout_optimization": False,  # images in channels_last, which our kernels for convolutions copy
        "reorder_for_locality": False,  # which moves draws before others, on torch 2.11
        "emulate_precision_casts": True,  # values in between are rounded as stored ones
        "online_softmax": False,
        "coordinate_descent_tuning": False,  # torchao sets it: products of one row would not reach `single_rows`
        "unroll_reductions_threshold": 1,
        "cpp_wrapper": False,
        "compile_threads": 1,
        "triton.autotune_cublasLt": False,  # a choice that torch 2.11 would measure as CUDA's
        "triton.max_tiles": 1,
        "triton.mix_order_reduction": False,
        "triton.cudagraphs": False,  # every graph is replayed
        "post_grad_custom_pre_pass": Passes(before_lowering, config.post_grad_custom_pre_pass),
        "post_grad_custom_post_pass": Passes(keep_apart, config.post_grad_custom_post_pass),
        "max_pointwise_cat_inputs": 4,
        "allow_buffer_reuse": False,  # plans do it, when kernels that may be one dispatch are
        "alignment_asserts": False,  # results of one operator may be parts of one buffer, and kernels take any offset
        "score_fusion_memory_threshold": 1,  # a dispatch costs more than what is read twice
        "realize_acc_reads_threshold": min(8, caps().max_bindings - 2),
    }


def compile(original: Callable, graph: torch.fx.GraphModule, inputs: list, kwargs: dict) -> Callable:
    """Inductor's own way, with our code generator; `kwargs` are what else its entry was given."""
    global _registered
    if not _registered:
        schedule.register()
        _registered = True
    patches = {**(kwargs.pop("config_patches", None) or {}), **settings()}
    return original(graph, inputs, inner_compile=_inner, config_patches=patches, **kwargs)


def _inner(graph: torch.fx.GraphModule, inputs, **kwargs):
    """One graph, forward or backward."""
    as_written = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    try:
        return compile_fx_inner(graph, inputs, **kwargs)
    except RestartAnalysis:  # no refusal: Dynamo traces anew, with numbers that it took for symbols as constants
        raise
    except Exception as error:
        return _replayed(as_written, error)


def _replayed(graph: torch.fx.GraphModule, error: Exception):
    from functorch.compile import make_boxed_func

    from ..backend import replayed

    explain(error)
    return make_boxed_func(replayed(graph))


def explain(error: Exception, whose: str = "Inductor refuses it") -> None:
    """Says once why a graph is not compiled."""
    reason = f"{type(error).__name__}: {error}".strip().split("\n")[0][:300]
    if reason not in _told:
        _told.add(reason)
        tell(f"torch.compile replays a graph as it is written, because {whose}: {reason}")
