"""Labeled data by name and from generators, and their preparation."""

from sdpmetric.datasets.named import NAMED, Split, concentric_circles, concentric_rings, load, load_split
from sdpmetric.datasets.preparation import deskew, reduce, standardize

__all__ = [
    "NAMED",
    "Split",
    "concentric_circles",
    "concentric_rings",
    "deskew",
    "load",
    "load_split",
    "reduce",
    "standardize",
]
