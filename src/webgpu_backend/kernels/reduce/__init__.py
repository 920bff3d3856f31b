"""Reductions of any dims and layouts, and rows rewritten by what they reduce to."""
