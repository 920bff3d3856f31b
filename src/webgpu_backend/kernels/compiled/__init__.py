"""Kernels whose text a graph compiler wrote: the buffers they read and write, and the programs made of both."""
