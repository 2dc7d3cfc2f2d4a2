"""One split of one column: the models that the rows of the table share, each learned once."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import sdpmetric as sm
from sdpmetric import classification
from sdpmetric.classification.energy import QueryNeighbors
from sdpmetric.core import pairs
from table1.columns import Column, Split, held_back

K = 3
PATIENCE = 5
# Iterations of Algorithm 1 at most; it looks up in every tenth.
PRINTED_ITERATIONS = 2000
# With more training rows than this, neighbors are searched by faiss if it is installed: exactly, in single precision.
MANY = 20_000
NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Model:
    """A metric, or one for each class, with what the table says about it."""

    components: np.ndarray
    targets: np.ndarray
    regions: np.ndarray
    push_weight: float
    cpu_seconds: float
    n_active: int
    gap: float
    passes: int = 1

    @property
    def regional(self) -> np.ndarray | None:
        return self.regions if self.components.ndim == 3 else None


class Bench:
    """Data of one split, and models by name; models of large columns are kept in `folder`."""

    def __init__(self, column: Column, seed: int, folder: Path) -> None:
        self.column, self.seed, self.folder = column, seed, folder
        self._models: dict[str, Model] = {}

    @cached_property
    def split(self) -> Split:
        """The data, reduced; kept in `folder` where reducing them takes long."""
        file = self.folder / f"{self.column.name}-{self.seed}-data.npz"
        if file.is_file():
            with np.load(file) as saved:
                return Split(**saved)
        split = self.column.split(self.seed)
        if len(split.y) > MANY:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(file, **vars(split))
        return split

    @cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        return held_back(self.split.y, self.seed)

    def part(self, fit: bool) -> tuple[np.ndarray, np.ndarray]:
        """What is learned from: the training part, or of it what is not held back."""
        rows = self.parts[0] if fit else slice(None)
        return np.asarray(self.split.X[rows], dtype=np.float64), self.split.y[rows]

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray]:
        rows = self.parts[1]
        return np.asarray(self.split.X[rows], dtype=np.float64), self.split.y[rows]

    # -- models -----------------------------------------------------------------------------------------------------

    def lmnn(self, push_weight: float = 0.5, passes: int = 1, fit: bool = False, n_neighbors: int = K) -> Model:
        """LMNN; in later passes the target neighbors are the nearest under the metric of the pass before."""
        other = "" if n_neighbors == K else f"-{n_neighbors}nn"
        name = f"lmnn-{push_weight:g}-{passes}{other}{'-fit' * fit}"

        def learn() -> Model:
            X, y = self.part(fit)
            before = None if passes == 1 else self.lmnn(push_weight, passes - 1, fit, n_neighbors)
            targets, options = None, {}
            if before is not None:
                index = np.unique(y, return_inverse=True)[1]
                targets = pairs.target_neighbors(X @ before.components.T, index, n_neighbors)
                options["init"] = before.components
            began = time.process_time()
            problem = sm.LMNNProblem.from_labels(X, y, n_neighbors, push_weight, target_neighbors=targets)
            solution = sm.solve(problem, **options)
            spent = time.process_time() - began + (before.cpu_seconds if before else 0.0)
            return _model(problem, np.zeros(len(y), dtype=np.int64), solution, spent, passes)

        return self.model(name, learn)

    def stopped(self, several: bool = False, passes: int = 1, printed: bool = False) -> Model:
        """LMNN of what is not held back, at the step with the lowest kNN error on what is.

        The target neighbors of the model are those of the whole training part, whose margins the energies of a query
        count; with `passes`, target neighbors are those of that pass of LMNN with a single metric. The solver is
        Algorithm 1 as `printed`, from the identity by small steps, or the default one.
        """

        def learn() -> Model:
            (X, y), (held, labels) = self.part(fit=True), self.held
            single = self.lmnn(passes=passes, fit=True) if passes > 1 else None
            found, spent = (single.targets, single.cpu_seconds) if single else (None, 0.0)
            began = time.process_time()
            kind = sm.MultiMetricLMNNProblem if several else sm.LMNNProblem
            problem = kind.from_labels(X, y, K, target_neighbors=found)
            classes = np.unique(y, return_inverse=True)[1]

            def score(components: np.ndarray) -> float:
                return -knn_error(of_map(components, 0.0, classes), X, y, held, labels)

            options = {"solver": "subgradient", "step": "paper", "max_iter": PRINTED_ITERATIONS} if printed else {}
            solution = sm.solve(problem, tol=1e-3 if several else 1e-4, score=score, patience=PATIENCE, **options)
            spent += time.process_time() - began
            X, y = self.part(fit=False)
            index = np.unique(y, return_inverse=True)[1]
            targets = pairs.target_neighbors(X, index, K) if passes == 1 else self.lmnn(passes=passes).targets
            return replace(_model(problem, index, solution, spent, passes), targets=targets)

        name = f"{'several' if several else 'lmnn'}-stopped{f'-{passes}' * (passes > 1)}{'-printed' * printed}"
        return self.model(name, learn)

    def lmnn_of_map(self, name: str, before: Model) -> Model:
        """LMNN on what a linear map makes of the data; the components are those of both."""

        def learn() -> Model:
            X, y = self.part(False)
            began = time.process_time()
            problem = sm.LMNNProblem.from_labels(X @ before.components.T, y, K)
            solution = sm.solve(problem)
            spent = time.process_time() - began + before.cpu_seconds
            learned = _model(problem, np.zeros(len(y), dtype=np.int64), solution, spent, 1)
            return replace(learned, components=solution.components @ before.components)

        return self.model(f"lmnn-of-{name}", learn)

    def several(self, push_weight: float = 0.5, fit: bool = False, passes: int = 1) -> Model:
        """A metric for each class; with `passes`, its target neighbors are those of that pass of LMNN."""
        name = f"several-{push_weight:g}-{passes}{'-fit' * fit}"

        def learn() -> Model:
            X, y = self.part(fit)
            single = self.lmnn(push_weight, passes, fit) if passes > 1 else None
            targets, spent = (single.targets, single.cpu_seconds) if single else (None, 0.0)
            began = time.process_time()
            problem = sm.MultiMetricLMNNProblem.from_labels(X, y, K, push_weight, target_neighbors=targets)
            solution = sm.solve(problem, tol=5e-3)
            spent += time.process_time() - began
            return _model(problem, problem.regions, solution, spent, passes)

        return self.model(name, learn)

    def model(self, name: str, learn: Callable[[], Model]) -> Model:
        if name not in self._models:
            file = self.folder / f"{self.column.name}-{self.seed}-{name}-{self._fingerprint}.npz"
            keep = len(self.split.y) > MANY // 2
            if keep and file.is_file():
                with np.load(file) as saved:
                    self._models[name] = Model(**{k: v if v.ndim else v.item() for k, v in saved.items()})
            else:
                self._models[name] = learn()
                if keep:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    np.savez(file, **asdict(self._models[name]))
        return self._models[name]

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.split.X[:: max(1, len(self.split.X) // 100)]).tobytes())
        return digest.hexdigest()[:8]

    # -- errors, in per cent ------------------------------------------------------------------------------------------

    def knn_errors(self, model: Model) -> tuple[float, float]:
        """Errors of 3 nearest neighbors on the training part, each example left out in turn, and on the test part."""
        s = self.split
        return knn_error(model, s.X, s.y), knn_error(model, s.X, s.y, s.X_test, s.y_test)

    def energy_error(self, model: Model, query_neighbors: QueryNeighbors = "metric") -> float:
        s = self.split
        return energy_error(model, s.X, s.y, s.X_test, s.y_test, query_neighbors)

    def validation_error(self, model: Model, *, by_energy: bool = False) -> float:
        """Error on the part held back, of a model that was learned on the rest."""
        return (energy_error if by_energy else knn_error)(model, *self.part(True), *self.held)


def _model(
    problem: sm.LMNNProblem | sm.MultiMetricLMNNProblem,
    regions: np.ndarray,
    solution: sm.Solution,
    spent: float,
    passes: int,
) -> Model:
    return Model(
        solution.components,
        problem.source.targets,
        regions,
        problem.push_weight,
        spent,
        solution.certificate.n_active,
        solution.relative_gap,
        passes,
    )


def of_map(components: np.ndarray, cpu_seconds: float, regions: np.ndarray = NONE) -> Model:
    """A linear map, or one for each region, that is no answer of LMNN."""
    return Model(components, np.zeros((0, K), dtype=np.int32), regions, float("nan"), cpu_seconds, -1, float("nan"))


def knn_error(
    model: Model, X: np.ndarray, y: np.ndarray, queries: np.ndarray | None = None, labels: np.ndarray | None = None
) -> float:
    algorithm = "faiss" if len(X) > MANY and find_spec("faiss") else "auto" if X.shape[1] < 50 else "brute"
    found = classification.knn_predict(model.components, X, y, queries, K, regions=model.regional, algorithm=algorithm)
    return 100.0 * float(np.mean(found != (y if labels is None else labels)))


def energy_error(
    model: Model,
    X: np.ndarray,
    y: np.ndarray,
    queries: np.ndarray,
    labels: np.ndarray,
    query_neighbors: QueryNeighbors = "metric",
) -> float:
    found = classification.energy_predict(
        model.components,
        X,
        y,
        queries,
        target_neighbors=model.targets,
        push_weight=model.push_weight,
        regions=model.regional,
        query_neighbors=query_neighbors,
    )
    return 100.0 * float(np.mean(found != labels))
