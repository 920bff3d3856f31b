"""FakeTensor, make_fx, export and dispatch modes see the device."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import webgpu_backend

D = "webgpu"


def test_fake_factories():
    before = webgpu_backend.stats()["dispatches"]
    with FakeTensorMode():
        x = torch.empty(3, 4, device=D)
        y = (x @ x.t()).relu().sum()
        assert y.device == torch.device(D, 0) and y.fake_device == torch.device(D, 0)
        assert nn.Linear(3, 4, device=D)(torch.ones(2, 3, device=D)).shape == (2, 4)
    assert webgpu_backend.stats()["dispatches"] == before, "nothing ran"


def test_fake_from_real():
    t = torch.ones(2, 3, device=D)
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        f = mode.from_tensor(t)
        assert (f + 1).device == torch.device(D, 0) and f.untyped_storage().nbytes() == 24
        assert f.t().stride() == (1, 3)


def targets(graph) -> list[str]:
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def test_make_fx():
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(lambda x: (x * 2).relu(), tracing_mode=mode)(torch.ones(2, device=D))
        assert targets(traced) == ["aten.mul.Tensor", "aten.relu.default"]
        assert traced(torch.full((2,), -1.0, device=D)).cpu().tolist() == [0.0, 0.0]


def test_make_fx_of_a_gradient():
    traced = make_fx(torch.func.grad(lambda x: (x * x).sum()), tracing_mode="fake")(torch.ones(3, device=D))
    assert traced(torch.full((3,), 2.0, device=D)).cpu().tolist() == [4.0] * 3


def test_export():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(D)
    x = torch.ones(2, 6, device=D)
    program = torch.export.export(net, (x,))
    assert "linear" in program.graph_module.code
    torch.testing.assert_close(program.module()(x).cpu(), net(x).cpu())


def test_dispatch_mode():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Log():
        (torch.ones(2, device=D) + 1).relu()
    assert seen[-2:] == ["aten.add.Tensor", "aten.relu.default"]


def test_subclasses():
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2, device=D).as_subclass(Mine)
    y = x + 1
    assert isinstance(y, Mine) and y.device.type == D and y.cpu().tolist() == [2.0, 2.0]
    assert nn.Buffer(torch.ones(2, device=D)).device.type == D


def test_meta_shapes_agree():
    x = torch.ones(3, 4, device=D)
    m = x.to("meta")
    assert m.device.type == "meta" and (m @ m.t()).shape == (x @ x.t()).shape
