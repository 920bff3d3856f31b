"""The models of the tests, compiled: outputs and gradients against the CPU, without a graph that Inductor refuses.

A few of them here; all with WEBGPU_ALL_MODELS=1.
"""

import os

import pytest
import torch

from tests import needs
from webgpu_backend import env
from webgpu_backend.frontend.graphs.inductor import compiling

needs.package("transformers")

from tests.models import _zoo, test_transformers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
NAMES = _zoo.ALL if os.environ.get("WEBGPU_ALL_MODELS") else ("llama", "siglip")


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward(name, monkeypatch):
    monkeypatch.setattr(env, "COMPILE", "inductor")
    torch.compiler.reset()
    compiling._told.clear()
    model, inputs, ours, moved = test_transformers.pair(name)
    compiled = torch.compile(ours)
    expected = test_transformers.compare(model, inputs, ours, compiled(**moved))
    with torch.no_grad():  # a graph of its own
        test_transformers.same_tensors(compiled(**moved), expected)
    assert not compiling._told
