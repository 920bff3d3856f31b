"""Elementwise operators: each is an expression of the table."""
