"""Tensors made from positions, joined or rearranged."""
