"""Labeled data by name and from generators, and their preparation."""

from sdpmetric.core.files import read_npz
from sdpmetric.datasets.generators import concentric_circles, concentric_rings, noisy_digits, zebra_stripes
from sdpmetric.datasets.named import NAMED, Split, load, load_split
from sdpmetric.datasets.preparation import MeanNorm, deskew, pipeline, prepare, reduce, standardize

__all__ = [
    "NAMED",
    "MeanNorm",
    "Split",
    "concentric_circles",
    "concentric_rings",
    "deskew",
    "load",
    "load_split",
    "noisy_digits",
    "pipeline",
    "prepare",
    "read_npz",
    "reduce",
    "standardize",
    "zebra_stripes",
]
