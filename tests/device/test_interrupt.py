"""Control-C at any moment: the process lives, what was asked for before is computed, and what comes after is right."""

import subprocess
import sys
import textwrap

SCRIPT = """
    import sys
    import torch
    import webgpu_backend

    D = "webgpu"
    large = torch.arange(1 << 20, dtype=torch.float32)
    calls = stop = 0

    def interrupt(frame, event, arg):
        # Where the interpreter looks for signals: after each call into C.
        global calls
        if event == "c_return" and "webgpu_backend/runtime" in frame.f_code.co_filename.replace("\\\\", "/"):
            calls += 1
            if calls == stop:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def work(x):
        doubled = x * 2
        x[::2].add_(1)
        doubled.sum().item()
        (doubled @ x.t()).cpu()
        x.copy_(torch.ones(3, 4))
        x[torch.tensor([0, 1])]
        torch.webgpu.synchronize()
        large.to(D).cpu()

    def reached(number):
        global calls, stop
        calls, stop = 0, number
        host = torch.arange(12.0).view(3, 4)
        x = host.to(D)
        earlier = [x + i for i in range(5)]
        sys.setprofile(interrupt)
        try:
            work(x)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        for i, t in enumerate(earlier):
            assert torch.equal(t.cpu(), host + i), f"lost at call {number}"
        assert torch.allclose((host.to(D) @ host.to(D).t()).relu().cpu(), host @ host.t()), f"wrong after call {number}"
        assert torch.equal(large.to(D).cpu(), large)
        return calls >= number

    reached(0)
    count = 1
    while reached(count):
        count += 1
    print("interrupts", count - 1)
"""


def test_an_interrupt_at_any_call():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 50
