"""Kernels that index by data and report bad indices."""
