"""`torch.webgpu`: the device, its memory, streams, generators, profiler and shaders."""
