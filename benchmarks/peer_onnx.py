"""The cases of `peer_cases` as ONNX graphs."""

from functools import cache

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .peer_cases import ADD, BATCH, BLOCKS, HEADS, LENGTH, MLP, WIDTH, arrays


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.data = [], {}, arrays()

    def op(self, kind: str, *inputs: str, results: int = 1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if results == 1 else names

    def constant(self, array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.data[name])

    def linear(self, x: str, name: str) -> str:
        transposed = self.constant(self.data[f"{name}.weight"].T)
        return self.op("Add", self.op("MatMul", x, transposed), self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def model(self, result: str, shape, **inputs) -> bytes:
        for node in self.nodes:
            for i, name in enumerate(node.output):
                node.output[i] = "y" if name == result else name

        def info(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

        graph = helper.make_graph(
            self.nodes, "g", [info(n, s) for n, s in inputs.items()], [info("y", shape)], list(self.constants.values())
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def one_element(shape) -> bytes:
    graph = Graph()
    ends = (graph.constant(np.full(len(shape), n, np.int64)) for n in (0, 1))
    return graph.model(graph.op("Slice", "x", *ends), [1] * len(shape), x=shape)


def _upload(shape) -> bytes:
    graph = Graph()
    return graph.model(graph.op("Add", "x", graph.constant(np.zeros(1, np.float32))), shape, x=shape)


def _add() -> bytes:
    graph = Graph()
    return graph.model(graph.op("Add", "a", "b"), (ADD,), a=(ADD,), b=(ADD,))


def _softmax() -> bytes:
    graph = Graph()
    return graph.model(graph.op("Softmax", "a", axis=-1), (1024, 1024), a=(1024, 1024))


def _matmul(n: int) -> bytes:
    graph = Graph()
    return graph.model(graph.op("MatMul", "a", "b"), (n, n), a=(n, n), b=(n, n))


def _mlp() -> bytes:
    graph, x = Graph(), "a"
    for i in range(3):
        x = graph.op("Gemm", x, graph.weight(f"mlp{i}.weight"), graph.weight(f"mlp{i}.bias"), transB=1)
        x = graph.op("Relu", x) if i < 2 else x
    return graph.model(x, (BATCH, MLP[-1]), a=(BATCH, MLP[0]))


def _conv() -> bytes:
    graph, x = Graph(), "a"
    for i, stride in enumerate((1, 2)):
        weight, bias = graph.weight(f"conv{i}.weight"), graph.weight(f"conv{i}.bias")
        x = graph.op("Relu", graph.op("Conv", x, weight, bias, pads=[1] * 4, strides=[stride] * 2))
    x = graph.op("ReduceMean", x, graph.constant(np.array([2, 3])), keepdims=0)
    x = graph.op("Gemm", x, graph.weight("head.weight"), graph.weight("head.bias"), transB=1)
    return graph.model(x, (8, 10), a=(8, 3, 32, 32))


def _transformer() -> bytes:
    graph, x, size = Graph(), "a", WIDTH // HEADS
    heads = graph.constant(np.array([1, LENGTH, HEADS, size]))
    merged = graph.constant(np.array([1, LENGTH, WIDTH]))
    scale = graph.constant(np.array(size**-0.5, np.float32))
    for b in range(BLOCKS):
        qkv = graph.op("Split", graph.linear(graph.norm(x, f"{b}.norm1"), f"{b}.qkv"), results=3, axis=2, num_outputs=3)
        q, k, v = (graph.op("Reshape", part, heads) for part in qkv)
        q, v = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        scores = graph.op("MatMul", q, graph.op("Transpose", k, perm=[0, 2, 3, 1]))
        y = graph.op("MatMul", graph.op("Softmax", graph.op("Mul", scores, scale), axis=-1), v)
        y = graph.op("Reshape", graph.op("Transpose", y, perm=[0, 2, 1, 3]), merged)
        x = graph.op("Add", x, graph.linear(y, f"{b}.out"))
        y = graph.op("Gelu", graph.linear(graph.norm(x, f"{b}.norm2"), f"{b}.up"), approximate="tanh")
        x = graph.op("Add", x, graph.linear(y, f"{b}.down"))
    return graph.model(x, (1, LENGTH, WIDTH), a=(1, LENGTH, WIDTH))


@cache
def graphs() -> dict:
    return {
        "upload": _upload, "add": _add, "softmax": _softmax, "matmul512": lambda: _matmul(512),
        "matmul1024": lambda: _matmul(1024), "mlp": _mlp, "conv": _conv, "transformer": _transformer,
    }  # fmt: skip
