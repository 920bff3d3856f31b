"""Factorisations of batches of matrices, and distances."""
