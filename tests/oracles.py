"""Loop oracles: the formulas of Weinberger and Saul (2009), one triplet at a time, slow and obvious.

Nothing here calls the package, so that agreement is evidence.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

Triplet = tuple[int, int, int]


def outer(X, a, b):
    v = X[a] - X[b]
    return np.outer(v, v)


def distance(X, M, a, b):
    v = X[a] - X[b]
    return float(v @ M @ v)


def target_neighbors(X, y, k, tie=1e-9):
    """Clearly nearer than the k-th first, then those tied with the k-th by lowest index; listed nearest first."""
    lists = []
    for i in range(len(X)):
        mates = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        d = {j: float(np.sum((X[i] - X[j]) ** 2)) for j in mates}
        kth = sorted(d.values())[k - 1]
        nearer = [j for j in mates if d[j] < kth * (1 - tie)]
        tied = [j for j in mates if kth * (1 - tie) <= d[j] <= kth * (1 + tie)]
        lists.append(sorted((nearer + tied)[:k], key=lambda j: (d[j], j)))
    return lists


def all_triplets(targets, y):
    return [(i, int(j), m) for i in range(len(y)) for j in targets[i] if j >= 0 for m in range(len(y)) if y[m] != y[i]]


def impostors(X, M, targets, y, widen=0.0):
    """Per anchor, the examples of other classes within (1 + furthest target) * (1 + widen)."""
    by_anchor = {}
    for i in range(len(X)):
        mine = [j for j in targets[i] if j >= 0]
        if mine:
            limit = (1 + max(distance(X, M, i, j) for j in mine)) * (1 + widen)
            by_anchor[i] = [m for m in range(len(X)) if y[m] != y[i] and distance(X, M, i, m) <= limit]
    return by_anchor


@dataclass(frozen=True)
class Statement:
    """An LMNN problem in plain lists."""

    X: np.ndarray
    pairs: list[tuple[int, int]]
    triplets: list[Triplet]
    weights: list[float]
    mu: float
    ridge: float = 0.0
    squared: bool = False

    @classmethod
    def from_targets(cls, X, y, targets, mu, ridge=0.0, squared=False):
        triplets = all_triplets(targets, y)
        pairs = [(i, int(j)) for i in range(len(y)) for j in targets[i] if j >= 0]
        return cls(np.asarray(X, float), pairs, triplets, [1.0] * len(triplets), mu, ridge, squared)

    @classmethod
    def from_triplets(cls, X, triplets, weights, mu, ridge=0.0, squared=False):
        pairs = sorted({(i, j) for i, j, _ in triplets})
        return cls(np.asarray(X, float), pairs, [tuple(t) for t in triplets], list(weights), mu, ridge, squared)

    def hinge(self, M, t):
        i, j, m = t
        return max(0.0, 1 + distance(self.X, M, i, j) - distance(self.X, M, i, m))

    def cost_matrix(self):
        C = self.ridge * np.eye(self.X.shape[1])
        for i, j in self.pairs:
            C = C + (1 - self.mu) * outer(self.X, i, j)
        return C

    def margin_matrix(self, t):
        i, j, m = t
        return outer(self.X, i, m) - outer(self.X, i, j)

    def objective(self, M):
        """Eq. 14, with weights, ridge and the squared hinge."""
        pull = sum(distance(self.X, M, i, j) for i, j in self.pairs)
        push = 0.0
        for t, w in zip(self.triplets, self.weights, strict=True):
            u = self.hinge(M, t)
            push += w * (u**2 if self.squared else u)
        return (1 - self.mu) * pull + self.mu * push + self.ridge * float(np.trace(M))

    def objective_at(self, L):
        """Eq. 14 at a factor: the embedded data under the identity, so that long factors do not cancel."""
        embedded = replace(self, X=self.X @ L.T, ridge=0.0)
        return embedded.objective(np.eye(len(L))) + self.ridge * float(np.sum(L**2))

    def good_factor(self, seed=0, widths=(0.1, 0.01)):
        """A factor near the optimum: L-BFGS on the smoothed objective, with dense margin matrices."""
        d = self.X.shape[1]
        C = self.cost_matrix()
        # Units in which the cost is near the identity, so that plain L-BFGS gets along with any data.
        values, vectors = np.linalg.eigh(C + 1e-9 * np.trace(C) / d * np.eye(d))
        T = vectors / np.sqrt(values)
        C = T.T @ C @ T
        B = np.array([T.T @ self.margin_matrix(t) @ T for t in self.triplets]).reshape(-1, d, d)
        w = self.mu * np.array(self.weights)

        def smooth(x, width):
            L = x.reshape(d, d)
            M = L.T @ L
            u = np.maximum(1 - np.einsum("tij,ij->t", B, M), 0.0)
            if self.squared:
                h, slope = u**2, 2 * u
            else:
                h, slope = np.where(u > width, u - width / 2, u**2 / (2 * width)), np.minimum(u / width, 1.0)
            G = C - np.einsum("t,tij->ij", w * slope, B)
            return float(np.sum(C * M) + w @ h), (2 * L @ G).ravel()

        x = 0.3 * np.random.default_rng(seed).normal(size=d * d)
        for width in widths:
            x = scipy.optimize.minimize(smooth, x, (width,), "L-BFGS-B", jac=True, options={"maxiter": 150}).x
        return x.reshape(d, d) @ T.T


def retraction(W, Z, wrong=False):
    """Lemma 3.2 of FRML with all matrices d x d: ``V W^+ V^T`` at the projection of Z onto the tangent space."""
    P, pinv = np.linalg.pinv(W) @ W, np.linalg.pinv(W)
    inside, beside = P @ Z @ P, (np.eye(len(W)) - P) @ Z @ P
    V = W + 0.5 * inside + beside - 0.125 * inside @ pinv @ inside - 0.5 * beside @ pinv @ inside
    return V @ (W if wrong else pinv) @ V.T
