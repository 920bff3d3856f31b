"""WebGPU through wgpu-native: adapters, buffers, pipelines and the queue. Knows nothing of torch or of operators."""
