"""A PyTorch device on WebGPU: `torch.device("webgpu")`."""

from .frontend import install as _install

_install()

from .frontend.device.stats import stats  # noqa: E402
from .frontend.dispatch.counts import decompositions, fallbacks, reset_fallbacks  # noqa: E402
from .frontend.integrations.generation import generate  # noqa: E402
from .frontend.quantized.gguf import load_gguf  # noqa: E402
from .frontend.quantized.modules import quantize_  # noqa: E402

__version__ = "0.1.0"
__all__ = ["decompositions", "export", "fallbacks", "generate", "load_gguf", "quantize_", "reset_fallbacks", "stats"]


def __getattr__(name: str):
    if name == "export":  # what it needs is loaded when it is asked for
        from .web import export

        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
