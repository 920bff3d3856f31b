"""Reductions, and rows that are reduced and then rewritten: softmax and the norms."""
