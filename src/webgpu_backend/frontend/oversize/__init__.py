"""Operators on tensors larger than one binding."""
