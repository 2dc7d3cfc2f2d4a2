"""Arguments of statements that are out of range: a sentence names each, whatever the statement."""

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.report import write

N = 9
X = np.random.default_rng(0).normal(size=(N, 3)) * [1.0, 10.0, 0.3]
Y = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
T = np.arange(float(N))
PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 6], [1, 7], [2, 5], [6, 7], [3, 8], [3, 8]])
SIMILAR = np.array([1, 1, 1, -1, -1, -1, 1, -1, -1])
LINE, TWO_PAIRS, SIGNS = np.array([[0.0], [1.0], [2.0]]), [[0, 1], [0, 2]], [True, False]
HOLED = np.where(np.arange(N)[:, None] == 2, np.nan, X)
EQUAL = X[[0, 1, 2, 3, 4, 5, 0, 7, 8]]
CHUNKS = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.5]]
ROW, ROWS = np.ones(3), np.ones((2, 3))
KERNEL = np.exp(-np.sum((X[:, None] - X) ** 2 / 50.0, axis=2))
FROBENIUS = sm.LMNNProblem.from_labels(X, Y, 1, 0.5, frobenius=1.0)


def itml(**options):
    return sm.ITMLProblem(X, PAIRS, SIMILAR, **{"upper": 1.0, "lower": 7.0, "gamma": 0.3, **options})


def kernel(K, **options):
    return sm.KernelLMNNProblem.from_labels(K, Y, 1, **{"kernel": "precomputed", **options})


def several(**options):
    return sm.MultiMetricLMNNProblem.from_labels(X, Y, 1, **options)


def queries(**options):
    return sm.QueryProblem(X, [[0, 1, 2], [3, 4, 5]], **options)


def mlr(loss="auc", C=1.0):
    return sm.MLRProblem.from_labels(X, Y, loss, C)


def frml(rank=2, **options):
    return sm.FRMLStream(3, rank, **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # Pairs
        (lambda: sm.POLAProblem([[0.0], [np.nan], [1.0]], TWO_PAIRS, SIGNS), "NaN"),
        (lambda: sm.POLAProblem(LINE, [[0, 1], [0, 3]], SIGNS), "outside 0..2"),
        (lambda: sm.POLAProblem(LINE, [[0, 1], [-1, 2]], SIGNS), "outside 0..2"),
        (lambda: sm.POLAProblem(LINE, [[0.0, 1.0], [0.0, 2.0]], SIGNS), "integer"),
        (lambda: sm.POLAProblem(LINE, [[0, 1], [2, 2]], SIGNS), r"pair \[2, 2\] repeats a row"),
        (lambda: sm.POLAProblem(LINE, np.zeros((0, 2), int), []), "pairs is empty"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, [True]), "similar must have"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, [1, 0]), r"\+1"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, ["yes", "no"]), "bool"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, [1, np.nan]), "bool"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, 0), "slack_weight must be positive"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, -1.0), "slack_weight"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, np.inf), "slack_weight"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, None, 0.9), "initial_threshold"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, None, np.nan), "initial_threshold"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS).certify(metric=[[1.0]], dual=[1.0]), "dual must have shape"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS).certify(metric=[[1.0]], threshold=np.nan), "threshold"),
        (lambda: sm.POLAProblem(LINE, TWO_PAIRS, SIGNS).objective(), "exactly one"),
        (lambda: sm.solve(sm.POLAProblem(LINE, TWO_PAIRS, SIGNS, 0.3), solver="batch"), "does not take POLA"),
        (lambda: sm.solve(sm.POLAProblem(LINE, TWO_PAIRS, SIGNS), solver="batch", beta=0.0), "beta"),
        (lambda: sm.MMCProblem(X, [[0, 0], [1, 2]], SIGNS), r"pair \[0, 0\] repeats a row"),
        (lambda: sm.MMCProblem(X, [[0, 1], [1, 0], [2, 3]], [True, False, False]), r"\[0, 1\] is listed both.* \(1"),
        (lambda: sm.MMCProblem(X, [[0, 1], [1, 9]], SIGNS), "outside 0..8"),
        (lambda: sm.MMCProblem(X, TWO_PAIRS, [True, True]), "no dissimilar pairs"),
        (lambda: sm.MMCProblem(X, TWO_PAIRS, [-1, -1]), "no similar pairs"),
        (lambda: sm.MMCProblem(X, TWO_PAIRS, [1, 0]), "must be bool, or"),
        (lambda: sm.MMCProblem(X, TWO_PAIRS, [True]), "one flag for each pair"),
        (lambda: sm.MMCProblem(X, [[0.0, 1.0], [1, 2]], SIGNS), "integer"),
        (lambda: sm.MMCProblem(HOLED, PAIRS, SIMILAR), "NaN"),
        (lambda: sm.MMCProblem([[0.0], [1.0], [0.0]], TWO_PAIRS, SIGNS), "coincide"),
        (lambda: sm.MMCProblem(X, PAIRS, SIMILAR).certify(np.eye(3), dual=np.ones(4)), r"dual must have shape \(5,\)"),
        (lambda: sm.MMCProblem.from_labels(X, Y, 0), "n_pairs"),
        (lambda: itml(gamma=0.0), "gamma must be positive"),
        (lambda: itml(gamma=-1.0), "gamma must be a finite number"),
        (lambda: itml(gamma=np.nan), "gamma must be a finite number"),
        (lambda: itml(upper=7.0), "upper must be positive and below lower"),
        (lambda: itml(upper=0.0), "upper must be positive"),
        (lambda: itml(prior=np.diag([1.0, 1.0, 0.0])), "positive definite"),
        (lambda: itml(prior=np.eye(2)), r"shape \(3, 3\)"),
        (lambda: itml().certify(np.eye(3), dual=ROW), r"dual must have shape \(9,\)"),
        (lambda: sm.ITMLProblem(EQUAL, PAIRS, SIMILAR), r"dissimilar pair \[0, 6\] has two equal examples"),
        (lambda: sm.ITMLProblem(X, [], []), "there are no pairs"),
        (lambda: sm.ITMLProblem(X, [[0, 1], [1, 0]], SIGNS), "similar and as dissimilar"),
        # Labels and targets
        (lambda: sm.MCMLProblem(X, [0] * 8 + [1]), "class 1 has one member;"),
        (lambda: sm.MCMLProblem(X, ["a"] * 8 + ["b"]), r"class 'b' has one member;.* merge or drop"),
        (lambda: sm.MCMLProblem(X, [0] * 9), "one class only"),
        (lambda: sm.MCMLProblem(HOLED, Y), "NaN"),
        (lambda: sm.MCMLProblem(X, Y[:-1]), "8 entries"),
        (lambda: sm.MCMLProblem(X, Y).certify(np.eye(3), dual=np.ones(9)), "dual must have shape"),
        (lambda: sm.NCAProblem(X, Y, 4), "n_components must be"),
        (lambda: sm.NCAProblem(X, Y, 0), "n_components must be"),
        (lambda: sm.NCAProblem(X, Y, 2, diagonal=True), "diagonal factor has 3 rows"),
        (lambda: sm.NCAProblem(X, Y, objective="f"), "'probability' or 'log'"),
        (lambda: sm.NCAProblem(X, Y, targets="soft"), "'classes' or 'continuous'"),
        (lambda: sm.NCAProblem(X, Y, bandwidth=1.0), "bandwidth is for"),
        (lambda: sm.NCAProblem(X, Y[:-1]), "8 entries"),
        (lambda: sm.NCAProblem(X[:1], Y[:1]), "one row"),
        (lambda: sm.NCAProblem(HOLED, Y), "NaN"),
        (lambda: sm.NCAProblem(X, ["a"] * N, targets="continuous"), "one number per row"),
        (lambda: sm.NCAProblem(X, np.ones(N), targets="continuous"), "constant"),
        (lambda: sm.NCAProblem(X, T, targets="continuous", bandwidth=-1.0), "bandwidth must be"),
        (lambda: sm.NCAProblem(X, np.r_[np.inf, T[1:]], targets="continuous"), "NaN or infinity"),
        (lambda: sm.NCAProblem(X, Y).certify(np.ones((2, 4))), "one column per feature"),
        (lambda: sm.NCAProblem(X, Y, diagonal=True).certify(np.ones((3, 3))), "must be a diagonal"),
        (lambda: sm.NCAProblem(X, Y, diagonal=True).certify(metric=np.ones((3, 3))), "must be a diagonal"),
        (lambda: sm.MLKRProblem(X, np.ones(N)), "constant"),
        (lambda: sm.MLKRProblem(X, ["a"] * N), "one number per row"),
        (lambda: sm.MLKRProblem(X, T[1:]), "8 entries"),
        (lambda: sm.MLKRProblem(X, np.r_[np.nan, T[1:]]), "NaN or infinity"),
        (lambda: sm.MLKRProblem(X, T, 4), "n_components must be"),
        (lambda: sm.MLKRProblem(X, T, 2, diagonal=True), "diagonal factor has 3 rows"),
        (lambda: sm.MLKRProblem(X[:1], [1.0]), "one row"),
        # LMNN with a Frobenius term, with kernels and with several metrics
        (lambda: sm.LMNNProblem(X, Y), "source must be what .*from_labels makes of labels, got ndarray"),
        (lambda: sm.MultiMetricLMNNProblem(X, Y, np.unique(Y)), "tied must be what .*from_labels makes of labels"),
        (lambda: FROBENIUS.with_weights(frobenius=-1.0), "frobenius"),
        (lambda: sm.LMNNProblem.from_labels(X, Y, 1, loss="squared_hinge", frobenius=1.0), "hinge only"),
        (lambda: sm.LMNNProblem.from_triplets(X, [[0, 1, 2]], push_weight=1.5, frobenius=1.0), "push_weight"),
        (lambda: kernel(KERNEL[:, :-1]), "square"),
        (lambda: kernel(KERNEL + 1e-3 * np.eye(N, k=1)), "not symmetric"),
        (lambda: kernel(-KERNEL), "not positive semidefinite"),
        (lambda: kernel(KERNEL - 0.02 * np.eye(N)), "not positive semidefinite"),
        (lambda: kernel(np.ones((N, N))), "coincide"),
        (lambda: kernel(np.where(np.eye(N) > 0, np.nan, KERNEL)), "NaN"),
        (lambda: kernel(X, kernel="rbv"), "kernel must be one of"),
        (lambda: kernel(KERNEL).transform(KERNEL[:3, :-1]), "columns"),
        (lambda: several(regions="nearest"), "regions must be 'class', 'kmeans', 'spectral' or an array"),
        (lambda: several(regions=np.zeros(3)), "one region for each of 9"),
        (lambda: several(regions=np.arange(N) == 4), "region True has 1 member"),
        (lambda: several(regions="kmeans", n_regions=0), "n_regions must be a positive integer and at most 9"),
        (lambda: several(n_regions=3), "one region for each class"),
        (lambda: several(regions=np.where(Y == 1, np.nan, 1.0)), "regions contains NaN"),
        (lambda: several(regions=np.array([None, *"ab" * 4], dtype=object)), "regions contains missing labels"),
        (lambda: several(regions=np.array([1, *"ab" * 4], dtype=object)), "regions mixes labels that have no order"),
        # Maps of queries
        (lambda: queries(to=np.eye(2)), "to must"),
        (lambda: queries(frobenius=0.0), "frobenius"),
        (lambda: queries(loss="hard"), "hard"),
        (lambda: queries(loss="nonsense"), "nonsense"),
        (lambda: queries(margin=-1.0), "margin"),
        (lambda: queries(triplet_weights=ROW), "weights"),
        (lambda: sm.certify(queries(), metric=np.eye(3)), "map of queries"),
        (lambda: sm.certify(queries(), ROWS), "components must have shape"),
        (lambda: sm.solve(queries()).save_proof("nowhere.npz"), "no method proof"),
        (lambda: write(sm.solve(queries()), "nowhere.html"), "no metric"),
        # Comparisons and rankings
        (lambda: sm.LSMLProblem(X, [[0, 1, 2, 99]]), "quadruplet"),
        (lambda: sm.LSMLProblem(X, [[0, 1, 2, 3]], prior="pca"), "prior must be"),
        (lambda: sm.LSMLProblem.from_labels(X[:3], [0, 1, 2]), "every class has one member"),
        (lambda: sm.SCMLProblem(X, [[0, 1, 2]], np.zeros((2, 3))), "bases"),
        (lambda: sm.SCMLProblem(X, [[0, 1, 2]], np.eye(3), 0.0), "sparsity"),
        (lambda: sm.SCMLProblem.from_labels(X[:3], [0, 1, 2]), "every class has one member"),
        (lambda: mlr("ndcg"), "'auc' or 'map'"),
        (lambda: mlr(C=0.0), "slack_weight"),
        (lambda: mlr("map").triplets, "loss='auc'"),
        (lambda: sm.MLRProblem(X, sm.Relevance.from_labels(Y[:7])), "7 items|7 queries|rows"),
        (lambda: mlr().certify(np.eye(3), dual=np.ones(4)), "dual"),
        (lambda: frml(4), "n_components must be a positive integer and at most 3"),
        (lambda: frml(loss="map"), "'warp' or 'auc'"),
        (lambda: frml(gamma=0.5), "gamma must be a finite number of at least 1"),
        (lambda: frml(init=ROWS), "smaller rank"),
        (lambda: frml(init=np.eye(3)), "shape"),
        (lambda: frml(batch_size=0), "batch_size must be a positive integer"),
        (lambda: frml().update(np.ones(4), ROW, ROWS), r"query must have shape \(3,\)"),
        (lambda: frml().update(ROW, ROW, ROWS[:0]), "without irrelevant items"),
        (lambda: frml().update(np.inf * ROW, ROW, ROWS), "NaN or infinity"),
        (lambda: frml().partial_fit(np.eye(4), [0, 0, 1, 1]), "cannot change its dimension"),
        (lambda: frml().partial_fit(np.eye(3), [0, 0, 1]), "has no relevant item"),
        (lambda: sm.FRMLProblem(np.eye(3), [0, 0, 1], 2), "query 2 has no relevant item"),
        (lambda: sm.FRMLProblem(np.eye(3), [0, 0, 0], 2), "query 0 has no irrelevant item"),
        (lambda: sm.FRMLProblem(np.eye(4), [0, 0, 1, 1], 5), "n_components must be"),
        (lambda: sm.FRMLProblem(np.eye(4), [0, 0, 1, 1], 2, queries=np.eye(4)), "given apart from X"),
    ],
)
def test_bad_arguments_are_named_in_a_sentence(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
