"""Plans: what an operator's call does, made once by metadata, kept in one cache and run over each call's buffers.

outline    making a plan: the operator's function runs over tensors without memory
cache      where plans are kept
run        running one
forms      the short functions that torch calls, written for each pattern of arguments
operator   the four together
places     several devices: a call goes to the one its tensors are on
launch     how an operator's function asks for its kernels
draws      places in random streams, which every run takes anew
"""

from .cache import cache
from .draws import Draw, Philox
from .launch import caps, launch, launch_ranges, windows
from .operator import Operator, planned
from .outline import constant, not_lasting

__all__ = [
    "Draw",
    "Operator",
    "Philox",
    "cache",
    "caps",
    "constant",
    "launch",
    "launch_ranges",
    "not_lasting",
    "planned",
    "windows",
]
