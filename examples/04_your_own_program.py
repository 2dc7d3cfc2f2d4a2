"""Your own program
================

Five programs of the literature that this package does not ship, each in a few lines of
distance atoms.

Each is solved and then checked without the solver: a lower bound computed in NumPy from the
multipliers must agree with the value. The picture shows the metrics: blue entries are
positive, red ones negative.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import terms

C = 0.1


def triplet_matrices(X, triplets):
    """B_t = (x_i - x_l)(x_i - x_l)' - (x_i - x_j)(x_i - x_j)', so that the margin of t is
    <B_t, M>.
    """
    far, near = X[triplets[:, 0]] - X[triplets[:, 2]], X[triplets[:, 0]] - X[triplets[:, 1]]
    return far[:, :, None] * far[:, None, :] - near[:, :, None] * near[:, None, :]


def relative_comparisons(X, triplets):
    """Schultz and Joachims (2003) [SJ2003]: a support vector machine whose weights are those
    of the features.
    """
    w = cp.Variable(X.shape[1], nonneg=True)
    xi = cp.Variable(len(triplets), nonneg=True)
    margins = sm.triplet_margins(cp.diag(w), X, triplets) >= 1 - xi
    program = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C * cp.sum(xi)), [margins])
    program.solve(solver="CLARABEL")
    # For 0 <= a <= C every w has an objective of at least sum a - |[sum a_t diag(B_t)]_+|^2 /
    # 2.
    a = np.clip(margins.dual_value, 0, C)
    diagonal = np.einsum("t,tkk->k", a, triplet_matrices(X, triplets))
    return (
        program.value,
        a.sum() - np.sum(np.maximum(diagonal, 0) ** 2) / 2,
        f"{np.sum(w.value > 1e-6)} features used",
        np.diag(w.value),
    )


def sparse_metric(X, triplets):
    """Rosales and Fung (2006) [RF2006]: a linear program; dominance of the diagonal makes the
    metric PSD.
    """
    M, _ = sm.metric_variable(X.shape[1])  # the cone is not needed
    xi = cp.Variable(len(triplets), nonneg=True)
    size = cp.Variable(M.shape, symmetric=True)
    off = 1 - np.eye(len(X[0]))
    margins = sm.triplet_margins(M, X, triplets) >= 1 - xi
    bounds = [
        margins,
        size >= M,
        size >= -M,
        cp.diag(M) >= cp.sum(cp.multiply(off, size), axis=1),
    ]
    gamma = 2.0
    program = cp.Problem(cp.Minimize(cp.sum(xi) + gamma * cp.sum(size)), bounds)
    program.solve(solver="CLARABEL")
    # Dominant matrices are sums of (e_k +- e_l)(e_k +- e_l)' and e_k e_k', of entry sums 4 and
    # 1, with weights >= 0. So sum a is a bound once sum a_t B_t is at most gamma times that on
    # each of them.
    a = np.clip(margins.dual_value, 0, 1)
    B = np.einsum("t,tkl->kl", a, triplet_matrices(X, triplets))
    k, l = np.triu_indices(len(B), 1)
    corners = np.concatenate([np.diag(B), (B[k, k] + B[l, l] + 2 * np.abs(B[k, l])) / 4])
    assert np.linalg.eigvalsh(M.value)[0] > -1e-7
    zeros = np.sum(np.abs(M.value) < 1e-6)
    return (
        program.value,
        a.sum() / max(1.0, corners.max() / gamma),
        f"{zeros} of {M.size} entries are 0",
        M.value,
    )


def largest_margin(X, triplets):
    """Shen, Welsh and Wang (2008) [SWW2008]: PSDBoost, the largest soft margin of a metric of
    trace 1.
    """
    M, cone = sm.metric_variable(X.shape[1])
    rho, xi = cp.Variable(), cp.Variable(len(triplets), nonneg=True)
    margins = sm.triplet_margins(M, X, triplets) >= rho - xi
    weight = 5 / len(triplets)
    program = cp.Problem(
        cp.Minimize(weight * cp.sum(xi) - rho), [margins, cp.trace(M) == 1, cone]
    )
    program.solve(solver="CLARABEL", tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)
    # Weights that sum to 1 and stay below the cap prove -lambda_max(sum u_t B_t).
    u = np.clip(margins.dual_value, 0, None)
    u = np.minimum(u / u.sum(), weight)
    u += (1 - u.sum()) * (weight - u) / np.sum(weight - u)
    B = np.einsum("t,tkl->kl", u, triplet_matrices(X, triplets))
    return program.value, -np.linalg.eigvalsh(B)[-1], f"margin {rho.value:.3f}", M.value


def exponential_loss(X, triplets):
    """Shen, Kim, Wang and van den Hengel (2009) [SKWH2009]: what BoostMetric minimizes by
    adding rank-one metrics.
    """
    M, cone = sm.metric_variable(X.shape[1])
    margins = sm.triplet_margins(M, X, triplets)
    v = 0.1
    program = cp.Problem(cp.Minimize(cp.log_sum_exp(-margins) + v * cp.trace(M)), [cone])
    program.solve(solver="CLARABEL")
    # Weights u that sum to 1 prove their entropy once lambda_max(sum u_t B_t) <= v. The
    # weights of the hard margin have the smallest lambda_max of all; a little of them is mixed
    # in.
    N, cone = sm.metric_variable(X.shape[1])
    hard = sm.triplet_margins(N, X, triplets) >= (rho := cp.Variable())
    cp.Problem(cp.Maximize(rho), [hard, cp.trace(N) == 1, cone]).solve(solver="CLARABEL")
    u, inner = np.exp(-margins.value), np.maximum(hard.dual_value, 0)
    u, inner = u / u.sum(), inner / inner.sum()
    B = triplet_matrices(X, triplets)
    top, room = (np.linalg.eigvalsh(np.einsum("t,tkl->kl", w, B))[-1] - v for w in (u, inner))
    share = max(0.0, top) / (max(0.0, top) - room)
    u = (1 - share) * u + share * inner
    return (
        program.value,
        -np.sum(u * np.log(u)),
        f"rank {np.sum(np.linalg.eigvalsh(M.value) > 1e-4)}",
        M.value,
    )


def nearest_strangers(X, similar, dissimilar):
    """Ying and Li (2012) [YL2012]: DML-eig, the nearest dissimilar pair as far apart as the
    similar ones allow.
    """
    M, cone = sm.metric_variable(X.shape[1])
    nearest = cp.Variable()
    apart = sm.squared_distances(M, X, dissimilar) >= nearest
    together = cp.sum(sm.squared_distances(M, X, similar)) <= 1
    program = cp.Problem(cp.Minimize(-nearest), [apart, together, cone])
    program.solve(solver="CLARABEL")
    # Weights u that sum to 1 prove -lambda_max(C^-1/2 sum u_p v_p v_p' C^-1/2), C that of the
    # similar pairs.
    u = np.clip(apart.dual_value, 0, None)
    u /= u.sum()
    far, near = (X[pairs[:, 0]] - X[pairs[:, 1]] for pairs in (dissimilar, similar))
    top = np.linalg.eigvals(
        np.linalg.solve(near.T @ near, far.T @ (u[:, None] * far))
    ).real.max()
    return program.value, -top, f"{np.sum(u > 1e-4)} pairs decide", M.value


def as_sums(X, triplets):
    """State the first two programs as sums of terms; the fast solver proves their values."""
    push, eye = terms.TripletHinge(triplets), np.eye(X.shape[1])
    k, l = np.triu_indices(len(eye), 1)
    rays = np.concatenate(
        [eye, eye[k] + eye[l], eye[k] - eye[l]]
    )  # whose combinations are the dominant matrices
    size = terms.Trace() + terms.OffDiagonal()
    return [
        sm.solve(sm.MetricProblem(X, terms.Frobenius() + C * push, diagonal=True), tol=1e-5),
        sm.solve(sm.MetricProblem(X, push + 2.0 * size, bases=rays), tol=1e-5),
    ]


# %%
# Six features of wine, and 300 triplets.
X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)[:, :6] / 2
rng = np.random.default_rng(0)
triplets = np.array(
    [
        (
            i,
            rng.choice(np.flatnonzero((y == y[i]) & (np.arange(len(y)) != i))),
            rng.choice(np.flatnonzero(y != y[i])),
        )
        for i in rng.integers(0, len(y), 300)
    ]
)
similar, dissimilar = triplets[:, [0, 1]], triplets[:, [0, 2]]

# %%
# Each program with the bound that its multipliers prove.
results = {
    "relative comparisons, Schultz and Joachims 2003": relative_comparisons(X, triplets),
    "sparse metric, Rosales and Fung 2006": sparse_metric(X, triplets),
    "largest margin, Shen, Welsh and Wang 2008": largest_margin(X, triplets),
    "exponential loss, Shen et al. 2009": exponential_loss(X, triplets),
    "nearest strangers, Ying and Li 2012": nearest_strangers(X, similar, dissimilar),
}
for name, (value, bound, remark, _) in results.items():
    print(f"{name}: value {value:.6f}, bound by hand {bound:.6f}; {remark}")
    assert -1e-6 * max(1, abs(value)) <= value - bound <= 1e-4 * max(1, abs(value)), name

# %%
# The first two are sums of terms: the fast solver proves the same values.
for solution, value in zip(
    as_sums(X, triplets), [value for value, *_ in results.values()], strict=False
):
    print(
        f"as a sum of terms: between {solution.lower_bound:.6f} and {solution.objective:.6f}"
    )
    assert (
        solution.lower_bound - 1e-5 * abs(value)
        <= value
        <= solution.objective + 1e-5 * abs(value)
    )

# %%
# The five metrics, red negative and blue positive.
_, axes = plt.subplots(1, len(results), figsize=(13, 3.1), layout="constrained")
for axis, (name, (*_, M)) in zip(axes, results.items(), strict=True):
    largest = np.abs(M).max()
    axis.imshow(M, cmap="RdBu", vmin=-largest, vmax=largest)
    axis.set(title=name.replace(", ", ",\n", 1), xticks=[], yticks=[])
    axis.title.set_fontsize("small")
plt.show()
