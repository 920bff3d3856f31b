"""Factorisations, systems of equations, eigenvalues, matrix functions, distances."""
