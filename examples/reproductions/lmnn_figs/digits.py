"""Handwritten digits and the metrics of many ranks that three figures share, each learned once and kept."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric import classification, datasets
from sdpmetric.core.solution import Solution

K = 3
# Relative gap to prove for the metric of full rank.
TOLERANCE = 1e-3


@dataclass
class Digits:
    """MNIST, or scikit-learn's small digits: deskewed and reduced by the training part's principal components.

    Attributes
    ----------
    name : {"mnist", "digits"}
    n_train, n_test : int
        Training rows drawn at random (seed 0), and the first rows of the test part.
    n_components : int
        Principal components kept.
    folder : Path
        Where solutions are kept.
    rows : (n_train,) integer array
        The drawn rows of the training part.
    every, Z, Z_test : (n, n_components) arrays
        The whole training part, its drawn rows, and the test rows.
    """

    name: str
    n_train: int
    n_test: int
    n_components: int
    folder: Path

    def __post_init__(self) -> None:
        if self.small:
            X, Q, y, asked = train_test_split(*datasets.load(self.name), test_size=0.3, random_state=0)
            split = datasets.Split(X, y, Q, asked)
        else:
            split = datasets.load_split(self.name)
        self.rows = rows = np.sort(np.random.default_rng(0).permutation(len(split.y_train))[: self.n_train])
        everything, T = (datasets.deskew(P.astype(np.float32)) for P in (split.X_train, split.X_test[: self.n_test]))
        X = everything[rows]
        self.y, self.y_test = split.y_train[rows], split.y_test[: self.n_test]
        turn = PCA(self.n_components, svd_solver="covariance_eigh").fit(X)
        every, Z_test = (turn.transform(P).astype(np.float64) for P in (everything, T))
        size = 4.0 / np.linalg.norm(every[rows], axis=1).mean()  # LMNN's optimum does not depend on it
        self.every, self.Z, self.Z_test = every * size, every[rows] * size, Z_test * size

    @property
    def small(self) -> bool:
        return self.name == "digits"

    @property
    def protocol(self) -> str:
        return (
            f"{self.name}: {len(self.y):,} training rows (random, seed 0), {len(self.y_test):,} test rows, deskewed by "
            f"`datasets.deskew`, {self.n_components} principal components; {K} target neighbors, push weight 0.5; the "
            f"metric of full rank is proven optimal to a relative gap of {TOLERANCE:g}"
        )

    @cached_property
    def problem(self) -> sm.LMNNProblem:
        return sm.LMNNProblem.from_labels(self.Z, self.y, K, 0.5)

    def kept(self, name: str) -> Path:
        return self.folder / f"{self.name}-{len(self.y)}-{self.n_components}-{name}.npz"

    @cached_property
    def full(self) -> Solution:
        """The optimum without a bound on the rank."""
        file = self.kept("full")
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            solution = sm.solve(self.problem, tol=TOLERANCE)
            print(solution, flush=True)
            solution.save(file)
        return Solution.load(file, self.problem)

    def rectangular(self, rank: int) -> Solution:
        """LMNN-R: a metric of bounded rank, from the full solution, which is found once for all ranks."""
        file = self.kept(f"rank{rank}")
        if not file.is_file():
            solution = sm.solve(self.problem, "low_rank", n_components=rank, full=self.full, tol=TOLERANCE)
            print(f"rank {rank}: {solution}", flush=True)
            solution.save(file)
        return Solution.load(file, self.problem)

    def error(self, components: np.ndarray) -> float:
        """Test error in per cent of the nearest neighbors under a metric."""
        predicted = classification.knn_predict(components, self.Z, self.y, self.Z_test, K, algorithm="brute")
        return 100 * float(np.mean(predicted != self.y_test))
