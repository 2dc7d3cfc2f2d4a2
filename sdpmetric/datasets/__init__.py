"""Labelled data by name, from files, and made up; and what is done to them before a metric is learned."""

from sdpmetric.datasets.files import read_npz
from sdpmetric.datasets.generators import concentric_circles
from sdpmetric.datasets.named import NAMED, load
from sdpmetric.datasets.preparation import reduce, standardize

__all__ = ["NAMED", "concentric_circles", "load", "read_npz", "reduce", "standardize"]
