"""LSTM and GRU: fused cells, and layers that compute the input's gates for all steps at once.

torch's own decompositions are not used: they leave out the dropout between layers.
"""

from struct import pack

import torch
from torch.nn import functional as F

from .. import tensor as T
from ..dtypes import Unsupported
from ..kernels import rnn as kernels
from ..launch import caps, launch
from .table import custom

aten = torch.ops.aten
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _run(cell: str, inputs: dict, outputs: tuple, rows: int, width: int) -> None:
    if not rows * width:
        return
    given = {name: t.contiguous() for name, t in inputs.items() if t is not None}
    dtype = outputs[0].dtype
    if dtype not in _FLOATS or any(t.dtype != dtype for t in given.values()):
        raise Unsupported(f"webgpu: {cell} has no kernel for {dtype} and {[t.dtype for t in given.values()]}")
    program, grid = kernels.plan(cell, tuple(given), T.dtype_of(outputs[0]), rows * width, caps())
    offsets = [t.storage_offset() for t in given.values()]
    launch(program, (*given.values(), *outputs), pack(f"<{2 + len(offsets)}I", rows * width, width, *offsets), grid)


@custom("_thnn_fused_lstm_cell")
def lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    rows, width = cx.shape
    new = [T.empty((rows, k * width), cx.dtype) for k in (1, 1, 4)]
    inputs = {"ig": input_gates, "hg": hidden_gates, "cx": cx, "ib": input_bias, "hb": hidden_bias}
    _run("lstm", inputs, tuple(new), rows, width)
    return tuple(new)


@custom("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    rows, width = cx.shape
    gates, grad_cx = T.empty((rows, 4 * width), cx.dtype), T.empty((rows, width), cx.dtype)
    inputs = {"ghy": grad_hy, "gcy": grad_cy, "cx": cx, "cy": cy, "ws": workspace}
    _run("lstm_backward", inputs, (gates, grad_cx), rows, width)
    return gates, grad_cx, gates.sum(0) if has_bias else None


@custom("_thnn_fused_gru_cell")
def gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    rows, width = hx.shape
    hy, workspace = T.empty((rows, width), hx.dtype), T.empty((rows, 5 * width), hx.dtype)
    inputs = {"ig": input_gates, "hg": hidden_gates, "hx": hx, "ib": input_bias, "hb": hidden_bias}
    _run("gru", inputs, (hy, workspace), rows, width)
    return hy, workspace


@custom("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hy, workspace, has_bias):
    rows, width = grad_hy.shape
    gi, gh = (T.empty((rows, 3 * width), grad_hy.dtype) for _ in range(2))
    grad_hx = T.empty((rows, width), grad_hy.dtype)
    _run("gru_backward", {"ghy": grad_hy, "ws": workspace}, (gi, gh, grad_hx), rows, width)
    return gi, gh, grad_hx, gi.sum(0) if has_bias else None, gh.sum(0) if has_bias else None


# -- layers


def _lstm_layer(gates, hidden, weights, bias):
    """Steps over gates [time, batch, 4 * width]; weights are the recurrent ones and, with a projection, its own."""
    hy, cy = hidden
    outputs = []
    for step in gates:
        hy, cy, _ = aten._thnn_fused_lstm_cell(step, F.linear(hy, weights[0], bias), cy)
        if len(weights) > 1:
            hy = F.linear(hy, weights[1])
        outputs.append(hy)
    return outputs, (hy, cy)


def _gru_layer(gates, hidden, weights, bias):
    (hy,) = hidden
    outputs = []
    for step in gates:
        hy, _ = aten._thnn_fused_gru_cell(step, F.linear(hy, weights[0], bias), hy)
        outputs.append(hy)
    return outputs, (hy,)


def _layers(step_layer, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Every layer in one or both directions; `hx` is one tensor for each state, [layers * directions, batch, width]."""
    if any(t.dtype not in _FLOATS for t in (input, *hx, *params)):
        raise Unsupported("webgpu: recurrent layers have kernels for float32, float16 and bfloat16")
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
            own = params[k * each : (k + 1) * each]
            biases = own[2:4] if has_biases else (None, None)
            recurrent = (own[1], *own[4 if has_biases else 2 :])
            gates = F.linear(x, own[0], biases[0]).unbind(0)
            hidden = tuple(state[k] for state in hx)
            outputs, final = step_layer(gates[::-1] if direction else gates, hidden, recurrent, biases[1])
            results.append(torch.stack(outputs[::-1] if direction else outputs))
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
    return _layers(_lstm_layer, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@custom("gru.input", key="AutogradPrivateUse1")
@custom("gru.input")
def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _layers(_gru_layer, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
