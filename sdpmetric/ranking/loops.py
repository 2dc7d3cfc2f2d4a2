"""Compiled loops of ranking metrics: scores, measures of rankings, and FRML's draws, searches and steps.

Who is relevant to whom comes as sorted lists of items in compressed rows: ``lists = (indptr, indices)``, the list of
query q is number ``which[q]``. Where the queries are the items themselves every list holds the query too, at position
``self_position[q]``; else ``self_position[q]`` is -1. See `sdpmetric.ranking.relevance.Relevance`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.engine.lazy import FAST, loop

# Of m queries: scores of their relevant and of their irrelevant items, increasing, (m, n) each, and how many there are.
Sorted = tuple[FloatArray, FloatArray, LongArray, LongArray]


@loop(fastmath=FAST)
def distances_to(queries: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Write squared distances, (m, n); equal items get equal numbers, unlike by a product."""
    for i in range(len(queries)):
        row = out[i]
        row[:] = 0.0
        for k in range(len(columns)):
            a, column = queries[i, k], columns[k]
            for j in range(len(column)):
                difference = a - column[j]
                row[j] += difference * difference


@loop(inline="always")
def _of_query(scores: Sorted, q: int) -> tuple[FloatArray, FloatArray]:
    relevant, irrelevant, n_relevant, n_irrelevant = scores
    return relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]


@loop()
def measure(scores: Sorted, ks: LongArray, out: FloatArray) -> None:
    """Write AUC, average precision, NDCG and precision at each k of rankings by score, with scikit-learn's ties."""
    for q in range(len(out)):
        relevant, irrelevant = _of_query(scores, q)
        i = j = place = 0
        ordered = average = discounted = ideal = 0.0
        while i < len(relevant) or j < len(irrelevant):
            is_relevant = j == len(irrelevant) or (i < len(relevant) and relevant[i] <= irrelevant[j])
            score = relevant[i] if is_relevant else irrelevant[j]
            hits, misses = 0, 0
            while i + hits < len(relevant) and relevant[i + hits] == score:
                hits += 1
            while j + misses < len(irrelevant) and irrelevant[j + misses] == score:
                misses += 1
            ordered += hits * (len(irrelevant) - j - misses + 0.5 * misses)
            before, after = i + j, i + j + hits + misses
            if hits:
                average += hits * (i + hits) / after
                for position in range(before, after):
                    discounted += hits / (after - before) / math.log2(position + 2.0)
            while place < len(ks) and ks[place] <= after:  # within a tie every order is as likely as the next
                out[q, 3 + place] = (i + (ks[place] - before) * hits / (after - before)) / ks[place]
                place += 1
            i += hits
            j += misses
        while place < len(ks):
            out[q, 3 + place] = len(relevant) / ks[place]
            place += 1
        out[q, 0] = ordered / (len(relevant) * len(irrelevant))
        out[q, 1] = average / len(relevant)
        for position in range(len(relevant)):
            ideal += 1.0 / math.log2(position + 2.0)
        out[q, 2] = discounted / ideal


@loop()
def expected_losses(
    distances: Sorted,
    weights: FloatArray,
    regularization: float,
    losses: FloatArray,
    relevant_slopes: FloatArray,
    irrelevant_slopes: FloatArray,
) -> int:
    """Write the mean of ``weight(v) / v * sum of its v positive h + regularization * distance`` over relevant items.

    Write its derivatives in the sorted distances of both kinds, too, (m, n) each and 0 before; return the number of
    positive hinges.
    """
    active = 0
    for q in range(len(losses)):
        relevant, irrelevant = _of_query(distances, q)
        n, v, total, violator_sum = len(relevant), 0, 0.0, 0.0
        for i in range(n):
            limit = 1.0 + relevant[i]
            while v < len(irrelevant) and irrelevant[v] < limit:
                violator_sum += irrelevant[v]
                v += 1
            active += v
            total += regularization * relevant[i]
            relevant_slopes[q, i] = (regularization + weights[q, v]) / n
            if v:
                total += weights[q, v] * (limit - violator_sum / v)
                irrelevant_slopes[q, v - 1] -= weights[q, v] / (v * n)
        for j in range(v - 2, -1, -1):  # an item that violates takes all nearer items with it
            irrelevant_slopes[q, j] += irrelevant_slopes[q, j + 1]
        losses[q] = total / n
    return active


# Queries, items, the queries to draw from, `which`, `indptr`, `indices` and `self_position`.
Draws = tuple[FloatArray, FloatArray, IndexArray, IndexArray, LongArray, IndexArray, LongArray]

# Weights of ranks; whether to draw until an item violates, as WARP does; gamma; weight of distances to relevant items.
Rule = tuple[FloatArray, bool, float, float]
# Differences of queries and items, their embeddings, and their coefficients in a step.
Batch = tuple[FloatArray, FloatArray, FloatArray]

# Steps between exact recomputations of the Gram matrix of the factor, which is updated in between.
REFRESH = 256
# The largest sum of relative changes ``|c_k| ||h_k||^2`` that one retraction takes; longer steps are shortened.
LARGEST_CHANGE = 1.0
# What ``totals`` counts: steps, queries with a violator, queries, steps that were shortened, and evaluations of f_q.
UPDATES, MISTAKES, ITEMS, SHORTENED, EVALUATIONS, N_TOTALS = range(6)


@loop()
def uniform(state: NDArray[np.uint64], n: int) -> int:
    """Return a number from 0 to n - 1, by SplitMix64; the one word of state moves on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int(float(z >> np.uint64(11)) * 2.0**-53 * n)


@loop()
def draw_relevant(state: NDArray[np.uint64], members: IndexArray, self_position: int) -> int:
    """Return a relevant item of a query, each as likely as the next."""
    if self_position < 0:
        return int(members[uniform(state, len(members))])
    position = uniform(state, len(members) - 1)
    return int(members[position + (position >= self_position)])


@loop()
def draw_irrelevant(state: NDArray[np.uint64], members: IndexArray, n_items: int) -> int:
    """Draw an item that is not in a sorted list, uniformly.

    The r-th such item is ``r + i`` if i members come before it; ``members[i] - i`` items come before a member.
    """
    r = uniform(state, n_items - len(members))
    low, high = 0, len(members)
    while low < high:
        position = (low + high) // 2
        if members[position] - position <= r:
            low = position + 1
        else:
            high = position
    return int(r + low)


@loop(fastmath=FAST)
def embed_difference(components: FloatArray, a: FloatArray, b: FloatArray, v: FloatArray, e: FloatArray) -> float:
    """Write ``a - b`` to v and its embedding to e; return the squared distance."""
    for k in range(len(v)):
        v[k] = a[k] - b[k]
    total = 0.0
    for row in range(len(components)):
        s = 0.0
        for k in range(len(v)):
            s += components[row, k] * v[k]
        e[row] = s
        total += s * s
    return total


@loop(fastmath=FAST)
def _gram(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Set ``out = A @ B.T``."""
    for i in range(len(A)):
        for j in range(len(B)):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[j, k]
            out[i, j] = s


@loop(fastmath=FAST)
def _add_product(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Add ``A @ B`` to out."""
    for i in range(len(A)):
        for j in range(len(B)):
            a = A[i, j]
            for k in range(B.shape[1]):
                out[i, k] += a * B[j, k]


@loop()
def solve_gram(gram: FloatArray, rows: FloatArray, work: FloatArray) -> bool:
    """Replace rows by ``rows @ inverse(gram)`` by Cholesky; return whether the Gram matrix is positive definite."""
    r = len(gram)
    for i in range(r):
        for j in range(i + 1):
            s = gram[i, j]
            for k in range(j):
                s -= work[i, k] * work[j, k]
            if i == j:
                if not s > 1e-14 * gram[i, i]:
                    return False
                work[i, i] = math.sqrt(s)
            else:
                work[i, j] = s / work[j, j]
    for row in rows:
        for i in range(r):
            s = row[i]
            for k in range(i):
                s -= work[i, k] * row[k]
            row[i] = s / work[i, i]
        for i in range(r - 1, -1, -1):
            s = row[i]
            for k in range(i + 1, r):
                s -= work[k, i] * row[k]
            row[i] = s / work[i, i]
    return True


@loop()
def retract(
    components: FloatArray, gram: FloatArray, V: FloatArray, E: FloatArray, c: FloatArray, reach: float
) -> float:
    """Move ``W = K^T K`` along ``sum_k c_k v_k v_k^T`` by the retraction of second order, in ``O((r + k) k d)``.

    With ``H = (V K^T) (K K^T)^-1``, ``C = diag(c)`` and ``T = C H H^T`` (k, k) the new factor is

        K + H^T ( (I - T / 2) C V + (3 T / 8 - I / 2) C H K )

    which is Algorithm 1 of Lim and Lanckriet (2014), its S being ``T^T``; see docs/methods.md. Steps
    with ``sum_k |c_k| ||h_k||^2`` above `reach` are shortened to it: there the expansion of the retraction, and with it
    the promise that W moves along the gradient, ends.
    """
    k, d = V.shape
    r = len(components)
    if not solve_gram(gram, E, np.empty((r, r))):
        return 0.0
    T = np.empty((k, k))
    _gram(E, E, T)
    size = 0.0
    for i in range(k):
        size += abs(c[i]) * T[i, i]
    if not np.isfinite(size):
        return 0.0
    share = 1.0 if size <= reach else reach / size
    for i in range(k):
        for j in range(k):
            T[i, j] *= share * c[i]
    first, second = np.empty((k, k)), np.empty((k, k))
    for i in range(k):
        for j in range(k):
            identity = 1.0 if i == j else 0.0
            first[i, j] = (identity - 0.5 * T[i, j]) * share * c[j]
            second[i, j] = (0.375 * T[i, j] - 0.5 * identity) * share * c[j]
    change, inner = np.zeros((k, d)), np.zeros((k, r))
    _add_product(second, E, inner)
    _add_product(first, V, change)
    _add_product(inner, components, change)
    across, square = np.empty((r, k)), np.empty((k, k))
    _gram(components, change, across)
    _gram(change, change, square)
    H = np.ascontiguousarray(E.T)
    _add_product(H, change, components)
    # K_new K_new^T = K K^T + (A + H^T Q / 2) H + its transpose, with A = K D^T and Q = D D^T
    square *= 0.5
    _add_product(H, square, across)
    growth = np.zeros((r, r))
    _add_product(across, E, growth)
    gram += growth + growth.T
    return share


@loop()
def sample(
    components: FloatArray,
    example: tuple[FloatArray, FloatArray],
    items: FloatArray,
    members: IndexArray,
    rule: Rule,
    state: NDArray[np.uint64],
    totals: LongArray,
    batch: Batch,
    used: int,
) -> tuple[float, int]:
    """Return the sampled loss of a query and a relevant item: items outside `members` are drawn until one violates.

    The differences and their coefficients go into the batch from number `used` on; returns also how many it holds then.
    """
    (query, relevant), (weights, warp, gamma, regularization), (V, E, c) = example, rule, batch
    limit = 1.0 + embed_difference(components, query, relevant, V[used], E[used])
    loss, weight, n_irrelevant = regularization * (limit - 1.0), 0.0, len(items) - len(members)
    max_draws = max(1, int(n_irrelevant / gamma)) if warp else 1
    for draw in range(1, max_draws + 1):
        irrelevant = draw_irrelevant(state, members, len(items))
        distance = embed_difference(components, query, items[irrelevant], V[used + 1], E[used + 1])
        totals[EVALUATIONS] += 1
        if distance < limit:
            weight = weights[n_irrelevant // draw]
            loss += weight * (limit - distance)
            totals[MISTAKES] += 1
            break
    totals[EVALUATIONS] += 1
    totals[ITEMS] += 1
    c[used], c[used + 1] = -(weight + regularization), weight
    return loss, used + (2 if weight > 0.0 else 1 if regularization > 0.0 else 0)


@loop()
def end_batch(
    components: FloatArray, gram: FloatArray, batch: Batch, used: int, step: float, totals: LongArray
) -> None:
    """Move the factor along the differences of a batch, by a step times their coefficients."""
    V, E, c = batch
    if used > 0 and retract(components, gram, V[:used], E[:used], step * c[:used], LARGEST_CHANGE) < 1.0:
        totals[SHORTENED] += 1
    totals[UPDATES] += 1
    if totals[UPDATES] % REFRESH == 0:
        _gram(components, components, gram)


@loop()
def frml(
    components: FloatArray,
    gram: FloatArray,
    draws: Draws,
    rule: Rule,
    batch_size: int,
    steps: FloatArray,
    state: NDArray[np.uint64],
    totals: LongArray,
) -> float:
    """Take a step of FRML for every entry of `steps`, each on a batch of queries; return the sum of sampled losses."""
    queries, items, answerable, list_of_query, indptr, indices, self_position = draws
    (r, d), size = components.shape, 2 * batch_size
    batch, total = (np.empty((size, d)), np.empty((size, r)), np.empty(size)), 0.0
    for step in steps:
        used = 0
        for _ in range(batch_size):
            q = answerable[uniform(state, len(answerable))]
            members = indices[indptr[list_of_query[q]] : indptr[list_of_query[q] + 1]]
            example = queries[q], items[draw_relevant(state, members, self_position[q])]
            loss, used = sample(components, example, items, members, rule, state, totals, batch, used)
            total += loss
        end_batch(components, gram, batch, used, step / batch_size, totals)
    return total
