"""Library functions of each other's results: a driver may compile the pair wrongly though each alone is right."""

import numpy as np
import pytest

from tests.device._wgsl import call


@pytest.mark.parametrize("name", ["tanh", "asinh", "atan", "asin", "atanh", "erf", "sinh", "erfinv"])
def test_of_an_exponential(name):
    x = np.linspace(-3, 0.5, 64).astype(np.float32)
    inner = call("f32_exp(a) * 0.5", "f32", ("f32", x)).view(np.float32)
    apart = call(f"f32_{name}(a)", "f32", ("f32", inner)).view(np.float32)
    together = call(f"f32_{name}(f32_exp(a) * 0.5)", "f32", ("f32", x)).view(np.float32)
    np.testing.assert_allclose(together, apart, rtol=1e-5)
