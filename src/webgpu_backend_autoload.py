"""What `import torch` calls, through the `torch.backends` entry point, to make the device available.

PyTorch takes a registered out-of-tree device for *the* accelerator of the process, and autograd on CUDA tensors then
fails inside torch. So where CUDA or ROCm has a device, the process is left alone until somebody imports
`webgpu_backend`.
"""

import torch


def autoload() -> None:
    if torch.cuda.device_count() == 0:
        import webgpu_backend  # noqa: F401
