"""A PyTorch device on WebGPU: `torch.device("webgpu")`."""

from .frontend import install as _install

_install()

from .frontend.device.stats import stats  # noqa: E402
from .frontend.dispatch.counts import decompositions, fallbacks, reset_fallbacks  # noqa: E402

__version__ = "0.1.0"
__all__ = ["decompositions", "fallbacks", "reset_fallbacks", "stats"]
