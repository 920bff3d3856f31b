"""Scaled dot product attention, and the transformer layers that torch calls as one operator."""
