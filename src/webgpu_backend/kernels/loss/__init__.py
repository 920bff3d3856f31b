"""Kernels of losses that pick or align classes."""
