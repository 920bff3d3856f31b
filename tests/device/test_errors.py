"""What users see when something is wrong: the exception and words of torch, the adapter's own, and a live process."""

import subprocess
import sys
import textwrap

import pytest
import torch

import webgpu_backend
from webgpu_backend.plan import launch
from webgpu_backend.program import Program, Step
from webgpu_backend.runtime.errors import DeviceError
from webgpu_backend.runtime.gpu import gpu

HEAD = "@group(0) @binding(0) var<storage, read_write> o: array<f32>;\n@compute @workgroup_size(1)\n"


def alive():
    x = torch.arange(5.0).to("webgpu")
    assert (x + 1).cpu().tolist() == [1, 2, 3, 4, 5]


def ours(n=8):
    return torch.ones(n).to("webgpu")


def test_mixed_devices():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device.*webgpu:0 and cpu"):
        ours() + torch.ones(8)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        ours() @ torch.ones(8)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):  # before its dtype
        torch.linalg.eigh(ours(4).view(2, 2), out=(torch.empty(0, dtype=torch.int32), ours(4).view(2, 2)))
    alive()


def test_shapes():
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(8\) must match the size of tensor b \(5\)"):
        ours() + ours(5)
    with pytest.raises(RuntimeError, match=r"output with shape \[8\] doesn't match the broadcast shape \[2, 8\]"):
        ours().add_(torch.ones(2, 8).to("webgpu"))
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"):
        torch.ones(2, 3).to("webgpu") @ torch.ones(4, 5).to("webgpu")
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        ours().as_strided((9,), (1,))
    alive()


def test_dtypes():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.ones(3, dtype=torch.int64).to("webgpu").add_(1.5)
    rows = torch.ones(2, 2, device="webgpu").to_sparse_csr()
    with pytest.raises(NotImplementedError, match="webgpu: quotients of compressed sparse tensors are not supported"):
        rows / rows
    alive()


def test_written_twice():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(1, 3).to("webgpu").expand(4, 3).add_(1)


def test_overlapping_inplace_reads_before_it_writes():
    x = torch.arange(10.0)
    y = x.to("webgpu")
    y[1:].add_(y[:-1].clone())
    want = x.clone()
    want[1:] += x[:-1]
    assert torch.equal(y.cpu(), want)


def test_bad_wgsl_names_the_line():
    text = HEAD + "fn main() {\n  o[0] = 1u;\n}\n"
    with pytest.raises(DeviceError, match=r"bad_store[\s\S]*>    4 \|   o\[0\] = 1u;"):
        launch(Step(Program("bad_store", text, "w", 0), b"", (1, 1, 1)), ours())
    alive()


def test_refused_batch_raises_and_the_next_one_runs():
    text = HEAD + "fn main() { o[0] = 1.0; }\n"
    with pytest.raises(DeviceError, match="70000"):
        launch(Step(Program("too_many_groups", text, "w", 0), b"", (70000, 1, 1)), ours())  # a GPU submits it at once
        torch.webgpu.synchronize()
    alive()


def test_tensor_larger_than_a_buffer():
    huge = gpu().caps.max_buffer + 4
    with pytest.raises(torch.OutOfMemoryError, match="webgpu out of memory. Tried to allocate"):
        torch.empty(huge, dtype=torch.uint8, device="webgpu")
    alive()


def test_out_of_memory_releases_the_pool_and_the_process_goes_on():
    pool = gpu().pool
    torch.webgpu.empty_cache()
    old, pool.limit = pool.limit, pool.bytes_reserved + (64 << 20)
    try:
        held = []
        with pytest.raises(torch.OutOfMemoryError, match="allocated by tensors"):
            for _ in range(100):
                held.append(torch.zeros(1 << 20, device="webgpu"))
        assert 10 <= len(held) <= 16
        count = len(held)
        held.clear()
        # Another size class: only a released pool makes room for it.
        big = torch.zeros(count * (1 << 20) // 2, device="webgpu")
        assert big[-1].item() == 0
        alive()
    finally:
        pool.limit = old


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)


def test_lost_device_is_an_exception():
    result = run(
        """
        import torch, webgpu_backend
        from webgpu_backend.runtime.gpu import gpu
        from webgpu_backend.runtime.native import lib
        x = torch.ones(4).to("webgpu")
        torch.webgpu.synchronize()
        lib.wgpuDeviceDestroy(gpu().device._internal)
        for f in (lambda: (x + 1).cpu(), lambda: torch.ones(9).to("webgpu"), lambda: x.cpu()):
            try:
                f()
            except RuntimeError as error:
                print("raised", "lost" in str(error))
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("raised True") == 3, result.stdout


def test_fork_after_use():
    result = run(
        """
        import os, torch, webgpu_backend
        x = torch.ones(4).to("webgpu"); (x + 1).cpu()
        pid = os.fork()
        if pid == 0:
            try:
                torch.ones(4).to("webgpu")
            except RuntimeError as error:
                ok = "Cannot re-initialize webgpu in forked subprocess" in str(error)
                try:
                    x + 1
                except RuntimeError as again:
                    ok = ok and "forked" in str(again)
                os._exit(0 if ok else 1)
            os._exit(2)
        status = os.waitpid(pid, 0)[1]
        print("child", os.waitstatus_to_exitcode(status))
        print((x + 1).cpu().tolist())
        """
    )
    assert "child 0" in result.stdout and "[2.0, 2.0, 2.0, 2.0]" in result.stdout, result.stdout + result.stderr


def test_fallback_is_named_and_counted():
    code = """
        import os, warnings
        os.environ["WEBGPU_FALLBACK"] = {mode!r}
        import torch, webgpu_backend
        x = torch.eye(40).to("webgpu")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                torch.linalg.eigvals(x); torch.linalg.eigvals(x)
            except NotImplementedError as error:
                print("error:", error)
        print("warnings", len([w for w in seen if "linalg_eig" in str(w.message)]))
        print("counts", webgpu_backend.fallbacks())
        webgpu_backend.reset_fallbacks()
        print("reset", webgpu_backend.fallbacks())
    """
    warn = run(code.format(mode="warn"))
    assert "warnings 1" in warn.stdout and "linalg_eig" in warn.stdout and "reset {}" in warn.stdout, (
        warn.stdout + warn.stderr
    )
    silent = run(code.format(mode="silent"))
    assert "warnings 0" in silent.stdout and "linalg_eig" in silent.stdout, silent.stdout + silent.stderr
    error = run(code.format(mode="error"))
    assert "error: webgpu: aten::" in error.stdout and "float32[40, 40]" in error.stdout and "counts {}" in error.stdout


def test_module_reports_itself():
    result = subprocess.run([sys.executable, "-m", "webgpu_backend"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    for word in ("Adapters", "Used:", "features:", "limits:", "WEBGPU_FALLBACK", "native", webgpu_backend.__version__):
        assert word in result.stdout
