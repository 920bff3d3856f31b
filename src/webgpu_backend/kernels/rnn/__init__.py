"""Cells of recurrent layers."""
