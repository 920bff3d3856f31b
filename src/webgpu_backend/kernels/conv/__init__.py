"""Convolutions: by tables, of few outputs, depthwise, by Winograd's tiles."""
