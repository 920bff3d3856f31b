"""WGSL text and integers: layouts, expressions, templates. Knows nothing of torch or wgpu."""
