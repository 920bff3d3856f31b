"""What `import torch` calls, through the `torch.backends` entry point, to make the device available.

PyTorch takes a registered out-of-tree device for *the* accelerator of the process, and autograd on the tensors of
another one then fails inside torch. So where torch has a device of CUDA, ROCm, MPS or XPU, the process is left alone
until somebody imports `webgpu_backend`.

`import torch` belongs to programs that may never use the device: whatever goes wrong here is told, and torch works
without it.
"""

import sys
import warnings


def accelerator() -> str | None:
    """The kind of accelerator that torch itself has on this machine, if any."""
    import torch  # here, for torch asks for what is in this module while it is imported

    if torch.cuda.device_count():
        return "CUDA"
    if torch.backends.mps.is_available():
        return "MPS"
    return "XPU" if torch.xpu.device_count() else None


def autoload() -> None:
    try:
        if accelerator() is None:
            import webgpu_backend  # noqa: F401
    except Exception as error:
        _tell(f"torch.device('webgpu') is not available: {type(error).__name__}: {error}")


def _tell(message: str) -> None:
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:  # where warnings are made errors
        print(message, file=sys.stderr)
