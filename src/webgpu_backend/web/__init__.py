"""From PyTorch to a web page: what a function does on the device, written down for a browser.

surroundings  what a function reaches besides its arguments: modules, optimizers, tensors, and their names
recording     a call over outlines, with every buffer that outlives it
memory        which buffers in between share their space
sizes         the same call for every size of a range, as one description
site          the folder: model.json, WGSL, weights, and the files of page/
"""

from .site import export

__all__ = ["export"]
