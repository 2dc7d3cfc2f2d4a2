"""What Table 1 of Weinberger and Saul (2009) prints: errors, sizes, times and active constraints."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """The head of a column."""

    inputs: int
    features: int
    dimensions: int
    train: int
    test: int
    classes: int
    splits: int
    validation: int


class Spent(NamedTuple):
    """What the solver took for one metric, and for several: seconds, and active constraints at the end."""

    seconds: int
    active: int
    seconds_several: int
    active_several: int


SIZES = {
    "mnist": Sizes(70_000, 784, 164, 60_000, 10_000, 10, 1, 0),
    "letters": Sizes(20_000, 16, 16, 14_000, 6_000, 26, 10, 0),
    "20news": Sizes(18_827, 20_000, 200, 13_179, 5_648, 20, 10, 0),
    "isolet": Sizes(7_797, 617, 172, 6_238, 1_559, 26, 1, 0),
    "yale faces": Sizes(2_414, 8_064, 300, 1_690, 724, 38, 10, 30),
    "balance": Sizes(535, 4, 4, 375, 161, 3, 100, 0),
    "olivetti": Sizes(400, 200, 200, 280, 120, 40, 100, 30),
    "wine": Sizes(152, 13, 13, 106, 46, 3, 100, 0),
    "iris": Sizes(128, 4, 4, 90, 38, 3, 100, 30),
}
# Rows of LMNN beside those whose keys begin with lmnn.
OURS = ("energy", "passes", "several")
_ROWS = ("euclidean", "pca", "lda", "rca", "mmc", "nca", "lmnn", "lmnn-lda", *OURS, "svm")
# Test errors in per cent; the table has no training errors and no standard errors. A missing row is N/A there.
ERRORS = {
    name: {row: value for row, value in zip(_ROWS, values, strict=True) if value is not None}
    for name, values in {
        "mnist": (2.12, 2.43, 6.16, 5.93, None, None, 1.72, 6.16, 1.37, 1.69, 1.18, 1.20),
        "letters": (4.68, 4.68, 4.63, 4.34, None, None, 3.60, 3.61, 2.67, 2.80, 3.06, 3.21),
        "20news": (48.57, 18.22, 16.15, 16.06, None, None, 14.98, 16.98, 22.09, 13.83, 12.82, 8.04),
        "isolet": (8.98, 8.60, 5.90, 5.71, None, None, 4.36, 5.84, 3.40, 4.30, 4.04, 3.40),
        "yale faces": (29.19, 10.79, 4.80, 4.83, None, None, 5.90, 5.08, 10.11, 5.52, 4.05, 15.22),
        "balance": (18.33, 18.33, 10.82, 12.31, 15.66, 5.33, 11.16, 10.84, 9.14, 5.86, 10.72, 1.92),
        "olivetti": (6.03, 2.80, 10.01, 10.02, 15.91, 2.60, 3.28, 40.72, 3.16, 4.83, 3.11, 1.90),
        "wine": (25.00, 25.00, 2.17, 2.28, 30.96, 28.67, 8.72, 2.11, 7.67, 7.59, 8.72, 22.24),
        "iris": (4.87, 4.87, 4.00, 3.71, 3.55, 4.32, 4.37, 3.79, 3.68, 4.26, 4.66, 3.45),
    }.items()
}
_MINUTE, _HOUR = 60, 3600
SPENT = {
    "mnist": Spent(3 * _HOUR + 25 * _MINUTE, 540_037, 8 * _HOUR + 43 * _MINUTE, 305_114),
    "letters": Spent(2 * _MINUTE, 135_715, 14 * _MINUTE, 18_588),
    "20news": Spent(70 * _MINUTE, 676_482, 74 * _MINUTE, 101_803),
    "isolet": Spent(20 * _MINUTE, 64_396, 84 * _MINUTE, 135_832),
    "yale faces": Spent(8 * _MINUTE, 86_994, 14 * _MINUTE, 30_135),
    "balance": Spent(6, 41_522, 8, 31_717),
    "olivetti": Spent(66, 3_843, 149, 70),
    "wine": Spent(14, 10_194, 16, 748),
    "iris": Spent(2, 574, 5, 1_548),
}
