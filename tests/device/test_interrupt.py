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


HOOKS = """
    import os
    import signal
    import torch
    import webgpu_backend

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background

    def fail(*_):
        raise ZeroDivisionError

    def leaf():
        return torch.ones(3, device="webgpu", requires_grad=True)

    def of_tensor():
        x = leaf()
        x.register_hook(fail)
        return x * 2

    def after_accumulation():
        x = leaf()
        x.register_post_accumulate_grad_hook(fail)
        return x * 2

    def of_node():
        y = leaf() * 2
        y.grad_fn.register_hook(fail)
        return y

    def before_node():
        y = leaf() * 2
        y.grad_fn.register_prehook(fail)
        return y

    def of_saved():
        x = leaf()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
            return x * x

    def of_module():
        layer = torch.nn.Linear(3, 3).to("webgpu")
        layer.register_full_backward_hook(fail)
        return layer(leaf())

    for make in (of_tensor, after_accumulation, of_node, before_node, of_saved, of_module):
        for result in (make().sum(), make().sum().cpu()):
            try:
                result.backward()
            except ZeroDivisionError:
                continue
            raise AssertionError(make.__name__)
    x = leaf()
    x.register_hook(lambda _: os.kill(os.getpid(), signal.SIGINT))
    try:
        (x * 2).sum().backward()
    except KeyboardInterrupt:
        print(x.grad, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_an_interrupt_at_any_call():
    assert int(run(SCRIPT).split()[-1]) > 50


def test_exceptions_and_interrupts_in_hooks():
    """Of gradients: guards in torch ask Python for the device while the exception passes."""
    assert run(HOOKS) == "None True\n"
