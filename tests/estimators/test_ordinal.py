"""Ordinal embedding: planted points, the path of the trace, what contradicts itself, what to ask next."""

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.estimators import OrdinalEmbedding
from sdpmetric.estimators.ordinal import shortest_cycle


def squared(Z: np.ndarray) -> np.ndarray:
    return np.sum((Z[:, None] - Z[None]) ** 2, axis=2)


def answered(Z: np.ndarray, t: int, rng: np.random.Generator) -> np.ndarray:
    """Random triplets, the nearer object second."""
    rows, D = np.array([rng.permutation(len(Z))[:3] for _ in range(t)]), squared(Z)
    i, j, l = rows.T
    return np.where((D[i, j] < D[i, l])[:, None], rows, rows[:, [0, 2, 1]])


@pytest.fixture(scope="module")
def planted():
    """Twelve points in the plane, and answers about them without noise."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(12, 2))
    return Z, answered(Z, 600, rng), answered(Z, 300, rng)


@pytest.fixture(scope="module")
def fitted(planted):
    return OrdinalEmbedding(n_traces=8).fit(planted[1])


def test_planted_points_are_recovered_up_to_their_order(planted, fitted):
    Z, answers, fresh = planted
    assert fitted.score(answers) > 0.97
    assert fitted.score(fresh) > 0.93
    assert fitted.relative_gap_ <= 1e-3
    upper = np.triu_indices(12, 1)
    assert np.corrcoef(squared(Z)[upper], squared(fitted.embedding_)[upper])[0, 1] > 0.9
    variances = np.sum(fitted.embedding_**2, axis=0)
    assert (np.diff(variances) <= 1e-12 * variances[0]).all()
    assert variances[2] < 0.5 * variances[1]
    np.testing.assert_allclose(fitted.embedding_.sum(axis=0), 0.0, atol=1e-10)


def test_path_holds_answers_out_and_the_trace_keeps_the_dimension_low(planted, fitted):
    n = len(fitted.traces_)
    assert len(fitted.errors_) == len(fitted.dimensions_) == n >= 3
    assert (np.diff(fitted.traces_) < 0.0).all()
    assert fitted.dimensions_[0] < fitted.dimensions_[-1]
    assert fitted.trace_ == fitted.traces_[np.argmin(fitted.errors_)]
    misled = OrdinalEmbedding(n_traces=8).fit(planted[1], validation=planted[2][:, [0, 2, 1]])  # all of them wrong
    assert misled.errors_.min() > 0.5 > fitted.errors_.min()


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "smooth_hinge"])
def test_zero_is_optimal_from_a_trace_of_1_on_and_not_below(planted, loss):
    below = OrdinalEmbedding(loss=loss, trace=0.9, tol=1e-6).fit(planted[1])
    assert below.embedding_.any()
    problem, largest = below._stated(np.eye(12), below._rows(planted[1]))
    zero = np.zeros((0, 12))
    assert problem.with_weights(trace=1.0001 * largest).certify(zero).proves_optimal(1e-9)
    assert below.solution_.objective < problem.with_weights(trace=0.9 * largest).objective(zero)


def feasible(rows: np.ndarray, n: int) -> bool:
    """Whether some embedding satisfies triplets, by a solve of the hard ones."""
    problem = sm.MetricProblem(np.eye(n), terms.TripletHinge(rows, loss="hard") + 0.01 * terms.Trace())
    return sm.solve(problem, max_time=30.0).status.word == "optimal"


def test_contradicting_answers_are_named_and_each_is_needed(planted):
    answers = planted[1][:40]
    circle = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
    opposite = answers[:1, [0, 2, 1]]
    rows = np.concatenate([answers, circle, opposite])
    assert OrdinalEmbedding().contradictions(planted[1]) == []
    sets = OrdinalEmbedding().contradictions(rows)
    assert sets[0].tolist() == [0, 43]
    named = np.concatenate(sets)
    assert len(set(named.tolist())) == len(named)
    assert feasible(np.delete(rows, named, axis=0), 12)
    for contradiction in sets:
        assert not feasible(rows[contradiction], 12)
        assert all(feasible(rows[np.delete(contradiction, k)], 12) for k in range(len(contradiction)))


def test_a_shortest_cycle_is_as_short_as_any(rng):
    """Against circles of a random graph of pairs, found by trying all of few edges."""
    for _ in range(20):
        rows = np.array([rng.permutation(6)[:4] for _ in range(40)])
        first_pair, second_pair = np.sort(rows[:, :2], axis=1) @ [6, 1], np.sort(rows[:, 2:], axis=1) @ [6, 1]
        reach = first_pair[:, None] == second_pair[None]  # an answer that goes on where another one ended
        power, length = np.eye(40, dtype=bool), 0
        while length < 40:
            power, length = power @ reach, length + 1
            if power.diagonal().any():
                break
        circle = shortest_cycle(rows)
        assert (0 if circle is None else len(circle)) == (length if power.diagonal().any() else 0)
        if circle is not None:
            assert sorted(first_pair[circle]) == sorted(second_pair[circle])


def test_contradictions_that_only_a_kernel_makes():
    line = np.arange(5.0)[:, None]
    rows = np.array([[0, 1, 4], [0, 4, 1], [2, 0, 3]])
    assert [contradiction.tolist() for contradiction in OrdinalEmbedding().contradictions(rows)] == [[0, 1]]
    assert [
        contradiction.tolist() for contradiction in OrdinalEmbedding(kernel=line @ line.T).contradictions(rows[1:])
    ] == [[0], [1]]


def test_the_most_open_question_is_the_one_that_changes_most_easily(planted, fitted):
    first = fitted.ask(planted[2], 5)
    margins = np.abs(fitted.decision_function(planted[2]))
    assert margins[first].max() <= np.sort(margins)[4]  # without a kernel all triplets move the metric alike
    swapped = fitted.ask(planted[2][:, [0, 2, 1]], 5)
    np.testing.assert_array_equal(first, swapped)


def test_embedding_has_the_distances_of_the_proven_metric(planted, fitted):
    components = fitted.solution_.components
    np.testing.assert_allclose(
        squared(fitted.embedding_), squared(components.T), atol=1e-9 * squared(components.T).max()
    )
    i, j, l = planted[2].T
    D = squared(fitted.embedding_)
    np.testing.assert_allclose(fitted.decision_function(planted[2]), D[i, l] - D[i, j], rtol=1e-9, atol=1e-9)
    assert fitted.predict(planted[2][:, [0, 2, 1]]).mean() < -0.8
