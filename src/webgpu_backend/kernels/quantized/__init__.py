"""Weights of few bits: how their codes and scales lie in memory, and what reads them."""
