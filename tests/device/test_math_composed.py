"""Library functions of each other's results: a driver may compile the pair wrongly though each alone is right."""

import numpy as np
import pytest
import torch

from tests.device._wgsl import call


@pytest.mark.parametrize("name", ["tanh", "asinh", "atan", "asin", "atanh", "erf", "sinh", "erfinv"])
def test_of_an_exponential(name):
    x = np.linspace(-3, 0.5, 64).astype(np.float32)
    inner = call("f32_exp(a) * 0.5", "f32", ("f32", x)).view(np.float32)
    apart = call(f"f32_{name}(a)", "f32", ("f32", inner)).view(np.float32)
    together = call(f"f32_{name}(f32_exp(a) * 0.5)", "f32", ("f32", x)).view(np.float32)
    np.testing.assert_allclose(together, apart, rtol=1e-5)


def test_polynomials_are_not_stopped_by_degrees_past_the_end():
    x, degrees = torch.linspace(-0.9, 0.9, 256), torch.arange(256) % 9
    degrees[250:] = 2**30  # a thread computes these too, and throws them away
    for name in ("legendre_polynomial_p", "laguerre_polynomial_l", "chebyshev_polynomial_u"):
        f = getattr(torch.special, name)
        got = f(x.to("webgpu")[:250], degrees.int().to("webgpu")[:250])
        torch.testing.assert_close(got.cpu(), f(x[:250], degrees[:250].int()), rtol=1e-4, atol=1e-4)
