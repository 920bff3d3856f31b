"""Boxes and regions of images: what torchvision has operators for."""
