"""Elementwise kernels: one expression over any dtypes, layouts and broadcasts, and several fused to one."""
