"""One entry of PyTorch's optimizer database on the device against the CPU: some steps for each of its inputs, with
every implementation (loop, foreach, fused) that the optimizer has."""

from copy import deepcopy

import torch

from .opcheck import Outcome, match, run

STEPS = 4
SHAPES = ((5, 3), (7, 2), (4, 4))  # matrices: Muon takes nothing else


def check(info, dtype, device="webgpu") -> Outcome:
    outcome = Outcome(info.name, str(dtype).removeprefix("torch."), database="optim")

    def samples():
        ways = [{}, {"foreach": False}] if "foreach" in info.supported_impls else [{}]
        ways += [{way: True} for way in ("foreach", "fused") if way in info.supported_impls]
        for given in info.optim_inputs_func(device="cpu", dtype=dtype):
            for way in ways:
                yield {**given.kwargs, **way}

    return run(outcome, samples, lambda options: compare(info, options, dtype, device))


def compare(info, options, dtype, device) -> bool:
    try:
        want = train(info, options, dtype, "cpu")
    except Exception:
        return False
    match(train(info, options, dtype, device), want, dtype)
    return True


def train(info, options, dtype, device) -> list:
    """The parameters after some steps of a small regression, and the optimizer's state."""
    generator = torch.Generator().manual_seed(3)
    draw = [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES * 2]
    weights = [t.to(device).requires_grad_() for t in draw[: len(SHAPES)]]
    goals = [t.to(device) for t in draw[len(SHAPES) :]]
    optimizer = info.optim_cls(weights, **deepcopy(options))

    def closure():
        optimizer.zero_grad()
        sign = -1 if options.get("maximize") else 1  # or there is nothing to end at
        loss = sum(((w - g) ** 2 * (1 + g * g)).mean() for w, g in zip(weights, goals)) * sign
        loss.backward()
        if info.only_supports_sparse_grads:
            for w in weights:
                w.grad = w.grad.to_sparse(1)
        return loss

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    if info.step_requires_closure:
        return [w.detach() for w in weights]  # near the minimum LBFGS's own numbers are quotients of rounding errors
    state = optimizer.state_dict()["state"]
    tensors = [v for entry in state.values() for _, v in sorted(entry.items()) if isinstance(v, torch.Tensor)]
    return [w.detach() for w in weights] + tensors
