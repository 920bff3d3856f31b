"""One entry of PyTorch's module database on the device against the CPU: forward, gradients of inputs and parameters,
and the buffers that the forward writes, in training and in evaluation where they differ."""

from copy import deepcopy
from types import SimpleNamespace

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .opcheck import Outcome, compare_gradients, match, run, to_device


def check(info, dtype, device="webgpu", limit=None) -> Outcome:
    outcome = Outcome(info.name, str(dtype).removeprefix("torch."), database="module")

    def samples():
        for training in (True, False) if info.train_and_eval_differ else (True,):
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
            for given in [i for i in inputs if i.forward_input is not None][:limit]:
                yield training, given

    return run(outcome, samples, lambda sample: compare(info, *sample, dtype, device))


def compare(info, training, given, dtype, device) -> bool:
    inputs = given.forward_input.args, given.forward_input.kwargs
    # Leaves on both sides: some samples make one input from another.
    arguments, options = tree_map(lambda x: to_device(x, "cpu"), inputs)
    here = tree_map(lambda x: to_device(x, device), inputs)
    try:
        theirs = make(info, given, "cpu", dtype, training)
        if info.is_lazy:
            theirs(*arguments, **options)  # the first call gives the parameters their shapes
        random = draws(deepcopy(theirs), arguments, options)
        state = deepcopy(theirs.state_dict())
        want = theirs(*arguments, **options)
    except Exception:
        return False
    ours = make(info, given, device, dtype, training)
    if info.is_lazy:
        ours(*here[0], **here[1])
    ours.load_state_dict(state)
    got = ours(*here[0], **here[1])
    match(got, want, dtype, shapes_only=random)
    if not random:
        match(dict(ours.named_buffers()), dict(theirs.named_buffers()), dtype)
        sample = SimpleNamespace(input=list(theirs.parameters()), args=arguments, kwargs=options)
        moved = SimpleNamespace(input=list(ours.parameters()), args=here[0], kwargs=here[1])
        compare_gradients(got, want, sample, moved, dtype)
    return True


def make(info, given, device, dtype, training):
    torch.manual_seed(0)
    module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
    return module.to(device).to(dtype).train(training)


def draws(module, arguments, options) -> bool:
    """Whether the CPU differs from itself under another seed."""
    answers = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            answers.append(tree_leaves(deepcopy(module)(*arguments, **options)))
    both = [(a, b) for a, b in zip(*answers) if isinstance(a, torch.Tensor)]
    return not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in both)
