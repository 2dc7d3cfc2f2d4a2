"""Accuracy of nearest neighbors where features are many: raw, under LMNN without and with a ridge, after PCA.

    SDPMETRIC_DATA=FOLDER python examples/benchmarks/useless_optima.py [--others] [NAME ...]

Prints a table of docs/measured/methods.md. Data sets that are not in the folder are left out. With
``--others`` the other learners, too.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import sdpmetric as sm
from sdpmetric.estimators import ITML, LMNN, MMC, RCA

N_TRAIN = {"olivetti 400 x 1024": 280}
LIMITS = {"tol": 1e-2, "max_time": 120.0}


def made() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Digits beside noise, digits through noisy units, and word counts of topics."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    rows = rng.permutation(len(X))[:900]
    X, y = X[rows] / 16.0, y[rows]
    found = {"digits and noise 900 x 500": (np.hstack([X, 0.37 * rng.normal(size=(900, 436))]), y)}
    units = np.tanh(X @ rng.normal(size=(64, 500))) + 0.5 * rng.normal(size=(900, 500))
    found["digits through units 900 x 500"] = (units, y)
    topics, common = rng.dirichlet(np.full(500, 0.05), 6), rng.dirichlet(np.full(500, 0.3))
    of, words = rng.integers(0, 6, 900), rng.integers(30, 120, 900)
    counts = np.stack([rng.multinomial(m, 0.8 * common + 0.2 * topics[c]) for m, c in zip(words, of, strict=True)])
    weighted = counts * (1.0 + np.log(901 / (1 + (counts > 0).sum(axis=0))))
    found["word counts 900 x 500"] = (weighted / np.linalg.norm(weighted, axis=1, keepdims=True), of)
    return found


def stored(folder: Path, most: int = 900) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Samples of real data, and the faces, at 32 x 32 pixels."""
    found, rng = {}, np.random.default_rng(0)
    for name in ("isolet_1_5", "mnist", "usps", "yaleb", "olivetti"):
        if not (folder / f"{name}.npz").is_file():
            continue
        arrays = np.load(folder / f"{name}.npz")
        X, y = arrays["X"].astype(np.float64), arrays["y"]
        if name == "olivetti":
            X = X.reshape(-1, 32, 2, 32, 2).mean(axis=(2, 4)).reshape(len(X), -1)
        if name == "yaleb":  # fifteen persons
            X, y = X[y < 15], y[y < 15]
        rows = rng.permutation(len(X))[:most]
        found[f"{name} {len(rows)} x {X.shape[1]}"] = X[rows], y[rows]
    return found


def measured(learner, X: np.ndarray, y: np.ndarray, n: int) -> str:
    """Accuracy on the rows after the first n; with a star where the fit warned of its optimum."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Z, Z_test = (
            (X[:n], X[n:]) if learner is None else (learner.fit_transform(X[:n], y[:n]), learner.transform(X[n:]))
        )
    star = "*" if any(issubclass(one.category, sm.UselessOptimumWarning) for one in said) else ""
    return f"{KNeighborsClassifier(3).fit(Z, y[:n]).score(Z_test, y[n:]):.3f}{star}"


def main(wanted: list[str]) -> None:
    """Print the table."""
    learners = {
        "raw": None,
        "LMNN, ridge 0": LMNN(ridge=0.0, **LIMITS),
        "LMNN": LMNN(**LIMITS),
        "PCA(30), LMNN": make_pipeline(PCA(30, random_state=0), LMNN(**LIMITS)),
    }
    if "--others" in wanted:
        wanted.remove("--others")
        pairs = {"n_pairs": 3000, "max_time": 120.0}
        learners |= {"RCA, ridge 1e-9": RCA(ridge=1e-9), "RCA": RCA(), "ITML": ITML(**pairs)}
        learners |= {"MMC": MMC(**pairs)}
    print("| data |", " | ".join(learners), "|")
    print("| --- |", " | ".join("---" for _ in learners), "|")
    folder = os.environ.get("SDPMETRIC_DATA")
    for name, (X, y) in (made() | (stored(Path(folder)) if folder else {})).items():
        if wanted and not any(word in name for word in wanted):
            continue
        n = N_TRAIN.get(name, 600)
        X = (X - X[:n].mean(axis=0)) * (4.0 / np.sqrt(X.shape[1]) / X[:n].std())
        cells = [measured(learner, X, y, n) for learner in learners.values()]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
