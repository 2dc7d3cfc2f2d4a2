"""Families of data that break proofs: by scale, offset, dependence, null directions, integers, float32."""

import numpy as np
from exact import FAMILIES as COMMON
from exact import hostile

Data = tuple[np.ndarray, np.ndarray]


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(low, high))


def weight(rng: np.random.Generator, low: float = -3, high: float = 2) -> float:
    """A weight: mostly moderate, sometimes as small or as large as it may be."""
    kind = rng.random()
    return log_uniform(rng, low, high) if kind < 0.6 else log_uniform(rng, -120, -3 if kind < 0.8 else 120)


def share(rng: np.random.Generator) -> float:
    """A push weight: between 0 and 1, sometimes next to either."""
    kind = rng.random()
    small = log_uniform(rng, -60, -3)
    return float(rng.uniform(0.1, 0.9)) if kind < 0.6 else small if kind < 0.8 else 1.0 - 2.0 ** -rng.integers(2, 54)


def scaled(low: float, high: float):
    return lambda X, y, rng: (X * log_uniform(rng, low, high), y)


def apart(X, y, rng):
    return X * 10.0 ** rng.uniform(-57, 59, X.shape[1]), y


def beside(X, y, rng):
    """A feature of ordinary size beside one that is next to nothing."""
    return np.column_stack([X, log_uniform(rng, -57, -40) * rng.normal(size=len(X))]), y


def far(X, y, rng):
    return X + log_uniform(rng, 8, 12) * rng.choice([-1, 1], X.shape[1]), y


def dependent(X, y, rng):
    return np.column_stack([X, X[:, 0] + log_uniform(rng, -16, -4) * rng.normal(size=len(X))]), y


def units(X, y, rng):
    """A feature once more in other units, of data with one decimal."""
    X = np.round(X, 1)
    converted = (X[:, 0] / 2.54, 1.8 * X[:, 0] + 32.0, X[:, 0] * 0.1, 3.0 * X[:, 0])[int(rng.integers(4))]
    return np.column_stack([X, converted]), y


def summed(X, y, rng):
    X = np.round(np.column_stack([X, rng.normal(size=len(X))]), 1)
    return np.column_stack([X, X[:, 0] + X[:, 1], X @ rng.normal(size=X.shape[1])][: int(rng.integers(2, 4))]), y


def null(X, y, rng):
    """A feature that is constant within classes, exactly or nearly."""
    noise = 0.0 if rng.random() < 0.4 else log_uniform(rng, -16, -4)
    column = log_uniform(rng, -3, 3) * (y + noise * rng.normal(size=len(X)))
    return (np.column_stack([X, column]) if rng.random() < 0.7 else column[:, None]), y


def last_digits(X, y, rng):
    """A feature that varies in the last digits of floats only, as time stamps and identifiers do."""
    if rng.random() < 0.5:
        return np.column_stack([X, 1e15 + rng.integers(0, 9, (len(X), int(rng.integers(1, 3))))]), y
    return np.column_stack([X, log_uniform(rng, -3, 3) * (1.0 + 2.0**-52 * rng.integers(0, 5, len(X)))]), y


def stamps(X, y, rng):
    """A feature of whole numbers beside an offset of 1e15, as time stamps in microseconds have."""
    return np.column_stack([X, 1e15 + rng.integers(0, 9, len(X)) + 4 * y]), y


def coincident(X, y, rng):
    """Examples of different classes that are equal."""
    half = len(X) // 2
    X[:half] = X[rng.integers(half, len(X), half)]
    return X, y


def single_far(X, y, rng):
    return (X + log_uniform(rng, 1, 6)).astype(np.float32), y


def single_tiny(X, y, rng):
    return (X * log_uniform(rng, -37, -10)).astype(np.float32), y


def large_integers(X, y, rng):
    return rng.integers(-(2 ** int(rng.integers(20, 53))), 2**53, X.shape), y


def few(X, y, rng):
    keep = np.concatenate([np.flatnonzero(y == c)[:3] for c in (0, 1)])
    return X[keep], y[keep]


def wide(X, y, rng):
    """At most half as many rows as features: in general position, nearly dependent, or features of all sizes."""
    X, y = few(X, y, rng)
    X, kind = rng.normal(size=(len(X), int(rng.integers(2 * len(X), 3 * len(X))))), int(rng.integers(5))
    if kind == 1:
        X[0] = 0.5 * (X[1] + X[2])
    elif kind == 2:
        X[0] = X[1] + log_uniform(rng, -15, -3) * X[2]
    size = rng.uniform(-8, 8, X.shape[1]) if kind == 3 else rng.uniform(-6, 6)
    return X * 10.0**size + (log_uniform(rng, 3, 12) if kind == 4 else 0.0), y


def equal_classes(X, y, rng):
    """All members of a class are equal."""
    X[y == 0] = X[np.argmax(y == 0)]
    return X, y


def outside(X, y, rng):
    """Data out of range: refused, or entries so small that they do not count."""
    return X * log_uniform(rng, *((-300, -59) if rng.random() < 0.5 else (59, 300))), y


HOSTILE = {"tiny": scaled(-40, -10), "vanishing": scaled(-57, -40), "huge": scaled(10, 40), "enormous": scaled(40, 59)}
NAMED = (apart, beside, far, dependent, units, summed, null, last_digits, stamps, coincident)
NAMED += (outside, single_far, single_tiny, large_integers, few, wide, equal_classes)
HOSTILE |= {make.__name__.replace("_", " "): make for make in NAMED}
FAMILIES = (*COMMON, *HOSTILE)


def data(family: str, rng: np.random.Generator) -> Data:
    """Data of a family and labels 0, 1, .. of classes with at least three members."""
    n, d = int(rng.integers(9, 13)), int(rng.integers(1, 4))
    X, y = hostile(family if family in COMMON else "plain", rng, n, d)
    y = np.unique(y, return_inverse=True)[1]
    return HOSTILE[family](X, y, rng) if family in HOSTILE else (X, y)
