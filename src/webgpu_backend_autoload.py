"""What `import torch` calls, through the `torch.backends` entry point, to make the device available.

PyTorch takes a registered out-of-tree device for *the* accelerator of the process, and autograd on CUDA tensors then
fails inside torch. So where CUDA or ROCm has a device, the process is left alone until somebody imports
`webgpu_backend`.

`import torch` belongs to programs that may never use the device: whatever goes wrong here is told, and torch works
without it.
"""

import sys
import warnings

import torch


def autoload() -> None:
    try:
        if torch.cuda.device_count() == 0:
            import webgpu_backend  # noqa: F401
    except Exception as error:
        _tell(f"torch.device('webgpu') is not available: {type(error).__name__}: {error}")


def _tell(message: str) -> None:
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:  # where warnings are made errors
        print(message, file=sys.stderr)
