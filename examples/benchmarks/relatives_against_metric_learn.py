"""MMC, ITML, MLKR, LSML, SDML and SCML of metric-learn judged by this package's certificates.

Run it with ``python examples/benchmarks/relatives_against_metric_learn.py PYTHON``, PYTHON that of an environment with
metric-learn (``examples/benchmarks/peers.sh`` builds one). Both sides get the same 150 pairs of each kind, and ITML the
same bounds on squared distances; MLKR (diabetes, not convex) two components from
the same start, and the share of the targets' variance that is left is printed; LSML the same 200 quadruplets and the
identity as prior, metric-learn with square roots of distances, which both objectives are printed for; SDML the same
pairs, by the lines of metric-learn, whose own call of graphical_lasso no scikit-learn takes that it runs with; SCML the
same triplets and bases.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.linalg import psd

GAMMAS = (0.3, 3.0)
PEER = """
import sys, numpy as np, metric_learn as ml
from sklearn.covariance import graphical_lasso
given, out = np.load(sys.argv[1]), {}
X, y = given["X"][given["pairs"]], np.where(given["similar"], 1, -1)
mmc = ml.MMC(max_iter=1000, max_proj=100000, tol=1e-9, init="identity").fit(X, y)
out["mmc"] = mmc.get_mahalanobis_matrix()
for gamma in given["gammas"]:
    itml = ml.ITML(gamma=gamma, max_iter=20000, tol=1e-10, prior="identity").fit(X, y, bounds=given["bounds"])
    out[f"itml {gamma:g}"] = itml.get_mahalanobis_matrix()
if "y" in given:
    X = given["X"]
    lsml = ml.LSML(prior="identity", tol=1e-10, max_iter=20000).fit(X[given["quadruplets"]])
    out["lsml"] = lsml.get_mahalanobis_matrix()
    V = np.diff(X[given["pairs"]], axis=1)[:, 0]
    linear = np.eye(X.shape[1]) + float(given["balance"]) * (V.T * y) @ V
    out["sdml"] = graphical_lasso(linear, 0.01)[1]
    scml = ml.SCML(beta=1e-3, n_basis=len(given["bases"]), max_iter=20000, random_state=0)
    scml._initialize_basis = lambda triplets, X: (given["bases"], len(given["bases"]))  # it refuses arrays as basis=
    out["scml"] = scml.fit(X[given["triplets"]]).get_mahalanobis_matrix()
np.savez(sys.argv[2], **out)
"""
PEER_MLKR = """
import sys, numpy as np, metric_learn as ml
given = np.load(sys.argv[1])
model = ml.MLKR(n_components=2, init=given["start"], max_iter=5000, tol=1e-12).fit(given["X"], given["y"])
np.savez(sys.argv[2], mlkr=model.components_)
"""


def ask(script: str, python: str, **given: object) -> dict[str, np.ndarray]:
    """What a script of the peer's makes of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(path, **given)
        subprocess.run([python, "-W", "ignore", "-c", script, str(path), str(made)], check=True)
        return dict(np.load(made))


def say(name: str, kind: str, own: sm.Solution, above: float) -> None:
    print(f"{name}, {kind}: proven gap {own.relative_gap:.1e}; metric-learn above the bound by {above:.1e}")


def rooted(X: np.ndarray, quadruplets: np.ndarray, M: np.ndarray) -> float:
    """LSML's objective as its paper and metric-learn have it, less its value at the identity."""
    a, b, c, d = X[np.asarray(quadruplets).T]
    near, far = (np.sqrt(np.einsum("ij,jk,ik->i", v, M, v)) for v in (a - b, c - d))
    return float(np.mean(np.maximum(near - far, 0.0) ** 2) + np.trace(M) - np.linalg.slogdet(M)[1] - len(M))


def compare_mlkr(python: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    problem = sm.MLKRProblem(StandardScaler().fit_transform(X), y, 2)
    start = np.random.default_rng(0).normal(size=(2, 10)) / 3
    theirs = ask(PEER_MLKR, python, X=problem.X, y=y, start=start)["mlkr"]
    for who, certificate in (
        ("here", sm.solve(problem, init=start).certificate),
        ("metric-learn", problem.certify(theirs)),
    ):
        left, slope = certificate.objective / problem.scale, certificate.stationarity
        print(f"diabetes, mlkr, {who}: share of the variance left {left:.4f}, stationarity {slope:.1e}")


def compare(name: str, X: np.ndarray, y: np.ndarray, python: str) -> None:
    mmc = sm.MMCProblem.from_labels(X, y, 150)
    distances = np.sum((X[mmc.pairs[:, 0]] - X[mmc.pairs[:, 1]]) ** 2, axis=1)
    bounds = np.percentile(distances, [20, 80])
    problems = {"mmc": mmc}
    for gamma in GAMMAS:
        problems[f"itml {gamma:g}"] = sm.ITMLProblem(X, mmc.pairs, mmc.similar, *bounds, gamma)
    d, balance = X.shape[1], 0.05 / len(mmc.pairs)
    lsml = sm.LSMLProblem.from_labels(X, y, 200, np.eye(d))
    scml = sm.SCMLProblem.from_labels(X, y, 10 * d)
    problems["lsml"], problems["scml"] = lsml, scml
    problems["sdml"] = sm.SDMLProblem(X, mmc.pairs, mmc.similar, np.eye(d), 0.05, 0.01)
    quadruplets, triplets = lsml.terms[0].quadruplets, scml.terms[0].triplets
    shared = {"quadruplets": quadruplets, "triplets": triplets, "bases": scml.domain.basis, "balance": balance}
    drawn = {"pairs": mmc.pairs, "similar": mmc.similar, "bounds": bounds, "gammas": GAMMAS}
    metrics = ask(PEER, python, X=X, y=y, **drawn, **shared)
    for kind, problem in problems.items():
        M = psd.project(metrics[kind])
        if kind == "scml":  # up to rounding a combination of the bases
            w = problem.domain.combination(M)
            M = (problem.domain.basis.T * w) @ problem.domain.basis
        if kind == "mmc":  # the same objective up to the metric's scale
            M /= problem.spent(psd.factor(M))
        own, theirs = sm.solve(problem), problem.certify(metric=M)
        above = (theirs.objective - own.lower_bound) / abs(own.objective)
        say(name, kind, own, above)
        if kind == "lsml":
            roots = [rooted(X, quadruplets, metric) for metric in (own.metric, M)]
            print(f"{name}, lsml with square roots, not convex: {roots[0]:.6f} here, {roots[1]:.6f} by metric-learn")


def main(python: str) -> None:
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1, 2], [30, 20, 10])
    data = {name: load(return_X_y=True) for name, load in (("iris", load_iris), ("wine", load_wine))}
    for name, (X, labels) in data.items():
        compare(name, StandardScaler().fit_transform(X), labels, python)
    compare_mlkr(python)
    compare("random", rng.normal(size=(60, 3)) + (y == 1)[:, None], y, python)


if __name__ == "__main__":
    main(sys.argv[1])
