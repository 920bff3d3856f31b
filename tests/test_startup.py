"""What `import torch` and the first use of the device do, each in a process that has used nothing yet."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests import needs

# Runs each piece of code in a child forked after the imports: fresh as a new process, in a tenth of the time.
DRIVER = """
import json, os, sys, tempfile, traceback
import torch, webgpu_backend
if not hasattr(os, "fork"):
    raise SystemExit("this system cannot fork")
results = {}
for name, code in json.load(sys.stdin).items():
    with tempfile.TemporaryFile("w+") as file:
        child = os.fork()
        if not child:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                exec(compile(code, name, "exec"), {"__name__": "__main__", "torch": torch, "sys": sys, "D": "webgpu"})
                status = 0
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitpid(child, 0)[1]
        file.seek(0)
        results[name] = (status, file.read())
print(json.dumps(results))
"""

# name -> code; `torch`, `sys` and `D` are there, and nothing of the device has been used
FIRST = {
    "factory": "assert torch.randn(3, device=D).shape == (3,)",
    "full": "assert torch.full((2,), 3, device=D).tolist() == [3, 3]",
    "arange": "assert torch.arange(3, device=D).tolist() == [0, 1, 2]",
    "tensor": "assert torch.tensor([1, 2], device=D).tolist() == [1, 2]",
    "move": "assert (torch.tensor([1, 2]).to(D) + 1).tolist() == [2, 3]",
    "move by method": "assert torch.tensor([1, 2]).webgpu().tolist() == [1, 2]",
    "move complex": "assert torch.tensor([1 + 2j]).conj().to(D).tolist() == [1 - 2j]",
    "like": "assert torch.zeros_like(torch.ones(2), device=D).tolist() == [0, 0]",
    "module": """
        model = torch.nn.Linear(2, 2).to(D)
        assert model.weight.device.type == D and model(torch.ones(1, 2, device=D)).shape == (1, 2)
    """,
    "load": """
        import io
        file = io.BytesIO()
        torch.save({"w": torch.arange(3.0)}, file)
        file.seek(0)
        assert (torch.load(file, map_location=D)["w"] * 2).tolist() == [0, 2, 4]
    """,
    "generator": """
        g = torch.Generator(device=D).manual_seed(3)
        assert g.device.type == D and len(torch.rand(2, device=D, generator=g).tolist()) == 2
    """,
    "storage": """
        storage = torch.UntypedStorage(4, device=D)
        assert storage.device.type == D and storage.nbytes() == 4
        storage.resize_(8)
        assert torch.empty(0, device=D, dtype=torch.uint8).set_(storage).shape == (8,)
    """,
    "compile": """
        @torch.compile
        def f(x):
            return torch.relu(x * 2) + torch.ones(3, device=x.device)
        assert f(torch.ones(3).to(D)).tolist() == [3, 3, 3]
    """,
    "compile a factory": """
        f = torch.compile(lambda: torch.ones(3, device=D) + 1, backend="webgpu")
        assert f().tolist() == [2, 2, 2] and f().tolist() == [2, 2, 2]
    """,
    "compile with gradients": """
        w = torch.nn.Parameter(torch.ones(2, 2))
        f = torch.compile(lambda x, w: torch.nn.functional.linear(x, w).sum())
        w = torch.nn.Parameter(w.detach().to(D))
        f(torch.ones(1, 2).to(D), w).backward()
        assert w.grad.tolist() == [[1, 1], [1, 1]]
    """,
    "autocast": """
        with torch.autocast(D, dtype=torch.float16):
            assert (torch.ones(2, 2, device=D) @ torch.ones(2, 2, device=D)).dtype == torch.float16
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    """,
    "module functions": """
        import webgpu_backend
        assert torch.webgpu.is_available() is True and torch.webgpu.device_count() == 1
        assert torch.webgpu.is_initialized() is False and torch.webgpu.current_device() == 0
        torch.webgpu.manual_seed(1), torch.webgpu.manual_seed_all(2), torch.manual_seed(3), torch.webgpu.set_device(0)
        assert torch.webgpu.initial_seed() == 3 and torch.webgpu.get_rng_state().shape == (16,)
        torch.webgpu.synchronize(), torch.webgpu.empty_cache(), torch.webgpu.reset_peak_memory_stats()
        assert torch.webgpu.memory_allocated() == 0 and torch.webgpu.memory_stats() == {}
        assert isinstance(torch.webgpu.memory_summary(), str)
        torch.webgpu.current_stream().synchronize()
        with torch.webgpu.device(0), torch.webgpu.stream(torch.webgpu.Stream()):
            assert torch.webgpu.Event().query()
        assert webgpu_backend.stats()["dispatches"] == 0
        assert webgpu_backend.fallbacks() == webgpu_backend.decompositions() == {}
        webgpu_backend.reset_fallbacks()
        assert torch.webgpu.is_bf16_supported() and torch.webgpu.get_amp_supported_dtype()
        assert not [m for m in sys.modules if m.startswith(("jinja2", "webgpu_backend.ops.table"))]
    """,
    "properties": """
        free, total = torch.webgpu.mem_get_info()
        assert 0 < free <= total == torch.webgpu.get_device_properties().total_memory
        assert torch.webgpu.get_device_name()
        assert torch.float32 in torch.webgpu.get_device_capability()["supported_dtypes"]
    """,
    "profiler": """
        with torch.webgpu.profiler.profile() as prof:
            torch.ones(4, device=D).exp()
        assert prof.events
    """,
    "shader": """
        lib = torch.webgpu.compile_shader('''
            @group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1)
            fn three(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = 3.0; }''')
        y = torch.zeros(2, device=D)
        lib.three(y)
        assert y.tolist() == [3, 3]
    """,
    "accelerator": """
        a = torch.accelerator
        assert a.is_available() and a.device_count() == 1 and a.current_accelerator().type == D
        a.synchronize(), a.empty_cache(), a.set_device_index(0)
        assert a.current_device_index() == 0 and a.memory_allocated() == a.max_memory_reserved() == 0
        assert a.memory_stats() == {} and a.current_stream().query()
        assert torch.float32 in a.get_device_capability()["supported_dtypes"]
    """,
    "default device": """
        torch.set_default_device(D)
        x = torch.rand(3)
        assert x.device.type == D and torch.nn.Linear(3, 2)(x).device.type == D
        assert f"{x}".endswith("device='webgpu:0')")
    """,
    "device context": """
        with torch.device(D):
            assert torch.zeros(2).device.type == D
    """,
    "sparse": """
        x = torch.sparse_coo_tensor(size=(2, 2), device=D)
        assert x.to_dense().tolist() == [[0, 0], [0, 0]]
        y = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], device=D)
        assert y.to_dense().tolist() == [[0, 1], [2, 0]]
    """,
    "compressed sparse": """
        x = torch.sparse_csr_tensor([0, 1, 1], [0], [1.0], size=(2, 2), device=D)
        assert x.to_dense().tolist() == [[1, 0], [0, 0]]
        y = torch.empty(2, 2, layout=torch.sparse_csr, device=D)
        assert y._nnz() == 0 and y.to_dense().tolist() == [[0, 0], [0, 0]]
        try:
            x.index_select(0, torch.tensor([1], device=D))
        except NotImplementedError as error:
            assert "webgpu: compressed sparse tensors are not supported" in str(error), error
        else:
            raise AssertionError
    """,
    "gradients": """
        x = torch.ones(2, device=D).requires_grad_()
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3, 3]
    """,
    "gradients across devices": """
        x = torch.ones(2, requires_grad=True)
        (x.to(D) * 3).sum().cpu().backward()
        assert x.grad.tolist() == [3, 3]
    """,
    "no outputs": """
        x = torch.ones(2, requires_grad=True)
        used = torch.ones(2, device=D)
        for call in (lambda: torch.autograd.backward(()), lambda: torch.autograd.grad((), (x,), (), allow_unused=True)):
            call()
    """,
    "forward mode": """
        from torch.autograd import forward_ad
        with forward_ad.dual_level():
            x = forward_ad.make_dual(torch.ones(1, 2, device=D), torch.ones(1, 2, device=D))
            y = torch.nn.functional.linear(x, torch.ones(3, 2, device=D), torch.ones(3, device=D))
            assert forward_ad.unpack_dual(y).tangent.tolist() == [[2, 2, 2]]
        w = torch.ones(3, 2, device=D, requires_grad=True)
        torch.nn.functional.linear(torch.ones(1, 2, device=D), w).sum().backward()
        assert w.grad.tolist() == [[1, 1]] * 3
    """,
    "default dtype": """
        torch.set_default_dtype(torch.float16)
        assert torch.ones(2, device=D).dtype == torch.float16 and (torch.arange(2, device=D) / 2).dtype == torch.float16
    """,
    "optimizer": """
        p = torch.nn.Parameter(torch.ones(2))
        p.data = p.data.to(D)
        p.grad = torch.ones(2, device=D)
        torch.optim.SGD([p], lr=0.5).step()
        assert p.tolist() == [0.5, 0.5]
    """,
    "fake tensors": """
        from torch._subclasses import FakeTensorMode
        with FakeTensorMode():
            x = torch.ones(2, 3, device=D)
            assert torch.nn.functional.linear(x, x).shape == (2, 2) and x.device.type == D
    """,
    "data loader": """
        data = torch.utils.data.TensorDataset(torch.arange(6.0))
        loader = torch.utils.data.DataLoader(data, batch_size=3, pin_memory=True)
        assert [batch.to(D).sum().item() for (batch,) in loader] == [3, 12]
    """,
    "process group": """
        import tempfile
        import torch.distributed as dist
        store = dist.FileStore(tempfile.mktemp(), 1)
        dist.init_process_group(store=store, rank=0, world_size=1)
        x = torch.ones(2, device=D)
        dist.all_reduce(x)
        dist.barrier()
        assert x.tolist() == [1, 1]
        dist.destroy_process_group()
    """,
    "distributed data parallel": """
        import tempfile
        import torch.distributed as dist
        dist.init_process_group("gloo", store=dist.FileStore(tempfile.mktemp(), 1), rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to(D), find_unused_parameters=True)
        model(torch.ones(1, 2, device=D)).sum().backward()
        assert model.module.weight.grad.tolist() == [[1, 1], [1, 1]]
        dist.destroy_process_group()
    """,
    "fork": """
        import os
        for _ in range(2):
            child = os.fork()
            if not child:
                os._exit(0 if (torch.ones(2, device=D) + 1).tolist() == [2, 2] else 1)
            assert os.waitpid(child, 0)[1] == 0, "a child may use the device where its parent has not"
        assert (torch.ones(2, device=D) + 1).tolist() == [2, 2]
    """,
    "spawn": """
        import subprocess
        code = "import torch; assert (torch.ones(2, device='webgpu') + 1).tolist() == [2, 2]"
        subprocess.run([sys.executable, "-c", "import webgpu_backend; " + code], check=True)
    """,
    "thread": """
        import threading
        found = []
        thread = threading.Thread(target=lambda: found.append((torch.ones(2, device=D) + 1).tolist()))
        thread.start(), thread.join()
        assert found == [[2, 2]]
        x = torch.ones(2, device=D, requires_grad=True)
        x.sum().backward()
        assert x.grad.tolist() == [1, 1]
    """,
    "threads together": """
        import threading
        sys.setswitchinterval(1e-5)
        found, start = [], threading.Barrier(8)
        def use(i):
            start.wait()
            with torch.autocast(D, dtype=torch.float16, enabled=i % 2 == 0):
                x = torch.tensor([[1.0 + 2j]]).conj().to(D).real if i % 3 == 0 else torch.ones(1, 1, device=D)
                y = x @ torch.ones(1, 1, device=D)
            found.append((y.item(), y.dtype == (torch.float16 if i % 2 == 0 else torch.float32)))
        threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert found == [(1.0, True)] * 8, found
        from webgpu_backend.frontend.dispatch import registration
        assert sorted(registration._libraries) == ["aten", "webgpu_backend"]
    """,
    "operators that are not there": """
        import warnings
        from webgpu_backend.frontend.dispatch.tiers import tiers
        counts = tiers()
        assert counts["aten::mm"] == "native" and list(counts.values()).count("native") > 500
    """,
    "signal": """
        import signal
        class Stop(Exception): pass
        def stop(*_): raise Stop
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        try:
            for _ in range(10**6):
                torch.ones(2, device=D)
        except Stop:
            pass
        assert (torch.ones(2, device=D) + 1).tolist() == [2, 2] and signal.getsignal(signal.SIGALRM) is stop
    """,
}  # fmt: skip


def test_the_first_thing_that_a_program_does():
    """One test, so that workers of pytest do not each start all of these processes."""
    codes = {name: textwrap.dedent(code) for name, code in FIRST.items()}
    done = subprocess.run([sys.executable, "-c", DRIVER], input=json.dumps(codes), capture_output=True, text=True,
                          timeout=600)  # fmt: skip
    if "cannot fork" in done.stderr:
        needs.missing("this system cannot fork")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results.keys() == FIRST.keys()
    assert not (wrong := {name: output for name, (status, output) in results.items() if status}), wrong


def run(code: str, *options: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *options, "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          timeout=300, env={**os.environ, **env})  # fmt: skip


def test_importing_torch_imports_no_operator():
    done = run("""
        import sys
        import torch, webgpu_backend
        heavy = [m for m in sys.modules if m.split(".")[0] in ("wgpu", "jinja2", "cffi")]
        heavy += [m for m in sys.modules if m.startswith("webgpu_backend.ops.") and "random" not in m]
        heavy += [m for m in sys.modules if m.startswith("webgpu_backend.kernels.") and "layout" not in m]
        import threading
        print(heavy, threading.active_count())
    """)
    assert done.stdout.strip() == "[] 1", done.stdout + done.stderr


# -- switches


def test_switches_that_make_no_sense_are_told_once_each():
    nonsense = {"WEBGPU_FALLBACK": "maybe", "WEBGPU_CLASS": "tpu", "WEBGPU_MEMORY_LIMIT": "lots",
                "WEBGPU_BASELINE": "perhaps"}  # fmt: skip
    done = run("""
        import torch, webgpu_backend
        from webgpu_backend import env
        print(env.FALLBACK, repr(env.CLASS), env.MEMORY_LIMIT, env.BASELINE, torch.ones(2, device="webgpu").tolist())
    """, **nonsense)  # fmt: skip
    assert done.stdout.splitlines() == ["warn '' 0 False [1.0, 1.0]"], done.stderr
    for name, value in nonsense.items():
        assert done.stderr.count(f"{name}={value!r}") == 1, done.stderr
    for allowed in ("warn, silent, error", "gpu, cpu", "512M"):
        assert allowed in done.stderr
    strict = run("import torch, webgpu_backend; print(torch.webgpu.device_count())", "-W", "error", **nonsense)
    assert strict.returncode == 0 and strict.stdout.strip() == "1", strict.stderr
    assert "WEBGPU_CLASS='tpu'" in strict.stderr


@pytest.mark.parametrize(
    "text, size",
    [("4G", 4 << 30), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("64 kb", 64 << 10), ("1t", 1 << 40), ("123", 123),
     ("", 0), (" ", 0), ("-1", 0), ("4X", 0), ("G", 0)],
)  # fmt: skip
def test_sizes(monkeypatch, text, size):
    from webgpu_backend import env

    monkeypatch.setenv("WEBGPU_MEMORY_LIMIT", text)
    told = []
    monkeypatch.setattr(env, "tell", told.append)
    assert env._size("WEBGPU_MEMORY_LIMIT", "the default") == size
    assert len(told) == (text in ("-1", "4X", "G"))
    assert all("the default is taken instead" in message for message in told)


def test_without_an_adapter():
    nowhere = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    done = run("""
        import torch, webgpu_backend
        assert torch.webgpu.is_available() is False and torch.webgpu.device_count() == 0
        assert torch.accelerator.is_available() is False and torch.accelerator.device_count() == 0
        assert torch.ones(2).sum().item() == 2
        for use in (lambda: torch.ones(2, device="webgpu"), lambda: torch.ones(2).to("webgpu"), torch.webgpu.init):
            try:
                use()
            except RuntimeError as error:
                assert "no adapter found" in str(error) and "mesa-vulkan-drivers" in str(error), error
            else:
                raise AssertionError
        print("told")
    """, **nowhere)  # fmt: skip
    assert done.stdout.strip() == "told", done.stderr


# -- a torch that is another


def test_a_torch_without_what_the_device_is_made_of():
    """`import webgpu_backend` says so, `import torch` warns and goes on."""
    done = run("""
        import torch, warnings
        del torch._C._from_dlpack
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            import webgpu_backend_autoload
            webgpu_backend_autoload.autoload()
        (warning,) = told
        assert "torch._C._from_dlpack is not there" in str(warning.message), warning.message
        try:
            import webgpu_backend
        except ImportError as error:
            assert "torch._C._from_dlpack is for tensors over the device's memory" in str(error), error
        print(torch.ones(2).sum().item())
    """, TORCH_DEVICE_BACKEND_AUTOLOAD="0", CUDA_VISIBLE_DEVICES="", PYTHONPATH=_source())  # fmt: skip
    assert done.stdout.strip() == "2.0", done.stderr


@pytest.mark.parametrize("kind, there", [
    ("CUDA", "torch.cuda.device_count = lambda: 2"),
    ("MPS", "torch.backends.mps.is_available = lambda: True"),
    ("XPU", "torch.xpu.device_count = lambda: 1"),
])  # fmt: skip
def test_beside_an_accelerator_of_torch(kind, there):
    """Programs for that one are left alone; who imports the device is told what it costs."""
    done = run(f"""
        import sys, torch, warnings, webgpu_backend_autoload
        {there}
        webgpu_backend_autoload.autoload()
        assert "webgpu_backend" not in sys.modules
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            import webgpu_backend
        (warning,) = told
        assert "gradients of {kind} tensors fail in this one" in str(warning.message), warning.message
        print(torch.ones(2, device="webgpu").sum().item())
    """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # fmt: skip
    assert done.stdout.strip() == "2.0", done.stderr


def test_a_torch_with_another_function():
    """A row that does not fit is told once, and what was there stays."""
    done = run("""
        import torch, warnings
        original = torch.autograd.graph._engine_run_backward
        def another(outputs, *, all_new):
            raise AssertionError
        torch.autograd.graph._engine_run_backward = another
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            import webgpu_backend
            x = torch.ones(2, device="webgpu", requires_grad=True)
            x.sum().backward()
        (warning,) = told
        message = str(warning.message)
        assert "torch.autograd.graph._engine_run_backward" in message and "(outputs, *, all_new)" in message, message
        assert torch.autograd.graph._engine_run_backward is another
        assert torch.autograd._engine_run_backward is original
        print(x.grad.tolist())
    """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # fmt: skip
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


def _source() -> str:
    import webgpu_backend

    return os.path.dirname(os.path.dirname(webgpu_backend.__file__))
