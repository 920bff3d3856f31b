"""Pooling, interpolation, sampling and sliding windows."""
