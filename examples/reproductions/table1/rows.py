"""The rows of the table: what each method makes of one split."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import sdpmetric as sm
from table1.bench import Bench, Model, knn_error, of_map

NEIGHBORS = (1, 2, 3)
# Limits of methods that do not grow with the data as LMNN does; the table says so.
MMC_PAIRS = 2000
NCA_ROWS, NCA_ITERATIONS = 1000, 100
SVM_ROWS = 3000


@dataclass
class Cell:
    """One method on one split: errors in per cent, CPU seconds of learning, active triplets, proven relative gap."""

    test: float
    train: float | None = None
    cpu_seconds: float | None = None
    n_active: int | None = None
    gap: float | None = None
    chosen: str = ""


Row = Callable[[Bench], Cell | None]


def euclidean(bench: Bench) -> Cell:
    s = bench.split
    raw = of_map(np.eye(s.raw.shape[1], dtype=s.raw.dtype), 0.0)
    many = s.raw.size > 10_000_000  # leaving each out in turn would take longer than all other rows
    return Cell(knn_error(raw, s.raw, s.y, s.raw_test, s.y_test), None if many else knn_error(raw, s.raw, s.y))


def pca(bench: Bench) -> Cell | None:
    return _by_neighbors(bench, of_map(np.eye(bench.split.X.shape[1]), 0.0)) if bench.split.reduced else None


def lda(bench: Bench) -> Cell:
    return _by_neighbors(bench, _lda(bench))


def rca(bench: Bench) -> Cell:
    """Whiten the covariance within classes; every class is one chunklet."""
    began = time.process_time()
    X, y = bench.part(fit=False)
    means = np.stack([X[y == label].mean(axis=0) for label in np.unique(y)])
    within = X - means[np.unique(y, return_inverse=True)[1]]
    values, vectors = np.linalg.eigh(within.T @ within / len(X))
    values = np.maximum(values, 1e-9 * values[-1])
    return _by_neighbors(bench, of_map((vectors / np.sqrt(values)).T, time.process_time() - began))


def mmc(bench: Bench) -> Cell:
    began = time.process_time()
    solution = sm.solve(sm.MMCProblem.from_labels(*bench.part(fit=False), MMC_PAIRS, random_state=bench.seed))
    cell = _by_neighbors(bench, of_map(solution.components, time.process_time() - began))
    cell.gap = solution.relative_gap
    return cell


def nca(bench: Bench) -> Cell:
    began = time.process_time()
    X, y = bench.part(fit=False)
    some = np.random.default_rng(bench.seed).permutation(len(X))[:NCA_ROWS]
    learned = NeighborhoodComponentsAnalysis(init="pca", max_iter=NCA_ITERATIONS, random_state=bench.seed)
    learned.fit(X[some], y[some])
    return _by_neighbors(bench, of_map(learned.components_, time.process_time() - began))


def lmnn(bench: Bench) -> Cell:
    return _of_model(bench, bench.lmnn())


def lmnn_of_lda(bench: Bench) -> Cell:
    return _of_model(bench, bench.lmnn_of_map("lda", _lda(bench)))


def energy_euclidean(bench: Bench) -> Cell:
    """The target neighbors of a query are the nearest by Euclidean distance, as the paper has them."""
    model = bench.lmnn()
    error = bench.energy_error(model, "euclidean")
    return Cell(error, None, model.cpu_seconds, model.n_active, model.gap)


def energy_of_lda(bench: Bench) -> Cell:
    return _of_energy(bench, bench.lmnn_of_map("lda", _lda(bench)))


def lmnn_stopped(bench: Bench) -> Cell:
    """Learn from what is not held back, and keep the metric with the lowest error on what is."""
    return _of_model(bench, bench.stopped())


def lmnn_stopped_energy(bench: Bench) -> Cell:
    return _of_energy(bench, bench.stopped())


def lmnn_stopped_printed(bench: Bench) -> Cell:
    """The same by Algorithm 1 as printed, which goes from the identity by small steps."""
    return _of_model(bench, bench.stopped(printed=True))


def lmnn_stopped_printed_energy(bench: Bench) -> Cell:
    return _of_energy(bench, bench.stopped(printed=True))


def lmnn_chosen(bench: Bench) -> Cell:
    mu = min(bench.column.push_weights, key=lambda mu: bench.validation_error(bench.lmnn(mu, fit=True)))
    return _of_model(bench, bench.lmnn(mu), f"mu {mu:g}")


def energy(bench: Bench) -> Cell:
    return _of_energy(bench, bench.lmnn())


def energy_chosen(bench: Bench) -> Cell:
    """Target neighbors of a query are as many as those that the metric was learned with."""
    grid = [(mu, n) for n in NEIGHBORS for mu in bench.column.push_weights]

    def error(at: tuple[float, int]) -> float:
        return bench.validation_error(bench.lmnn(at[0], fit=True, n_neighbors=at[1]), by_energy=True)

    mu, n = min(grid, key=error)
    return _of_energy(bench, bench.lmnn(mu, n_neighbors=n), f"mu {mu:g}, target neighbors {n}")


def passes(bench: Bench) -> Cell:
    mu, n = min(_grid(bench), key=lambda at: bench.validation_error(bench.lmnn(*at, fit=True)))
    return _of_model(bench, bench.lmnn(mu, n), f"mu {mu:g}, passes {n}")


def passes_energy(bench: Bench) -> Cell:
    mu, n = min(_grid(bench), key=lambda at: bench.validation_error(bench.lmnn(*at, fit=True), by_energy=True))
    return _of_energy(bench, bench.lmnn(mu, n), f"mu {mu:g}, passes {n}")


def several(bench: Bench) -> Cell:
    return _of_model(bench, bench.several())


def several_energy(bench: Bench) -> Cell:
    return _of_energy(bench, bench.several())


def several_stopped(bench: Bench) -> Cell:
    return _of_model(bench, bench.stopped(several=True))


def several_stopped_energy(bench: Bench) -> Cell:
    return _of_energy(bench, bench.stopped(several=True))


def several_stopped_printed(bench: Bench) -> Cell:
    return _of_model(bench, bench.stopped(several=True, printed=True))


def several_chosen(bench: Bench) -> Cell:
    mu = min(bench.column.push_weights, key=lambda mu: bench.validation_error(bench.several(mu, fit=True)))
    return _of_model(bench, bench.several(mu), f"mu {mu:g}")


def several_passes(bench: Bench) -> Cell:
    """Target neighbors of one metric, of that many passes; the push weight is that of the row without passes."""
    n = min(bench.column.passes, key=lambda n: bench.validation_error(bench.several(passes=n, fit=True)))
    return _of_model(bench, bench.several(passes=n), f"passes {n}")


def several_passes_stopped(bench: Bench) -> Cell:
    """As many passes as the row without early stopping has."""
    n = min(bench.column.passes, key=lambda n: bench.validation_error(bench.several(passes=n, fit=True)))
    return _of_model(bench, bench.stopped(several=True, passes=n), f"passes {n}")


def several_passes_energy(bench: Bench) -> Cell:
    n = min(
        bench.column.passes, key=lambda n: bench.validation_error(bench.several(passes=n, fit=True), by_energy=True)
    )
    return _of_energy(bench, bench.several(passes=n), f"passes {n}")


def svm(bench: Bench) -> Cell:
    """The best of three kernels, its C and width by 3-fold cross-validation on the training part, or on some of it."""
    began = time.process_time()
    X, y = bench.part(fit=False)
    some = np.random.default_rng(bench.seed).permutation(len(X))[:SVM_ROWS]
    width = 1.0 / (X.shape[1] * X.var())
    if bench.column.n_components is None:
        machine, width = make_pipeline(StandardScaler(), SVC(cache_size=1000)), 1.0 / X.shape[1]
    else:
        machine = make_pipeline(SVC(cache_size=1000))
    weights, widths = [1.0, 10.0, 100.0], [width * factor for factor in (0.3, 1.0, 3.0)]
    grid = [
        {"svc__kernel": ["rbf"], "svc__C": weights, "svc__gamma": widths},
        {"svc__kernel": ["linear"], "svc__C": weights},
        {"svc__kernel": ["poly"], "svc__degree": [2, 3], "svc__coef0": [1.0], "svc__C": weights, "svc__gamma": [width]},
    ]
    best = GridSearchCV(machine, grid, cv=3).fit(X[some], y[some]).best_estimator_.fit(X, y)
    spent = time.process_time() - began
    error = 100.0 * float(np.mean(best.predict(np.asarray(bench.split.X_test, dtype=np.float64)) != bench.split.y_test))
    train = 100.0 * float(np.mean(best.predict(X) != y)) if len(X) < 20_000 else None
    machine = best[-1]
    kernel = {"rbf": "Gaussian", "poly": f"degree {machine.degree}"}.get(machine.kernel, machine.kernel)
    width_of = f", width {machine.gamma / width:g}" if machine.kernel == "rbf" else ""
    return Cell(error, train, spent, chosen=f"{kernel}{width_of}, C {machine.C:g}")


def _grid(bench: Bench) -> list[tuple[float, int]]:
    return [(mu, n) for n in bench.column.passes for mu in bench.column.push_weights]


def _lda(bench: Bench) -> Model:
    began = time.process_time()
    X, y = bench.part(fit=False)
    learned = LinearDiscriminantAnalysis(solver="svd").fit(X, y)
    return of_map(learned.scalings_[:, : learned._max_components].T, time.process_time() - began)


def _by_neighbors(bench: Bench, model: Model) -> Cell:
    train, test = bench.knn_errors(model)
    return Cell(test, train, model.cpu_seconds)


def _of_model(bench: Bench, model: Model, chosen: str = "") -> Cell:
    train, test = bench.knn_errors(model)
    return Cell(test, train, model.cpu_seconds, model.n_active, model.gap, chosen)


def _of_energy(bench: Bench, model: Model, chosen: str = "") -> Cell:
    return Cell(bench.energy_error(model), None, model.cpu_seconds, model.n_active, model.gap, chosen)


ROWS: dict[str, tuple[str, Row]] = {
    "euclidean": ("kNN, Euclidean", euclidean),
    "pca": ("kNN after PCA", pca),
    "lda": ("LDA", lda),
    "rca": ("RCA", rca),
    "mmc": ("MMC", mmc),
    "nca": ("NCA", nca),
    "lmnn": ("LMNN", lmnn),
    "lmnn-lda": ("LMNN after LDA", lmnn_of_lda),
    "lmnn-stopped": ("LMNN, stopped early", lmnn_stopped),
    "lmnn-stopped-energy": ("LMNN, stopped early, energy", lmnn_stopped_energy),
    "lmnn-printed": ("LMNN, stopped early, Algorithm 1 as printed", lmnn_stopped_printed),
    "lmnn-printed-energy": ("LMNN, stopped early, Algorithm 1 as printed, energy", lmnn_stopped_printed_energy),
    "lmnn-chosen": ("LMNN, push weight by validation", lmnn_chosen),
    "energy": ("LMNN, energy", energy),
    "energy-euclidean": ("LMNN, energy, Euclidean target neighbors of queries", energy_euclidean),
    "energy-lda": ("LMNN after LDA, energy", energy_of_lda),
    "energy-chosen": ("LMNN, energy, chosen by validation", energy_chosen),
    "passes": ("LMNN, multiple passes", passes),
    "passes-energy": ("LMNN, multiple passes, energy", passes_energy),
    "several": ("LMNN, multiple metrics", several),
    "several-energy": ("LMNN, multiple metrics, energy", several_energy),
    "several-stopped": ("LMNN, multiple metrics, stopped early", several_stopped),
    "several-stopped-energy": ("LMNN, multiple metrics, stopped early, energy", several_stopped_energy),
    "several-printed": ("LMNN, multiple metrics, stopped early, Algorithm 1 as printed", several_stopped_printed),
    "several-chosen": ("LMNN, multiple metrics, push weight by validation", several_chosen),
    "several-passes": ("LMNN, multiple metrics after passes", several_passes),
    "several-passes-stopped": ("LMNN, multiple metrics after passes, stopped early", several_passes_stopped),
    "several-passes-energy": ("LMNN, multiple metrics after passes, energy", several_passes_energy),
    "svm": ("SVM", svm),
}
