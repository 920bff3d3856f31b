"""Weights of few bits: products with them, quantising and fake quantising."""
