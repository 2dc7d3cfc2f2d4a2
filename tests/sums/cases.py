"""Terms and sums for tests: each term once, and sums drawn at random from a seed."""

import numpy as np

import sdpmetric as sm
from sdpmetric import terms

N, D = 30, 3


def data(rng: np.random.Generator, n: int = N, d: int = D) -> np.ndarray:
    return rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.3, 0.3, d)


def different(rng: np.random.Generator, m: int, k: int, n: int = N) -> np.ndarray:
    """Rows of k different numbers below n."""
    return np.argsort(rng.random((m, n)), axis=1)[:, :k]


def one_of_each(rng: np.random.Generator, n: int = N, d: int = D) -> dict[str, terms.Term]:
    """Every term with a loss, a margin and weights of its own; one line adds a term."""
    pairs, triplets = different(rng, 2 * n, 2, n), different(rng, 2 * n, 3, n)
    similar, weights = rng.random(2 * n) < 0.5, rng.exponential(size=2 * n)
    A = rng.normal(size=(d, d))
    M0 = A @ A.T + np.eye(d)
    examples: dict[str, terms.Term] = {
        "pull": terms.Pull(pairs, weights=weights),
        "trace": terms.Trace(),
        "frobenius": terms.Frobenius(),
        "frobenius to": terms.Frobenius(to=M0),
        "log_det": terms.LogDet(),
        "log_det to": terms.LogDet(to=M0),
    }
    for loss in ("hinge", "squared_hinge", "logistic"):
        examples[f"triplet {loss}"] = terms.TripletHinge(triplets, margin=1.5, loss=loss, weights=weights)
        examples[f"pair {loss}"] = terms.PairHinge(pairs, similar, 2.5, loss=loss, weights=weights)
    upper, lower = rng.uniform(1.0, 3.0, 2 * n), rng.uniform(3.0, 9.0, 2 * n)
    examples |= {
        "quadruplet": terms.QuadrupletHinge(different(rng, 2 * n, 4, n), margin=0.7, weights=weights),
        "bounds hinge": terms.DistanceBounds(pairs, at_most=upper, at_least=0.5, loss="hinge", weights=weights),
        "bounds log_ratio": terms.DistanceBounds(
            pairs, at_most=np.where(similar, upper, np.inf), at_least=np.where(similar, 0.0, lower), loss="log_ratio"
        ),
        "targets": terms.DistanceTargets(pairs, lower, weights=weights),
        "targets sides": terms.DistanceTargets(pairs, lower, rng.integers(-1, 2, 2 * n)),
        "off_diagonal": terms.OffDiagonal(),
    }
    return examples


def random_hard_problem(seed: int) -> sm.MetricProblem:
    """A random sum with hard bounds that some metric satisfies; every third is pull, trace and triplets beside them."""
    rng = np.random.default_rng([seed, 11])
    n, d = N, int(rng.integers(1, 7))
    X, every = data(rng, n, d), one_of_each(rng, n, d)
    soft = [name for name in every if not name.startswith("bounds log")]
    names = rng.permutation(soft)[: rng.integers(1, 4)].tolist() if seed % 3 else ["pull", "trace", "triplet hinge"]
    names.append(str(rng.choice(["trace", "pull", "frobenius"])))
    total = sum(float(10 ** rng.uniform(-1, 0.5)) * every[name] for name in dict.fromkeys(names)) + 0.01 * terms.Trace()
    A = rng.normal(size=(d, d)) * 10 ** rng.uniform(-1, 1)
    pairs = different(rng, int(rng.integers(3, 40)), 2, n)
    D = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ A.T) ** 2, axis=1) + 1e-3 * np.sum(A * A)
    hard = [
        terms.DistanceBounds(pairs, 1.2 * D, 0.8 * D),
        terms.DistanceBounds(pairs, at_least=0.9 * D),
        terms.DistanceBounds(pairs, at_most=1.1 * D),
        terms.DistanceBounds(pairs, 2.0 * D, 0.3 * D) + terms.Budget(pairs, 1.5 * float(D.sum())),
    ]
    return sm.MetricProblem(X, total + hard[rng.integers(4)])
