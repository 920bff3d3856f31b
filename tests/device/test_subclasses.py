"""Tensor subclasses and modes that take operators into their own hands see what they see on the CPU."""

import threading

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import webgpu_backend
from tests import needs
from webgpu_backend.frontend.dispatch import subclasses
from webgpu_backend.plan import cache

D = "webgpu"
seen: list[str] = []


class Wrapper(torch.Tensor):
    """Holds another tensor, and has no memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=inner.device, requires_grad=inner.requires_grad,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner.detach()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        plain = [tree_map(lambda t: t.inner if isinstance(t, Wrapper) else t, x) for x in (list(args), kwargs or {})]
        return tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, func(*plain[0], **plain[1]))


class Alias(torch.Tensor):
    """Has memory, and a dispatch all the same."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        with torch._C._DisableTorchDispatch():
            return tree_map(lambda t: t.as_subclass(torch.Tensor), func(*args, **(kwargs or {})))


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))


def attention(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def recurrent(function, states):
    def call(x, *parameters):
        hx = [x.new_zeros(1, 2, 4) for _ in range(states)]
        return function(x, hx if states > 1 else hx[0], list(parameters), True, 1, 0.0, False, False, False)[0]

    return call


def window(x, w):
    return torch.stft(x, 8, window=w, return_complex=True)


def sizes(*shapes):
    generator = torch.Generator().manual_seed(len(shapes))
    return [torch.randn(shape, generator=generator) for shape in shapes]


CASES = {
    "linear": (F.linear, sizes((3, 5, 4), (6, 4), (6,))),
    "matmul": (torch.matmul, sizes((3, 5, 4), (3, 4, 6))),
    "scaled_dot_product_attention": (attention, sizes((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), sizes((3, 4), (4,), (4,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), sizes((3, 4), (4,))),
    "_fused_rms_norm": (lambda x, w: torch.ops.aten._fused_rms_norm(x, [4], w, 1e-5)[0], sizes((3, 4), (4,))),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), sizes((3, 4, 2), (4,), (4,))),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), sizes((3, 4, 2, 2), (4,), (4,))),
    "stft": (window, [*sizes((2, 64)), torch.hann_window(8)]),
    "istft": (lambda x, w: torch.istft(x, 8, window=w), [window(*sizes((2, 64), (8,))), torch.hann_window(8)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), sizes((2, 3, 4, 6))),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), sizes((2, 3, 4, 4, 6))),
    "isfinite": (torch.isfinite, sizes((3, 2))),
    "isclose": (torch.isclose, sizes((3, 2), (3, 2))),
    "lstm.input": (recurrent(torch.lstm, 2), sizes((3, 2, 3), (16, 3), (16, 4), (16,), (16,))),
    "gru.input": (recurrent(torch.gru, 1), sizes((3, 2, 3), (12, 3), (12, 4), (12,), (12,))),
    "linalg_pinv": (torch.linalg.pinv, sizes((4, 4))),
    "linalg_pinv.atol_rtol_float": (lambda x: torch.linalg.pinv(x, atol=0.1), sizes((4, 4))),
    "linalg_pinv.rcond_tensor": (lambda x, r: torch.linalg.pinv(x, rcond=r.detach().abs()), sizes((4, 4), ())),
    "linalg_matrix_rank": (lambda x: torch.ops.aten.linalg_matrix_rank(x, 0.1), sizes((4, 4))),
    "linalg_matrix_rank.atol_rtol_float": (torch.linalg.matrix_rank, sizes((4, 4))),
    "linalg_matrix_rank.atol_rtol_tensor": (lambda x, a: torch.linalg.matrix_rank(x, atol=a), sizes((4, 4), ())),
    "linalg_matrix_rank.tol_tensor": (torch.linalg.matrix_rank, sizes((4, 4), ())),
}
# Not a computation; one that torch refuses to a GPU's indices, a subclass's too; and those that make sparse tensors, of
# parts that are torch's own.
ELSEWHERE = {
    "_has_compatible_shallow_copy_type", "tensor_split.tensor_indices_or_sections",
    "sparse_coo_tensor.indices", "sparse_coo_tensor.indices_size", "_sparse_coo_tensor_unsafe",
}  # fmt: skip


# Made of other operators on the CPU than on any GPU.
RECURRENT = ("lstm.input", "gru.input")


def test_every_composite_that_is_replaced_has_a_case():
    torch.empty(1, device=D)
    names = {name.removeprefix("aten::") for name in subclasses.replaced()}
    assert names == set(CASES) | ELSEWHERE


def operators(function, tensors, kind, device: str, wrapped: set[int], grad: bool):
    """What a subclass sees of a call, and of its gradient; and the values."""
    seen.clear()
    mode = kind is Log
    inputs = []
    for i, tensor in enumerate(tensors):
        tensor = tensor.detach().to(device)
        if i in wrapped and not mode:
            tensor = Wrapper(tensor) if kind is Wrapper else tensor.as_subclass(Alias)
        inputs.append(tensor.requires_grad_(grad and i < 2))
    with Log() if mode else torch.autograd.set_grad_enabled(grad):
        seen.clear()
        out = function(*inputs)
        if grad and out.requires_grad:
            seen.append("backward")
            out.abs().sum().backward()
    plain = [t.inner if isinstance(t, Wrapper) else t.detach().as_subclass(torch.Tensor) for t in (out,)]
    return list(seen), plain[0].cpu()


@pytest.mark.parametrize("kind", [Wrapper, Log])
@pytest.mark.parametrize("name", [name for name in CASES if name not in RECURRENT])
def test_a_subclass_sees_what_it_sees_on_the_cpu(name, kind):
    function, tensors = CASES[name]
    every = set(range(len(tensors)))
    for wrapped in ({0}, {len(tensors) - 1}, every) if kind is Wrapper else (set(),):
        # What is differentiated before it meets a wrapper has our gradient; that of stft's strides is wrong in torch.
        for grad in (False, True) if wrapped in (every, set()) and name != "stft" else (False,):
            expected, value = operators(function, tensors, kind, "cpu", wrapped, grad)
            with needs.float64_if_asked():  # matrix_rank's tolerance is one
                found, ours = operators(function, tensors, kind, D, wrapped, grad)
            assert found == expected, (wrapped, grad)
            torch.testing.assert_close(ours, value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_torch_s_own(name, monkeypatch):
    function, tensors = CASES[name]
    found, value = operators(function, tensors, Log, D, set(), True)
    base = name.partition(".")[0]
    composite = getattr(torch.ops.aten, base).input._op_dk
    monkeypatch.setattr(torch, base, lambda *args: composite(torch._C.DispatchKey.CompositeImplicitAutograd, *args))
    states = {"lstm": 2, "gru": 1}[base]
    expected, same = operators(recurrent(getattr(torch, base), states), tensors, Log, D, set(), True)
    assert found == expected and len(found) > 20
    assert torch.equal(value, same)


@pytest.mark.parametrize("name", ["linear", "matmul", "layer_norm"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_subclass_with_memory(name, place):
    function, tensors = CASES[name]
    expected, value = operators(function, tensors, Alias, "cpu", {place}, False)
    found, ours = operators(function, tensors, Alias, D, {place}, False)
    assert found == expected and found
    torch.testing.assert_close(ours, value, rtol=1e-4, atol=1e-4)


def test_below_autograd_the_operator_arrives_whole():
    function, tensors = CASES["linear"]
    with torch.inference_mode():
        assert operators(function, tensors, Wrapper, D, {0}, False)[0] == ["aten.linear.default"]


def test_mixed_precision_comes_first():
    x, w = (Wrapper(t.to(D)) for t in sizes((3, 4), (5, 4)))
    with torch.autocast(D, torch.float16):
        seen.clear()
        assert F.linear(x, w).dtype == torch.float16
        assert [s for s in seen if s != "aten._to_copy.default"] == ["aten.t.default", "aten.mm.default"]
        assert F.layer_norm(x.half(), (4,)).dtype == torch.float32


def test_other_devices_do_not_notice():
    """Wrappers, jagged tensors, transforms and graphs on the CPU, and several threads at once."""
    torch.empty(1, device=D)
    w = torch.randn(6, 4, requires_grad=True)
    nested = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
    assert "Linear" in F.linear(nested, w).grad_fn.name()
    assert torch.func.vmap(lambda x: F.linear(x, w))(torch.randn(3, 2, 4)).shape == (3, 2, 6)
    assert torch.compile(lambda x: x @ w.mT, backend="aot_eager")(torch.randn(2, 4)).shape == (2, 6)
    wrong = []

    def work():
        x = Wrapper(torch.randn(3, 4))
        for _ in range(50):
            if not isinstance(F.linear(x, w), Wrapper):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_counting_flops():
    from torch.utils.flop_counter import FlopCounterMode

    q = torch.randn(2, 2, 5, 4, device=D)
    with FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(q, q, q)
        F.linear(torch.randn(3, 4, device=D), torch.randn(6, 4, device=D))
    assert counter.get_total_flops() == 2 * (2 * 2 * 2 * 5 * 5 * 4) + 2 * 3 * 4 * 6
    assert not webgpu_backend.fallbacks()


class Through(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


CONJUGATING = {
    "eig": lambda a: torch.linalg.eig(a.real.contiguous())[1],
    "eigh": lambda a: torch.linalg.eigh(a @ a.mH)[0],
    "eigh of the upper half": lambda a: torch.linalg.eigvalsh(a @ a.mH, UPLO="U"),
    "pinv": lambda a: torch.linalg.pinv(a[:, :3]),
    "lstsq": lambda a: torch.linalg.lstsq(a[:, :3], a).solution,
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(5, device=a.device)),
    "ldl_solve": lambda a: torch.linalg.ldl_solve(
        *torch.linalg.ldl_factor(a @ a.mH, hermitian=True), a, hermitian=True
    ),
    "hfft": lambda a: torch.fft.hfft(a),
    "ihfft": lambda a: torch.fft.ihfft(a.real),
}


@pytest.mark.parametrize("name", CONJUGATING)
def test_kernels_that_conjugate_do_so_inside_of_modes(name):
    """Also those whose plan was made there, when they are called elsewhere."""
    a = torch.randn(5, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    wanted, given = CONJUGATING[name](a), a.to(D)
    alone = CONJUGATING[name](given).cpu()
    cache.clear()
    with Through():
        inside = CONJUGATING[name](given)
    for found in (inside, CONJUGATING[name](given)):
        torch.testing.assert_close(found.cpu(), alone, rtol=1e-5, atol=1e-5)
    if name != "eig":  # whose vectors may point the other way
        torch.testing.assert_close(alone, wanted.resolve_conj(), rtol=1e-3, atol=1e-3)
