"""Labeled data by name, from files, and from generators; and their preparation."""

from sdpmetric.core.files import read_npz
from sdpmetric.datasets.files import TABLES, Columns, Table
from sdpmetric.datasets.generators import concentric_circles, concentric_rings, noisy_digits, zebra_stripes
from sdpmetric.datasets.named import NAMED, Split, load, load_split, load_table, names
from sdpmetric.datasets.preparation import MeanNorm, deskew, pipeline, prepare, reduce, standardize, word_counts

__all__ = [
    "NAMED",
    "TABLES",
    "Columns",
    "MeanNorm",
    "Split",
    "Table",
    "concentric_circles",
    "concentric_rings",
    "deskew",
    "load",
    "load_split",
    "load_table",
    "names",
    "noisy_digits",
    "pipeline",
    "prepare",
    "read_npz",
    "reduce",
    "standardize",
    "word_counts",
    "zebra_stripes",
]
