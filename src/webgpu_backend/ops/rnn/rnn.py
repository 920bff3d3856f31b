"""LSTM and GRU: fused cells, and layers whose steps are planned together.

torch's own decompositions are not used: they leave out the dropout between layers.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from ... import tensor as T
from ...dtypes import Unsupported
from ...kernels.rnn.rnn import plan
from ...plan import caps, launch, planned
from ..matmul.operators import addmm, column_sums, linear, mm, weight_gradient
from ..table import autocast, custom

aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
# Steps of a sequence that are planned as one: sequences of any length share the plans of so many, and what a step
# leaves for the gradient fits one binding.
_STEPS = 32


def _run(cell: str, inputs: dict, outputs: dict, rows: int, width: int) -> None:
    """One step; inputs and outputs that are None are left out."""
    if not rows * width:
        return
    given = {name: t.contiguous() for name, t in inputs.items() if t is not None}
    outputs = {name: t for name, t in outputs.items() if t is not None}
    tensors = (*given.values(), *outputs.values())
    dtype = tensors[-1].dtype
    if dtype not in _FLOATS or any(t.dtype != dtype for t in tensors):
        raise Unsupported(f"webgpu: {cell} has no kernel for {[t.dtype for t in tensors]}")
    offsets = [t.storage_offset() for t in tensors]
    launch(plan(cell, tuple(given), tuple(outputs), T.dtype_of(tensors[-1]), rows, width, offsets, caps()), *tensors)


@custom("_thnn_fused_lstm_cell", autocast="lower")
def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    rows, width = cx.shape
    new = {name: T.empty((rows, k * width), cx.dtype) for name, k in (("hy", 1), ("cy", 1), ("ws", 4))}
    inputs = {"ig": input_gates, "hg": hidden_gates, "cx": cx, "ib": input_bias, "hb": hidden_bias}
    _run("lstm", inputs, new, rows, width)
    return tuple(new.values())


@custom("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    rows, width = cx.shape
    gates, grad_cx = T.empty((rows, 4 * width), cx.dtype), T.empty((rows, width), cx.dtype)
    inputs = {"ghy": grad_hy, "gcy": grad_cy, "cx": cx, "cy": cy, "ws": workspace}
    _run("lstm_backward", inputs, {"gg": gates, "gcx": grad_cx}, rows, width)
    return gates, grad_cx, gates.sum(0) if has_bias else None


@custom("_thnn_fused_gru_cell", autocast="lower")
def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    rows, width = hx.shape
    hy, workspace = T.empty((rows, width), hx.dtype), T.empty((rows, 5 * width), hx.dtype)
    inputs = {"ig": input_gates, "hg": hidden_gates, "hx": hx, "ib": input_bias, "hb": hidden_bias}
    _run("gru", inputs, {"hy": hy, "ws": workspace}, rows, width)
    return hy, workspace


@custom("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hy, workspace, has_bias):
    rows, width = grad_hy.shape
    gi, gh = (T.empty((rows, 3 * width), grad_hy.dtype) for _ in range(2))
    grad_hx = T.empty((rows, width), grad_hy.dtype)
    _run("gru_backward", {"ghy": grad_hy, "ws": workspace}, {"gi": gi, "gh": gh, "ghx": grad_hx}, rows, width)
    return gi, gh, grad_hx, gi.sum(0) if has_bias else None, gh.sum(0) if has_bias else None


# -- sequences: all steps of a layer in one direction, over gates of the input [time, batch, gates * width]


@planned
def _lstm_steps(gates, weight, bias, backwards, kept, hx, cx):
    """Outputs and last states, then what the gradient needs where it is `kept`."""
    (rows, width), dtype, time = cx.shape, cx.dtype, len(gates)
    out = T.empty((time, rows, width), dtype)
    cells, workspace = (T.empty((time, rows, k * width), dtype) if kept else None for k in (1, 4))
    for t in _order(time, backwards):
        inputs = {"ig": gates[t], "hg": linear(hx, weight, bias), "cx": cx}
        hx, cx = T.empty((rows, width), dtype), T.empty((rows, width), dtype)
        outputs = {"hy": hx, "cy": cx, "out": out[t]}
        if kept:
            outputs |= {"ws": workspace[t], "cells": cells[t]}
        _run("lstm", inputs, outputs, rows, width)
    return out, hx, cx, cells, workspace


@planned
def _lstm_gradient(backwards, wanted, weight, hx, cx, out, cells, workspace, grad, grad_hy, grad_cy):
    """Of gates, weight, bias and states; `wanted` of the weight and the bias."""
    (rows, width), dtype, time = cx.shape, cx.dtype, len(out)
    gates = T.empty(workspace.shape, dtype)
    order = _order(time, not backwards)
    for t, before in zip(order, (*order[1:], None)):
        inputs = {
            "ghy": None if grad is None else grad[t], "ghn": grad_hy, "gcy": grad_cy,
            "cx": cx if before is None else cells[before], "cy": cells[t], "ws": workspace[t],
        }  # fmt: skip
        grad_cy = T.empty((rows, width), dtype)
        _run("lstm_backward", inputs, {"gg": gates[t], "gcx": grad_cy}, rows, width)
        grad_hy = mm(gates[t], weight)
    return gates, *_shared(gates, hx, out, backwards, wanted), grad_hy, grad_cy


@planned
def _gru_steps(gates, weight, bias, backwards, kept, hx):
    (rows, width), dtype, time = hx.shape, hx.dtype, len(gates)
    out = T.empty((time, rows, width), dtype)
    workspace = T.empty((time, rows, 5 * width), dtype) if kept else None
    for t in _order(time, backwards):
        inputs = {"ig": gates[t], "hg": linear(hx, weight, bias), "hx": hx}
        hx = T.empty((rows, width), dtype)
        _run("gru", inputs, {"hy": hx, "out": out[t], "ws": workspace[t] if kept else None}, rows, width)
    return out, hx, workspace


@planned
def _gru_gradient(backwards, wanted, weight, hx, out, workspace, grad, grad_hy):
    (rows, width), dtype, time = hx.shape, hx.dtype, len(out)
    gi, gh = (T.empty((time, rows, 3 * width), dtype) for _ in range(2))
    for t in _order(time, not backwards):
        inputs = {"ghy": None if grad is None else grad[t], "ghn": grad_hy, "ws": workspace[t]}
        carried = T.empty((rows, width), dtype)
        _run("gru_backward", inputs, {"gi": gi[t], "gh": gh[t], "ghx": carried}, rows, width)
        grad_hy = addmm(carried, gh[t], weight)
    return gi, *_shared(gh, hx, out, backwards, wanted), grad_hy


def _order(time: int, backwards: bool) -> range:
    return range(time - 1, -1, -1) if backwards else range(time)


def _shared(gates, hx, out, backwards, wanted):
    """Gradients of what all steps share, the recurrent weight and its bias, from those of its products."""
    previous = (out[1:], hx[None]) if backwards else (hx[None], out[:-1])
    return weight_gradient(torch.cat(previous), gates) if wanted[0] else None, column_sums(gates) if wanted[1] else None


def _lstm_composed(gates, weights, bias, backwards, hy, cy):
    """The same of differentiable calls; `weights` are the recurrent one and, with a projection, its own."""
    outputs = [None] * len(gates)
    for t in _order(len(gates), backwards):
        hy, cy, _ = aten._thnn_fused_lstm_cell(gates[t], F.linear(hy, weights[0], bias), cy)
        if len(weights) > 1:
            hy = F.linear(hy, weights[1])
        outputs[t] = hy
    return torch.stack(outputs), hy, cy


def _gru_composed(gates, weights, bias, backwards, hy):
    outputs = [None] * len(gates)
    for t in _order(len(gates), backwards):
        hy, _ = aten._thnn_fused_gru_cell(gates[t], F.linear(hy, weights[0], bias), hy)
        outputs[t] = hy
    return torch.stack(outputs), hy


class _Cell(NamedTuple):
    steps: Callable
    gradient: Callable
    composed: Callable


LSTM = _Cell(_lstm_steps, _lstm_gradient, _lstm_composed)
GRU = _Cell(_gru_steps, _gru_gradient, _gru_composed)


class Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cell, backwards, gates, weight, bias, *states):
        out, *rest = cell.steps(gates, weight, bias, backwards, True, *states)
        ctx.cell, ctx.backwards = cell, backwards
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gates, weight, bias, *states, out, *rest[len(states) :])
        return out, *rest[: len(states)]

    @staticmethod
    def backward(ctx, grad, *grads):
        if all([g is None for g in (grad, *grads)]):
            return (None,) * len(ctx.needs_input_grad)
        gates, weight, bias, *saved = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        batched = any([g is not None and not torch._C._has_storage(g) for g in (grad, *grads)])  # by vmap
        if torch.is_grad_enabled() or batched:
            inputs = (gates, weight, bias, *saved[: len(grads)])
            with torch.enable_grad():
                return None, None, *_differentiable(ctx.cell, ctx.backwards, inputs, wanted, (grad, *grads))
        grad = None if grad is None else grad.contiguous()
        return None, None, *ctx.cell.gradient(ctx.backwards, wanted[1:3], weight, *saved, grad, *grads)


def _differentiable(cell, backwards, inputs, wanted, grads) -> list[torch.Tensor | None]:
    """Gradients that have gradients."""
    gates, weight, bias, *states = (None if x is None else x.view_as(x) for x in inputs)  # one may be given twice
    outputs = cell.composed(gates, (weight,), bias, backwards, *states)
    chosen = [x for x, w in zip((gates, weight, bias, *states), wanted) if w]
    outputs, grads = zip(*[(y, g) for y, g in zip(outputs, grads) if g is not None])
    found = iter(torch.autograd.grad(outputs, chosen, grads, create_graph=True, allow_unused=True))
    return [next(found) if w else None for w in wanted]


# -- layers


def _direction(cell, x, own, has_biases, backwards, states):
    """A layer in one direction: its outputs [time, batch, width] and last states."""
    biases = own[2:4] if has_biases else (None, None)
    recurrent = (own[1], *own[4 if has_biases else 2 :])
    same = all(t.dtype == x.dtype for t in (*own, *states))
    composed = len(recurrent) > 1 or not same or torch._C._are_functorch_transforms_active()
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *own, *states))
    rows, most = x.shape[1] * own[0].shape[0], caps().max_binding
    steps = max(1, min(_STEPS, most // (2 * rows * x.element_size())))
    parts, outputs = x.split(steps), []
    for part in reversed(parts) if backwards else parts:
        gates = F.linear(part, own[0], biases[0])
        if composed or gates.dtype != x.dtype:  # autocast
            out, *states = cell.composed(gates, recurrent, biases[1], backwards, *states)
        elif grad:
            out, *states = Steps.apply(cell, backwards, gates, own[1], biases[1], *states)
        else:
            out, *rest = cell.steps(gates, own[1], biases[1], backwards, False, *states)
            states = rest[: len(states)]
        outputs.append(out)
    return torch.cat(outputs[::-1] if backwards else outputs) if len(outputs) > 1 else outputs[0], states


def _layers(cell, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Every layer in one or both directions; `hx` is one tensor for each state, [layers * directions, batch, width]."""
    if any(t.dtype not in _FLOATS for t in (input, *hx, *params)):
        raise Unsupported("webgpu: recurrent layers have kernels for floats only")
    if not input.numel():
        raise Unsupported("webgpu: a recurrent layer of no elements")
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    x = input.transpose(0, 1) if batch_first else input
    finals = []
    for layer in range(num_layers):
        results = []
        for direction in range(directions):
            k = layer * directions + direction
            own, states = params[k * each : (k + 1) * each], [state[k] for state in hx]
            out, final = _direction(cell, x, own, has_biases, bool(direction), states)
            results.append(out)
            finals.append(final)
        x = results[0] if directions == 1 else torch.cat(results, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    x = x.transpose(0, 1) if batch_first else x
    return (x, *(torch.stack(states) for states in zip(*finals)))


@custom("lstm.input", key="AutogradPrivateUse1")
@custom("lstm.input")
def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    return _layers(LSTM, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@custom("gru.input", key="AutogradPrivateUse1")
@custom("gru.input")
def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _layers(GRU, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


autocast("lower", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
