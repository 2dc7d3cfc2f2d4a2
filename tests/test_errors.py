"""Bad arguments of every room: an error names the argument, or says the reason where no single one is to blame.

What a check refuses is tried once, on the check; a statement or a verb is tried with one bad value of each argument.
"""

import math
from dataclasses import replace
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from instances import NINE_LABELS, PAIRS, SIMILAR, nine_rows
from sklearn.decomposition import PCA, KernelPCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import sdpmetric as sm
from sdpmetric import classification, datasets, estimators, ranking, terms
from sdpmetric.core import validation
from sdpmetric.core.verbs import linear_map

INF, NAN, N = math.inf, math.nan, 9
X, Y, TIMES = nine_rows(), NINE_LABELS, np.arange(float(N))
LINE, TWO_PAIRS, SIGNS = np.array([[0.0], [1.0], [2.0]]), [[0, 1], [0, 2]], [True, False]
X_WITH_NAN, EYE_3, EYE_2 = np.where(np.arange(N)[:, None] == 2, NAN, X), np.eye(3), np.eye(2)
FOUR_POINTS = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [2.0, 3.0]])
ONES_2_BY_3, TWO_FACTORS, FOUR_ROWS = np.ones((2, 3)), np.ones((2, 3, 3)), np.random.default_rng(0).normal(size=(4, 3))
KERNEL = np.exp(-np.sum((X[:, None] - X) ** 2 / 50.0, axis=2))
LABELED, PAIRED = {"X": X, "y": Y}, {"X": X, "pairs": PAIRS, "similar": SIMILAR}
POLA = {"X": LINE, "pairs": TWO_PAIRS, "similar": SIGNS}
RANKED, TRIPLET = {"X": np.eye(4), "relevance": [0, 0, 1, 1]}, [[0, 1, 2]]
PRECOMPUTED = {"y": Y, "n_neighbors": 1, "kernel": "precomputed"}
NEIGHBORS = {"X_train": X, "y_train": Y, "X": X}
ENERGIES = NEIGHBORS | {"target_neighbors": np.array([1, 2, 0, 4, 5, 6, 3, 8, 7])[:, None]}
LMNN = sm.LMNNProblem.from_labels(X, Y, 1)
NO_FLOAT, ITSELF = 10**400, []  # an integer that is no float, and a list that contains itself
ITSELF.append(ITSELF)
# Words for arguments whose names are letters, or are not those that errors have.
WORDS = {"X": "X|feature", "y": "y |class|label|target", "y_train": "label|class|y ", "u": "u |example"}
WORDS |= {"to": "to |prior|frobenius", "triplet_weights": "weights of triplet"}


def bad(call, good=(), **values):
    """A case for each bad value of an argument, beside the good ones."""
    title = getattr(call, "__qualname__", getattr(call, "__name__", "")).removesuffix(".from_labels")
    return [
        pytest.param(call, dict(good) | {name: value}, WORDS.get(name, name.removesuffix("s")), id=f"{title}: {name}")
        for name, value in values.items()
    ]


def lego(**arguments):
    stream = sm.LEGOStream(2, 0.3)
    return stream.update(**arguments) if arguments else stream


def index(**arguments):
    filled = sm.HashIndex(EYE_2, 8).add([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    return filled.query(**arguments) if arguments else filled


def frml(**options):
    return sm.FRMLStream(3, **{"n_components": 2, **options})


def pairs(learner=None, pairs=PAIRS, y=SIMILAR, **options):
    return estimators.PairClassifier(learner or estimators.ITML(), **{"examples": X, **options}).fit(pairs, y)


def regret(problem, solution=None, **options):
    return sm.regret(problem, solution or sm.solve(problem), **options)


def unsolved(problem):
    certificate = problem.certify(np.eye(3))
    return sm.Solution(np.eye(3), certificate, certificate.status(1.0), "none", problem=problem)


class Silent(sm.ITMLProblem):
    constraints = None


LEGO, STREAM = sm.LEGOProblem(X, PAIRS, 1.0 + TIMES), sm.POLAProblem(**PAIRED)


def bounded(objective, constraints, *solver, **options):
    return sm.bound(cp.Problem(cp.Minimize(objective), constraints), *solver, **options)


W = cp.Variable(3)


def total(*parts, **options):
    return sm.MetricProblem(FOUR_ROWS, sum(parts[1:], parts[0]), **options)


BAD_ARGUMENTS = [
    *bad(sm.POLAProblem, POLA, X=[[0.0], [NAN], [1.0]], similar=[1, 0], slack_weight=0, initial_threshold=NAN),
    *bad(sm.POLAProblem(**POLA).certify, {"metric": [[1.0]]}, dual=[1.0], threshold=NAN),
    *bad(sm.solve, {"problem": sm.POLAProblem(**POLA), "solver": "batch"}, beta=0.0),
    *bad(sm.MMCProblem, PAIRED, X=X_WITH_NAN, pairs=[[0, 1], [2]], similar=-SIMILAR[:1], pair_weights=[1.0]),
    *bad(sm.MMCProblem.from_labels, LABELED, n_pairs=0),
    *bad(sm.ITMLProblem, PAIRED | {"lower": 7.0}, gamma=-1.0, upper=7.0, prior=-EYE_3),
    *bad(sm.POLAStream, {"n_features": 2}, n_features=0, initial_threshold=0.5),
    *bad(sm.KernelPOLAStream, {"n_features": 2}, gamma=NAN, kernel="spline", kernel_params={"breadth": 2.0}),
    *bad(sm.LMNNProblem, {"X": X}, source=Y),
    *bad(LMNN.with_weights, ridge=-1.0, push_weight=1.5),
    *bad(sm.MultiMetricLMNNProblem.from_labels, LABELED | {"n_neighbors": 1}, regions="nearest", n_regions=3),
    *bad(sm.MultiMetricLMNNProblem.from_labels, LABELED | {"n_neighbors": 1}, regions=np.arange(N) == 4),
    *bad(sm.MultiMetricLMNNProblem.from_labels, LABELED | {"n_neighbors": 1}, regions=np.where(Y == 1, NAN, 1.0)),
    *bad(sm.NCAProblem, LABELED, n_components=4, objective="f", targets="soft", bandwidth=1.0),
    *bad(sm.NCAProblem, {"X": X, "y": TIMES, "targets": "continuous"}, y=np.ones(N), bandwidth=-1.0),
    *bad(sm.MLKRProblem, {"X": X, "y": TIMES}, y=np.r_[NAN, TIMES[1:]], n_components=4),
    *bad(sm.LSMLProblem, {"X": X, "quadruplets": [[0, 1, 2, 3]]}, quadruplets=[[0, 1, 2, 99]], prior="pca"),
    *bad(sm.SCMLProblem, {"X": X, "triplets": TRIPLET, "bases": EYE_3}, bases=0 * ONES_2_BY_3, sparsity=0.0),
    *bad(frml, n_components=4, loss="map", gamma=0.5, init=ONES_2_BY_3, batch_size=0),
    *bad(sm.FRMLProblem, {"X": np.eye(4), "relevance": [0, 0, 1, 1]}, n_components=5),
    *bad(ranking.evaluate, RANKED, X=1j * EYE_3, metric=-np.eye(4), ks=(0,)),
    *bad(sm.Relevance.from_lists, {"lists": [[0]]}, n_items=2.7),
    *bad(sm.LEGOProblem, {"X": FOUR_POINTS, "pairs": [[0, 1]], "targets": 1.0}, pairs=[[1, 2]], targets=NAN, sides=2),
    *bad(sm.LEGOStream, {"n_features": 2, "learning_rate": 0.3}, n_features=0, learning_rate=0.0, prior=-EYE_2),
    *bad(lego, {"u": [1.0, 1.0], "v": [0.0, 1.0], "target": 1.0}, u=[1.0, NAN], target=-0.1, side=2),
    *bad(sm.KernelLEGOStream, {"learning_rate": 0.3}, kernel="gauss", kernel_params={"breadth": 2.0}),
    *bad(sm.HashIndex, {"components": EYE_2}, components=[[1e200, 0.0]], n_bits=0, dtype=np.int32, rehash_share=1.5),
    *bad(sm.HashIndex, {"components": EYE_2}, random_state=-1),
    *bad(index, {"q": [0.0, 1.0], "k": 1}, k=4, share=2.0),
    *bad(classification.knn_predict, NEIGHBORS | {"components": EYE_3}, X=X[:, :2], y_train=Y[:-1], n_neighbors=10),
    *bad(classification.knn_predict, NEIGHBORS, components=ONES_2_BY_3 * INF),
    *bad(classification.knn_predict, NEIGHBORS | {"components": TWO_FACTORS}, regions=np.arange(N) % 2 / 2),
    *bad(classification.energies, ENERGIES | {"components": EYE_3}, X=X[:, :2], y_train=0 * Y, push_weight=1.5),
    *bad(classification.energies, ENERGIES | {"components": EYE_3}, target_neighbors=[[1], [2, 3]]),
    *bad(classification.energies, ENERGIES | {"components": EYE_3}, target_neighbors=np.full((N, 2), -1)),
    *bad(classification.energies, ENERGIES | {"components": EYE_3}, target_neighbors=np.full((N, 1), "1")),
    *bad(classification.energies, ENERGIES | {"components": TWO_FACTORS}, regions=np.full(N, 2)),
    *bad(sm.solve, {"problem": LMNN}, solver="simplex", tol=0.0, max_time=-1.0, max_iter=1.5, callback=3, score=3),
    *bad(sm.solve, {"problem": LMNN}, init=EYE_2, n_components=7, stepp="paper", random_state="a"),
    *bad(sm.solve, {"problem": LMNN, "solver": "conic"}, backend="OSQP", backend_options={"no_such_option": 1}),
    *bad(sm.solve, {"problem": LMNN, "solver": "subgradient"}, step="newton", check_every=0),
    *bad(sm.solve, {"problem": LMNN}, max_time=NO_FLOAT, max_iter=NO_FLOAT, patience=3),
    *bad(sm.solve, {"problem": LMNN, "score": len}, patience=0),
    *bad(sm.solve, {"problem": LMNN, "score": len}, patience=True),
    *bad(sm.LMNNProblem.from_labels, LABELED | {"n_neighbors": 1}, push_weight=ITSELF),
    *bad(sm.KernelLMNNProblem.from_labels, LABELED | {"n_neighbors": 1}, gamma=NO_FLOAT),
    *bad(sm.ITMLProblem.from_labels, LABELED, prior=NO_FLOAT),
    *bad(sm.SCMLProblem.from_labels, LABELED, n_bases=NO_FLOAT),
    *bad(sm.constraints.pairs, y=[]),
    *bad(sm.path, {"problem": LMNN}, push_weight=[0.1, "half"]),
    *bad(sm.squared_distances, {"X": X, "pairs": [[0, 1]]}, M=cp.Variable((2, 2))),
    *bad(sm.triplet_margins, {"M": cp.Variable((3, 3), symmetric=True), "X": X}, triplets=[[0, 1, 1]]),
    *bad(datasets.concentric_circles, n_circles=0, n_points=1.5, radius=-1.0),
    *bad(datasets.concentric_rings, random_state=[1, 2], n_points=NO_FLOAT),
    *bad(datasets.standardize, X=X_WITH_NAN),
    *bad(datasets.reduce, {"n_components": 1}, X=X_WITH_NAN),
    *bad(pairs, y=np.where(SIMILAR > 0, "same", "other"), examples=X[:5]),
    *bad(pairs, {"examples": None, "pairs": X[PAIRS]}, y=SIMILAR[1:]),
]


@pytest.mark.parametrize(("call", "arguments", "words"), BAD_ARGUMENTS)
@pytest.mark.filterwarnings("error")
def test_an_error_names_the_argument(call, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(**arguments)


# What the checks refuse, by check and arguments that follow the argument's name.
CHECKS = {
    validation.check_number: [(bad_value, 0.0, 1.0) for bad_value in (-0.1, 1.1, NAN, INF, "half", None)],
    validation.check_positive: [(0.0,), (-1.0,), (NAN,), (INF,)],
    validation.check_integer: [(bad_value,) for bad_value in (0, -1, 2.5, "3", None, True)],
    validation.check_choice: [("spline", ("rbf", "linear"))],
    validation.check_rows: [
        (bad_rows, N, ("m", 2)) for bad_rows in ([[0, N]], [[-1, 2]], [0, 1], [[0.5, 1.0]], [[0.0, 1.0]])
    ],
    validation.check_matrix: [(EYE_2, (3, 3)), (EYE_3 * NAN, (3, 3)), ([["a"]], (1, 1))],
    validation.check_vector: [([1.0], 2), ([1.0, INF], 2), ("abc", 2), ([1j, 1.0], 2), ([[1.0, 2.0]], 2), ([], None)],
    validation.check_positive_definite: [(-EYE_3, 3), (EYE_2, 3), (np.triu(np.ones((3, 3))), 3), (EYE_3 * NAN, 3)],
    validation.rectangular: [([[1], [0, 1]],)],
    validation.unmasked: [(np.ma.masked_greater(X, 1.0),)],
}


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        pytest.param(check, row, id=f"{check.__name__}: {str(row[0])[:30]}")
        for check, rows in CHECKS.items()
        for row in rows
    ],
)
def test_a_check_names_what_it_refuses(check, arguments):
    with pytest.raises((TypeError, ValueError), match="thing"):
        check("thing", *arguments)


REASONS = {
    "does not take": [lambda: sm.solve(sm.POLAProblem(**POLA, slack_weight=0.3), solver="batch")],
    "names a row twice": [lambda: sm.POLAProblem(LINE, [[0, 1], [2, 2]], SIGNS)],
    "pairs is empty|no pairs": [lambda: sm.POLAProblem(LINE, np.zeros((0, 2), int), [])],
    "no (dis)?similar pairs": [partial(sm.MMCProblem, X, TWO_PAIRS, sides) for sides in ([True, True], [-1, -1])],
    "listed both": [lambda: sm.MMCProblem(X, [[0, 1], [1, 0], [2, 3]], [True, False, False])],
    "similar and as dissimilar": [lambda: sm.ITMLProblem(X, [[0, 1], [1, 0]], SIGNS)],
    "coincide": [
        lambda: sm.MMCProblem([[0.0], [1.0], [0.0]], TWO_PAIRS, SIGNS),
        lambda: sm.KernelLMNNProblem.from_labels(np.ones((N, N)), **PRECOMPUTED),
    ],
    "two equal examples": [lambda: sm.ITMLProblem(X[[0, 1, 2, 3, 4, 5, 0, 7, 8]], PAIRS, SIMILAR)],
    "are equal": [
        lambda: lego(u=[1.0, 1.0], v=[1.0, 1.0], target=1.0),
        lambda: estimators.LFDA().fit(np.full((4, 2), 0.1), [0, 0, 1, 1]),
    ],
    "one row": [lambda: sm.NCAProblem(X[:1], Y[:1]), lambda: sm.MLKRProblem(X[:1], [1.0])],
    "diagonal": [
        lambda: sm.NCAProblem(X, Y, 2, diagonal=True),
        lambda: sm.NCAProblem(X, Y, diagonal=True).certify(np.ones((3, 3))),
    ],
    "one column per feature": [lambda: sm.NCAProblem(X, Y).certify(np.ones((2, 4)))],
    "square|symmetric|positive semi|NaN": [
        partial(sm.KernelLMNNProblem.from_labels, KERNEL[:, :-1], **PRECOMPUTED),
        partial(sm.KernelLMNNProblem.from_labels, KERNEL + 1e-3 * np.eye(N, k=1), **PRECOMPUTED),
        partial(sm.KernelLMNNProblem.from_labels, KERNEL - 0.02 * np.eye(N), **PRECOMPUTED),
        partial(sm.KernelPOLAStream(3, lambda A, B: -A @ B.T).partial_fit, X, PAIRS, SIMILAR > 0),
        partial(sm.KernelLEGOStream(0.1, "sigmoid", {"gamma": 3.0}).partial_fit, X, PAIRS, 1.0),
        partial(sm.KernelLEGOStream(0.1, lambda A, B: -A @ B.T).update, X[0], X[1], 1.0),
        partial(sm.KernelLEGOStream(0.1, lambda A, B: A @ B.T + np.arange(len(B))).update, X[0], X[1], 1.0),
        partial(sm.KernelLEGOStream(0.1, lambda A, B: A @ B.T * INF).update, X[0], X[1], 1.0),
    ],
    "columns": [lambda: sm.KernelLMNNProblem.from_labels(KERNEL, **PRECOMPUTED).transform(KERNEL[:3, :-1])],
    "every class has one member": [
        lambda: sm.solve(sm.NCAProblem(X[:4], np.arange(4))),
        lambda: sm.LSMLProblem.from_labels(X[:3], [0, 1, 2]),
        lambda: estimators.LMNN().fit(np.eye(4), [*"abcd"]),
    ],
    "7 items|7 queries|rows": [lambda: sm.FRMLProblem(X, sm.Relevance.from_labels(Y[:7]), 2)],
    "no (ir)?relevant|irrelevant items|no queries": [
        lambda: frml().update(ONES_2_BY_3[0], ONES_2_BY_3[0], ONES_2_BY_3[:0]),
        lambda: frml().partial_fit(EYE_3, [0, 0, 1]),
        lambda: sm.Relevance.from_lists([], 3),
        lambda: sm.Relevance.from_labels([0, 0, 1, 2, 2]),
        lambda: sm.Relevance.from_labels([0, 0, 0], unanswerable="exclude"),
    ],
    "given apart from X": [
        lambda: sm.FRMLProblem(np.eye(4), [0, 0, 1, 1], 2, queries=np.eye(4)),
        lambda: ranking.evaluate(**RANKED, queries=np.eye(4)),
    ],
    "row numbers|1 queries and 3 items|'error' or 'exclude'": [
        lambda: sm.Relevance.from_lists([[0, 9]], 3),
        lambda: sm.Relevance.from_lists(5, 3),
        lambda: sm.Relevance.from_lists([[0]], 3, leave_one_out=True),
        lambda: sm.Relevance.from_labels([0, 1], [0], unanswerable="drop"),
    ],
    "scale them": [
        lambda: ranking.evaluate(1e80 * np.eye(4), [0, 0, 1, 1]),
        lambda: ranking.evaluate(np.eye(4), [0, 0, 1, 1], components=1e80 * np.eye(4)),
        lambda: ranking.evaluate(np.eye(4), [0, 0, 1, 1], components=1e-80 * np.eye(4)),
        lambda: sm.POLAStream(3).partial_fit(1e40 * X, [[0, 1]], [-1]),
        *(partial(estimators.POLA().fit, size * X, Y) for size in (1e80, 1e200)),
        *(partial(estimators.LEGO().fit, size * X, Y) for size in (1e-80, 1e-160, 1e100, 1e160)),
        *(partial(estimators.LEGO().partial_fit, size * X, Y) for size in (1e100, 1e160)),
        *(partial(estimators.Adapter().fit, size * X, Y) for size in (1e-170, 1e-100, 1e100)),
        *(partial(estimators.Adapter().fit, size * np.eye(9, 20), Y) for size in (1e-170, 1e-100, 1e100)),
        lambda: estimators.KernelLMNN(kernel="poly").fit(1e120 * X, Y),
        *(partial(kind(init=1e308 * EYE_3).fit, X, Y) for kind in (estimators.SDML, estimators.NCA, estimators.LMNN)),
        *(partial(kind(init=1e-80 * EYE_3).fit, X, Y) for kind in (estimators.SDML, estimators.NCA, estimators.LMNN)),
        *(partial(sm.LMNNProblem.from_labels, X, Y, 1, sample_weight=w * np.ones(N)) for w in (1e40, 1e-40)),
    ],
    "components": [
        partial(validation.check_factors, bad_factor, 3) for bad_factor in (EYE_2, "abc", np.zeros((0, 3, 3)), EYE_3[0])
    ],
    "scale the features": [
        *(
            partial(kind(prior=size * EYE_3).fit, X, Y)
            for kind in (estimators.ITML, estimators.LEGO)
            for size in (1e130, 1e-130)
        ),
        *(partial(sm.LMNNProblem.from_labels, X, Y, 1, ridge=ridge) for ridge in (1e130, 1e-130)),
        lambda: 1e-130 * terms.Trace(),
        lambda: sm.POLAProblem(X, PAIRS, SIMILAR, 1e130),
    ],
    "between 1e-60 and 1": [partial(sm.LMNNProblem.from_labels, X, Y, 1, 1e-70)],
    "overflow|too large": [
        lambda: classification.knn_predict(1e200 * ONES_2_BY_3, 1e200 * X, Y, X),
        lambda: classification.energies(1e160 * EYE_3, **ENERGIES),
        lambda: index().update(sm.MetricStep(np.array([1e200, 0]), np.ones(2))),
    ],
    r"\bshare\b": [lambda: index(q=[0.0, 1.0], k=1, share="abc")],
    "not measured": [lambda: ranking.evaluate(**RANKED).precision(5)],
    "this stream has|this index has|shape": [
        lambda: frml().partial_fit(np.eye(4), [0, 0, 1, 1]),
        lambda: sm.POLAStream(2).partial_fit(X, PAIRS, SIMILAR),
        lambda: index().add(np.zeros((2, 3))),
    ],
    r"\bids?\b": [
        lambda: index().add([[0.0, 1.0]], [1]),
        lambda: index().add([[0.0, 1.0], [0.0, 2.0]], [8, 8]),
        lambda: index().add([[0.0, 1.0]], [8, 9]),
        lambda: index().add([[0.0, 1.0]], ["a"]),
        lambda: index().add(EYE_2, [2**63 - 2, 2**63 - 1]).add(EYE_2),
    ],
    "the index is empty": [lambda: sm.HashIndex(EYE_2, 8).query([0.0, 1.0], 1)],
    "step|factor of this index|vectors of real numbers": [
        lambda: index().update(sm.MetricStep(np.zeros(2), np.array([0, NAN]))),
        lambda: index().update((np.zeros(2), np.zeros(2))),
        lambda: index().update(sm.MetricStep(np.zeros(2), np.zeros(3))),
        lambda: index().update(sm.MetricStep(["a", "b"], np.ones(2))),
    ],
    "several metrics": [lambda: classification.energies(TWO_FACTORS, **ENERGIES, regions=np.arange(N) % 2)],
    r"PairClassifier\(ITML\(\)\).fit takes pairs of examples": [
        lambda: estimators.ITML().fit(np.ones((6, 2, 3)), [1, -1] * 3)
    ],
    r"TripletClassifier\(LMNN\(\)\).fit takes triplets": [
        lambda: estimators.LMNN().fit_triplets(np.ones((3, 3, 2)), None)
    ],
    "fit_pairs needs": [lambda: estimators.ITML().fit_pairs(X, PAIRS)],
    "chunks.rows. = k": [lambda: estimators.RCA().fit_chunks(X, [[0, 1], [2, 3, 4]])],
    "number of principal components must be": [partial(datasets.reduce, np.eye(5, 3), n) for n in (4, "a")],
    "pixel|2D": [partial(datasets.deskew, images) for images in (np.ones((2, 24)), -np.ones((2, 25)), np.ones(25))],
    "takes a problem": [partial(verb, EYE_3) for verb in (sm.certify, sm.verify, sm.path, sm.to_cvxpy)],
    "takes a solution": [partial(verb, what) for verb in (sm.compare, sm.explain) for what in (None, X)],
    r"learning_rate=0\.3": [lambda: lego(u=[1e80, 0.0], v=[0.0, 0.0], target=2.0)],
    "X is too large": [lambda: datasets.standardize(np.full((12, 3), 1e200))],
    "is not an affine map": [
        partial(linear_map, fitted, X)
        for fitted in (KernelPCA(3, kernel="rbf", gamma=0.1).fit(X), make_pipeline(Normalizer(), PCA(2)).fit(X))
    ],
    "PCA has 3": [lambda: sm.verify(sm.LMNNProblem.from_labels(X[:, :2], Y, 1), estimator=PCA(2).fit(X))],
    "must be fitted": [lambda: sm.verify(LMNN, estimator="LMNN")],
    "'ball_tree'": [lambda: classification.nearest_neighbors(EYE_3, X, algorithm="annoy")],
    "engine must be|leave engine= out": [
        partial(sm.solve, LMNN, engine="abacus"),
        partial(sm.solve, LMNN, engine=42),
        partial(sm.solve, LMNN, "subgradient", engine="threads"),
    ],
    "pass it as explain|without its problem": [lambda: sm.explain(replace(sm.solve(LMNN), problem=None))],
    "no method constraints|stream|contradict each other": [
        *(partial(sm.explain, unsolved(problem)) for problem in (sm.NCAProblem(X, Y), sm.MLKRProblem(X, TIMES), LEGO)),
        lambda: sm.explain(unsolved(sm.FRMLProblem(X, Y, 2))),
        lambda: sm.explain(unsolved(Silent(X, PAIRS, SIMILAR))),
        lambda: sm.explain(sm.solve(STREAM, "online")),
        lambda: sm.explain(sm.solve(sm.POLAProblem(X, [[0, 1], [1, 0]], [True, False]))),
    ],
    "whole stream|it takes none|solution must be|options of that solve|it takes gamma|no regret bound": [
        lambda: regret(LEGO, sm.solve(LEGO, max_iter=5)),
        lambda: regret(LEGO, sm.solve(sm.LEGOProblem(X, PAIRS, 2.0 + TIMES))),
        lambda: regret(LEGO, gamma=1.0),
        lambda: sm.regret(LEGO, None),
        lambda: regret(STREAM, sm.solve(STREAM, "online", gamma=0.3)),
        lambda: regret(STREAM),
        lambda: regret(STREAM, sm.solve(STREAM, "online"), beta=0.3),
        lambda: regret(LMNN, sm.solve(STREAM, "online")),
    ],
    "pass bases": [
        lambda: sm.SCMLProblem.from_labels(np.ones((6, 2)), np.arange(6) // 3),
        lambda: sm.SCMLProblem.from_labels(np.ones((6, 2)) + np.arange(6)[:, None] // 3, np.arange(6) // 3),
        lambda: estimators.SCML().fit_triplets(X, TRIPLET),
    ],
    "distance_weight=1000 is too large": [lambda: sm.SDMLProblem(X, PAIRS, -SIMILAR, EYE_3, 1000.0)],
    "outside|no weight|twice": [
        partial(sm.to_cvxpy, LMNN, sm.Triplets.from_array(np.array(rows)))
        for rows in ([[0, 1, 99]], [[-1, 1, 2]], [[0, 2, 4]], [[0, *LMNN.source.targets[0], 8]] * 2)
    ],
    "integer|not convex|no value|cvxpy.Problem|max_time": [
        lambda: bounded(cp.sum(cp.Variable(2, integer=True)), []),
        lambda: sm.bound(cp.Problem(cp.Maximize(cp.sum_squares(W)))),
        lambda: bounded(cp.Parameter() * W[0], []),
        lambda: sm.bound(W),
        lambda: bounded(cp.sum(W), [W >= 1], max_time=0.0),
    ],
    # Estimators
    "The '.*' parameter of .* must be": [
        partial(estimators.LMNN(max_iter="a").fit, X, Y),
        partial(estimators.FRML(step=-1.0).fit, X, Y),
    ],
    "warm_start and init out": [partial(estimators.MMC(solver="conic", warm_start=True).fit, X, Y)],
    "name the kernel, or leave early_stopping out": [
        partial(estimators.KernelLMNN(kernel="precomputed", early_stopping=True).fit, KERNEL, Y)
    ],
    "X is sparse, 9 x 90,000, .*TruncatedSVD": [partial(estimators.LMNN().fit, sp.csr_array((9, 90_000)), Y)],
    "LMNN|one metric for each class": [
        partial(estimators.EnergyClassifier(learner).fit, X, Y)
        for learner in (
            StandardScaler(),
            estimators.KernelLMNN(),
            estimators.MultiMetricLMNN(regions="kmeans", tol=0.5),
        )
    ],
    "so few examples are all equally far": [
        partial(estimators.ITML(prior="covariance").fit, np.eye(11, 13), np.arange(11) % 2)
    ],
    "init='lda' needs labels": [partial(estimators.ITML(init="lda").fit_pairs, X, PAIRS, SIMILAR)],
    "the classes have . chunklets of 2 examples|chunk_size": [
        lambda: estimators.RCA(n_chunks=12, chunk_size=2).fit(X, Y),
        lambda: sm.constraints.chunks(Y, 2, 1),
    ],
    "pass labels=|labels has 5 entries|labels= are those of examples": [
        partial(pairs, estimators.LMNN()),
        lambda: estimators.PairClassifier(estimators.LMNN(), examples=X).fit(PAIRS, SIMILAR, labels=Y[:5]),
        lambda: estimators.PairClassifier(estimators.LMNN()).fit(X[PAIRS], SIMILAR, labels=Y),
    ],
    "strategy|min_rate|beta|none is dissimilar": [
        *(partial(pairs, strategy=name, min_rate=0.5, beta=-1.0) for name in ("weird", "f_beta")),
        *(partial(pairs, strategy=s, min_rate=rate) for s in ("max_tpr", "max_tnr") for rate in (None, "a", -0.2, 1.2)),
        *(partial(pairs, strategy="f_beta", beta=beta) for beta in (None, "weird")),
        lambda: pairs().calibrate_threshold(PAIRS[SIMILAR > 0], SIMILAR[SIMILAR > 0], "f_beta"),
    ],
    "threshold": [lambda: pairs().set_threshold("a")],
    "must be a transformer": [partial(pairs, KNeighborsClassifier()), partial(pairs, estimators.MultiMetricLMNN())],
    "examples=|shape|integers": [
        lambda: pairs(pairs=PAIRS + 0.5),
        lambda: pairs(examples=None),
        lambda: pairs(None, np.zeros((2, 3, 4)), [1, -1], examples=None),
    ],
    "too large for float32 .* pass float64": [
        partial(kind().fit, (1e-43 * X).astype(np.float32), Y) for kind in (estimators.LMNN, estimators.RCA)
    ],
    "chunks": [
        partial(estimators.RCA().fit_chunks, FOUR_POINTS, c) for c in ([0, 0, 1], [0.0, 0.0, 1.0, 1.0], [0, 0, -2, 1])
    ],
    "no chunklet": [
        lambda: estimators.RCA().fit_chunks(FOUR_POINTS, [0, 1, 2, -1]),
        lambda: estimators.RCA(ridge=0.0).fit_chunks(FOUR_POINTS, [0, 0, -1, -1]),
    ],
    "larger ridge": [lambda: estimators.RCA(ridge=1e-30).fit_chunks(FOUR_POINTS, [0, 0, -1, -1])],
    "in which no class": [lambda: estimators.LFDA(ridge=0.0).fit(X, np.arange(N))],
    "init": [
        partial(estimators.FRML(init=EYE_2).fit, X, Y),
        partial(estimators.NCA(init=np.ones((2, 5))).fit, X, Y),
        partial(estimators.NCA(init=ONES_2_BY_3, n_components=3).fit, X, Y),
    ],
    # Terms
    "pull": [lambda: terms.Pull([[0, 1]]) * NAN, lambda: total(terms.Pull([[0, 4]]))],
    "pairs= or labels=": [lambda: total(terms.Pull())],
    "triplet": [
        lambda: total(terms.TripletHinge([[0, 1, 5]])),
        lambda: total(terms.TripletHinge(np.zeros((0, 3), int))),
        lambda: total(terms.TripletHinge(labels=[0, 0, 1, 1], n_neighbors=3)),
    ],
    "loss of": [lambda: total(terms.TripletHinge(TRIPLET, loss="square"))],
    "similar": [lambda: total(terms.PairHinge([[0, 1]])), lambda: total(terms.PairHinge([[0, 1]], [2]))],
    "log_det": [lambda: total(terms.LogDet(to=np.zeros((3, 3)))), lambda: total(terms.LogDet(), bases=EYE_3[:2])],
    "weight 0": [lambda: total(0.0 * terms.Trace())],
    "terms": [lambda: sm.MetricProblem(X, [terms.Trace()])],
    "push_weight": [lambda: total(terms.Trace()).with_weights(push_weight=1.0)],
    "zero metric satis": [lambda: total(terms.TripletHinge(TRIPLET, loss="hard", margin=0.0))],
    "exclude": [lambda: total(terms.Trace(), diagonal=True, bases=EYE_3)],
    "bases": [lambda: total(terms.Trace(), bases=EYE_2)],
    "domain": [
        lambda: total(terms.Trace(), diagonal=True).certify(np.ones((3, 3))),
        lambda: total(terms.Trace(), bases=FOUR_ROWS).certify(np.ones((3, 3))),
    ],
    "2 directions": [lambda: total(terms.Spread([[0, 1], [1, 2], [2, 3]]), terms.Pull([[0, 1]]))],
}


CASES = [
    pytest.param(reason, call, id=f"{reason[:60]}, {k}")
    for reason, calls in REASONS.items()
    for k, call in enumerate(calls)
]


@pytest.mark.parametrize(("reason", "call"), CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_error_says_the_reason(reason, call):
    with pytest.raises((TypeError, ValueError), match=reason):
        call()
