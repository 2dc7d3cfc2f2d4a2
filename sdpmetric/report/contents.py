"""Everything that the page shows, as plain numbers and words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from sdpmetric.arrays import FloatArray
from sdpmetric.core import neighbors, validation
from sdpmetric.core.certificate import (
    Certificate,
    DualityCertificate,
    InfeasibilityCertificate,
    RegretCertificate,
    RelaxationCertificate,
    StationarityCertificate,
    excess,
    excess_sentence,
)
from sdpmetric.core.explanation import explain
from sdpmetric.core.problem import Constrained, Problem
from sdpmetric.core.proof import Provable
from sdpmetric.core.rounding import digits, rounded, scientific
from sdpmetric.core.solution import Solution, problem_of
from sdpmetric.report.recorder import Frame
from sdpmetric.report.scores import UNKNOWN, Scores, score

IndexArray = NDArray[np.integer]
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class PageOptions:
    """How much the page shows."""

    points: int = 3000  # examples drawn at most, evenly spaced rows of the data
    impostors: int = 3  # of an example that are listed, the nearest ones
    targets: int = 5  # target neighbors of an example that are drawn
    features: int = 24  # that are listed
    support: int = 12  # multipliers that are listed
    frames: int = 6  # between the first and the last one
    same_distance: float = 1e-3  # to the frame before, relative, below which one is left out
    bounds: int = 4  # different lower bounds that make a curve; fewer are one interval
    cancel_share: float = 0.7  # weights cancel where product and correlation are below minus this


OPTIONS = PageOptions()
# What counts on this page do not say.
LEARNED_FROM = "The examples shown are those that the metric was learned from: how they lie says little about others."
SEVERAL = "There are {} metrics; a pair of examples is measured by that of the second one's region."


@runtime_checkable
class WithLabels(Protocol):
    @property
    def row_labels(self) -> NDArray[np.generic] | None: ...  # (n,)


@runtime_checkable
class WithRegions(Protocol):
    """A statement of several metrics: a pair is measured by that of its second example's region."""

    @property
    def regions(self) -> IndexArray: ...  # (n,)

    @property
    def region_names(self) -> NDArray[np.generic]: ...  # one for each metric


@runtime_checkable
class WithTargets(Protocol):
    @property
    def target_pairs(self) -> tuple[IndexArray, IndexArray]: ...  # anchors and targets, each pair once


def page_data(
    solution: Solution,
    y: ArrayLike | None,
    title: str | None,
    held_out: tuple[ArrayLike, ArrayLike] | None,
    feature_names: Sequence[str] | None,
    example_names: Sequence[str] | None,
    frames: Sequence[Frame] = (),
) -> dict[str, Json]:
    """The data of the page; parameters as in `sdpmetric.report.write`."""
    problem = problem_of("report", solution)
    X = np.asarray(problem.X, dtype=np.float64)
    features = _names(feature_names, X.shape[1], "feature_names", "feature")
    names = _names(example_names, len(X), "example_names", "example")
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), OPTIONS.points)).round().astype(np.int64))
    regions, metrics = _regions(problem)
    factors, captions = _frames(solution, metrics, frames)
    embedded = [X[rows] if L is None else X[rows] @ L.T for L in factors]
    labels, classes, index = _labels(problem, y, rows)
    targets = _targets(problem, X, rows, index if classes else None)
    impostors = counts = invading = scores = None
    if classes and targets is not None:
        measured = [embedded[:1], *[embedded[1:]] * len(metrics)] if metrics else [[Z] for Z in embedded]
        impostors, counts, invading = _impostors(measured, regions[rows], index, targets)
    certificate = solution.certificate
    size = f"{len(X):,} examples, {X.shape[1]:,} features" + (f", {len(classes):,} classes" if classes else "")
    if labels is not None:
        scores = score(solution.components, X, rows, labels, held_out, regions)
        size += f"; {scores.n:,} more were held out" if scores.held_out else ""
    return {
        "title": certificate.program if title is None else f"{certificate.program} on {title}",
        "verdict": UNKNOWN if scores is None else scores.verdict,
        "tiles": _tiles(certificate, scores, invading, "data" if title is None else title, size),
        "scores": None if scores is None else scores.to_dict(),
        "statement": problem.describe(),
        "solver": solution.solver,
        "status": solution.status.word,
        "seconds": solution.seconds,
        "kind": certificate.kind,
        "objective": _number(certificate.objective),
        "lower_bound": _number(certificate.lower_bound),
        "relative_gap": _number(certificate.relative_gap),
        "gap": scientific(certificate.relative_gap, 3),
        "words": [*sentences(certificate), *([SEVERAL.format(len(metrics))] if metrics else []), LEARNED_FROM],
        "ends": list(digits(certificate.lower_bound, certificate.objective)),
        "checks": checks(solution),
        "fingerprint": problem.fingerprint(),
        "total": len(X),
        "rows": rows.tolist(),
        "names": None if example_names is None else [names[i] for i in rows],
        "classes": list(classes),
        "index": index.tolist(),
        "frames": captions,
        "points": _packed(planes(embedded).astype(np.float32)),
        "invading": _packed(None if invading is None else np.packbits(invading)),
        "targets": _packed(targets),
        "impostors": _packed(impostors),
        "counts": _packed(counts),
        "trace": _trace(solution),
        "spectrum": _spectrum(solution),
        "weights": _weights(solution, features, metrics, X),
        "support": _support(solution, names, labels),
    }


def planes(embedded: Sequence[FloatArray]) -> FloatArray:
    """Two leading principal components of each embedding, rotated to the one before, of the last one's size."""
    flat: list[FloatArray] = []
    for Z in embedded:
        P = leading_plane(Z)
        if flat:
            u, _, vt = np.linalg.svd(P.T @ flat[-1])
            P = P @ u @ vt
        flat.append(P)
    sizes = [float(np.sqrt(np.square(P).sum(axis=1).mean())) for P in flat]
    last = sizes[-1] or 1.0
    scales = [last / size if size > 0 else 1.0 for size in sizes]
    return np.stack([P * scale for P, scale in zip(flat, scales, strict=True)])


def leading_plane(Z: FloatArray) -> FloatArray:
    """The two leading principal components of points, (n, 2); the second one is 0 in one dimension."""
    Z = Z - Z.mean(axis=0)
    if Z.shape[1] < 2:
        Z = np.column_stack([Z, np.zeros((len(Z), 2 - Z.shape[1]))])
    axes = np.linalg.eigh(Z.T @ Z)[1][:, [-1, -2]]
    return np.asarray(Z @ (axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])))  # eigenvectors have no sign


def cancelling(L: FloatArray, X: FloatArray) -> NDArray[np.int64]:
    """For each feature the one that takes back most of its weight, -1 where none takes back half, (d,).

    Two correlated features can have huge weights that cancel: for the covariance C of the data, the mean squared
    distance has the terms ``M_ii C_ii``, ``M_jj C_jj`` and ``2 M_ij C_ij``, the last one as large and negative.
    """
    V = L * X.std(axis=0)
    sizes = np.sqrt(np.square(V).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.atleast_2d(np.corrcoef(X, rowvar=False))
        shares = np.nan_to_num((V / sizes).T @ (V / sizes) * correlation)
    shares[sizes[None, :] < 0.5 * sizes[:, None]] = 0.0  # too small to take anything back
    np.fill_diagonal(shares, 0.0)
    partners = shares.argmin(axis=1)
    return np.asarray(np.where(shares.min(axis=1) < -OPTIONS.cancel_share, partners, -1))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _packed(values: NDArray[np.generic] | None) -> str | None:
    if values is None:
        return None
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode("ascii")


def _names(names: Sequence[str] | None, count: int, argument: str, kind: str) -> list[str]:
    if names is None:
        return [f"{kind} {i}" for i in range(count)]
    validation.check_count(argument, len(names), count, kind)
    return [str(name) for name in names]


def _labels(
    problem: Problem, y: ArrayLike | None, rows: NDArray[np.int64]
) -> tuple[NDArray[np.generic] | None, list[str], IndexArray]:
    """Labels of all examples, their classes, and the class of each row; none where labels are numbers, not classes."""
    stated: object = problem
    labels = stated.row_labels if isinstance(stated, WithLabels) else None
    if y is not None:
        labels = np.asarray(y).ravel()
        validation.check_count("y", len(labels), len(problem.X), "example")
    if labels is None or (labels.dtype.kind == "f" and len(np.unique(labels)) > len(labels) // 2):
        return None, [], np.zeros(len(rows), dtype=np.int32)
    classes, index = validation.check_labels(labels, len(labels), n_classes=1)
    return labels, [str(c) for c in classes], np.asarray(index[rows], dtype=np.int32)


def _regions(problem: Problem) -> tuple[IndexArray, list[str]]:
    """The metric of each example, and what several metrics are called; of one metric, no names."""
    stated: object = problem
    if not isinstance(stated, WithRegions):
        return np.zeros(len(problem.X), dtype=np.int64), []
    return stated.regions, [str(name) for name in stated.region_names]


def _frames(
    solution: Solution, metrics: Sequence[str], passed: Sequence[Frame]
) -> tuple[list[FloatArray | None], list[Json]]:
    """Factors and captions: the Euclidean metric (no factor), points of the solve, and the solution.

    Several metrics are shown one after the other, without points of the solve.
    """
    captions: list[Json] = [{"caption": "before: the Euclidean metric", "iteration": None}]
    factors: list[FloatArray | None] = [None]
    last = np.asarray(solution.components, dtype=np.float64)
    if metrics:
        captions += [{"caption": f"after: the metric of region {name}", "iteration": None} for name in metrics]
        return [None, *last], captions
    for frame in passed[:: max(1, -(-len(passed) // OPTIONS.frames))]:
        L = np.asarray(frame.components, dtype=np.float64)
        if L.ndim == 2 and L.any() and not any(_alike(F, L) for F in (factors[-1], last) if F is not None):
            iteration = solution.trace[frame.row].iteration
            factors.append(L)
            captions.append({"caption": f"during: iteration {iteration:,}", "iteration": iteration})
    factors.append(last)
    captions.append({"caption": "after: the learned metric", "iteration": solution.n_iter})
    return factors, captions


def _alike(first: FloatArray, second: FloatArray) -> bool:
    M, N = first.T @ first, second.T @ second
    return bool(np.linalg.norm(M - N) <= OPTIONS.same_distance * np.linalg.norm(N))


def _targets(problem: Problem, X: FloatArray, rows: NDArray[np.int64], index: IndexArray | None) -> IndexArray | None:
    """Target neighbors of the examples that are drawn, as numbers among them, (m, targets), -1 for none.

    Of statements without target neighbors these are up to three nearest members of the own class.
    """
    stated: object = problem
    if not isinstance(stated, WithTargets):
        k = 0 if index is None else min(3, int(np.bincount(index)[np.unique(index)].min()) - 1)
        return None if index is None or k < 1 else neighbors.target_neighbors(X[rows], index, k).astype(np.int16)
    place = np.full(len(X), -1, dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    anchors, targets = (place[np.asarray(side)] for side in stated.target_pairs)
    drawn = np.flatnonzero((anchors >= 0) & (targets >= 0))
    drawn = drawn[np.argsort(anchors[drawn], kind="stable")]
    anchors, targets = anchors[drawn], targets[drawn]
    slot = np.arange(len(anchors)) - np.searchsorted(anchors, anchors)
    target_rows, fits = np.full((len(rows), OPTIONS.targets), -1, dtype=np.int16), slot < OPTIONS.targets
    target_rows[anchors[fits], slot[fits]] = targets[fits]
    return target_rows


def _impostors(
    measured: Sequence[Sequence[FloatArray]], regions: IndexArray, index: IndexArray, targets: IndexArray
) -> tuple[IndexArray, IndexArray, NDArray[np.bool_]]:
    """Nearest impostors in each frame, (f, m, impostors), how many there are, and who is one of anybody, (f, m).

    An impostor is no farther than the furthest target neighbor; without the margin, which means nothing before
    learning. A frame has an embedding for each metric, and distances are those in the second example's region.
    """
    m = len(index)
    impostors = np.full((len(measured), m, OPTIONS.impostors), -1, dtype=np.int16)
    counts, invading = np.zeros((len(measured), m), dtype=np.int16), np.zeros((len(measured), m), dtype=bool)
    for f, factor in enumerate(measured):
        for begin in range(0, m, 512):
            block = slice(begin, min(begin + 512, m))
            D = cdist(factor[0][block], factor[0], "sqeuclidean")
            for b, Z in enumerate(factor[1:], 1):
                D[:, regions == b] = cdist(Z[block], Z[regions == b], "sqeuclidean")
            target_distances = np.take_along_axis(D, np.maximum(targets[block], 0), axis=1)
            furthest = np.where(targets[block] >= 0, target_distances, -np.inf).max(axis=1, keepdims=True)
            D[(index[block, None] == index) | (furthest < D)] = np.inf
            counts[f, block] = np.isfinite(D).sum(axis=1)
            invading[f] |= np.isfinite(D).any(axis=0)
            first = np.argsort(D, axis=1, kind="stable")[:, : OPTIONS.impostors]
            finite = np.isfinite(np.take_along_axis(D, first, axis=1))
            impostors[f, block, : first.shape[1]] = np.where(finite, first, -1)
    return impostors, counts, invading


def _tiles(
    certificate: Certificate, scores: Scores | None, invading: NDArray[np.bool_] | None, name: str, size: str
) -> list[Json]:
    """The headline in figures: accuracy, impostors, what is proven, and the data."""
    tiles: list[Json] = []

    def tile(label: str, value: str, note: str) -> None:
        tiles.append({"label": label, "value": value, "note": note})

    if scores is not None:
        (before, after), (low, high) = scores.correct, scores.intervals[1]
        sample = "held-out accuracy" if scores.held_out else "accuracy on training examples"
        exact = f"exact 95\u00a0% interval {low:.1%} to {high:.1%}" if scores.held_out else "says little about others"
        exact += f"; {scores.n_seen:,} of them equal a training example" if scores.n_seen else ""
        tile(sample, f"{after / scores.n:.1%}", f"{before / scores.n:.1%} without the metric; {exact}")
    if invading is not None:
        first, last = invading[[0, -1]].sum(axis=1).tolist()
        tile("impostors", f"{first:,} to {last:,}", f"of {invading.shape[1]:,} training examples, before and after")
    if isinstance(certificate, DualityCertificate) and np.isfinite(certificate.lower_bound):
        claim = "computed" if certificate.reservation else "proven"
        amount = excess(certificate.objective, certificate.lower_bound)
        if certificate.resolved:
            tile(claim, "at the optimum", f"the smallest possible objective, up to rounding; {certificate.program}")
        elif amount is None:
            bound = rounded(certificate.lower_bound, up=False)
            note = f"nothing about how much better another metric could be; {certificate.program}"
            tile(claim, f"lower bound {bound}", note)
        else:
            tile(claim, amount, f"above the smallest possible objective; {certificate.program}")
    else:
        tile("kind of certificate", certificate.kind, "no gap to a global optimum is proven")
    tile("data", name, size)
    return tiles


def _trace(solution: Solution) -> dict[str, Json]:
    objective, bound = solution.trace["objective"], solution.trace["lower_bound"]
    if solution.certificate.kind != "regret":
        objective, bound = np.fmin.accumulate(objective), np.fmax.accumulate(bound)
    chosen = np.unique(np.geomspace(1, max(len(objective), 1), 300).round().astype(np.int64))[: len(objective)] - 1

    def row(iteration: int, value: float, lower: float) -> Json:
        return {"iteration": iteration, "objective": _number(value), "lower_bound": _number(lower)}

    certificate = solution.certificate
    rows = [row(solution.trace[i].iteration, objective[i], bound[i]) for i in chosen.tolist()]
    rows.append(row(max(solution.n_iter, 1), certificate.objective, certificate.lower_bound))
    n_bounds = len(np.unique(bound[chosen][np.isfinite(bound[chosen])]))
    n_bounds += certificate.lower_bound > bound.max(initial=-np.inf)
    picture = "bar" if np.isfinite(certificate.lower_bound) else "none"
    if n_bounds >= OPTIONS.bounds or certificate.kind == "regret":
        picture = "curve"
    return {"rows": rows, "picture": picture}


def _spectrum(solution: Solution) -> list[Json]:
    """The eigenvalues, of several metrics of all together."""
    values = np.sort(np.linalg.eigvalsh(solution.metrics).ravel())[::-1]
    return [float(value) for value in np.maximum(values, 0.0)[:200]]


def _weights(solution: Solution, features: Sequence[str], metrics: Sequence[str], X: FloatArray) -> list[Json]:
    """The largest learned lengths of one unit of a feature, and the features that take them back."""
    rows: list[tuple[float, str, str | None]] = []
    components = np.asarray(solution.components, dtype=np.float64)
    for b, L in enumerate(components if metrics else [components]):
        names = [f"{name}, region {metrics[b]}" for name in features] if metrics else features
        cancels = [names[j] if j >= 0 else None for j in cancelling(L, X)]
        rows += zip(np.sqrt(np.square(L).sum(axis=0)).tolist(), names, cancels, strict=True)
    rows.sort(key=lambda row: -row[0])
    return [{"name": name, "weight": weight, "cancels": cancels} for weight, name, cancels in rows[: OPTIONS.features]]


def _support(solution: Solution, names: Sequence[str], labels: NDArray[np.generic] | None) -> dict[str, Json] | None:
    """The examples with the largest multipliers, where the multipliers belong to constraints."""
    problem: object = solution.problem
    if not isinstance(problem, Constrained) or solution.certificate.kind not in ("duality", "relaxation"):
        return None
    explanation = explain(solution)
    total = explanation.influence.total
    order = [i for i in np.argsort(-total, kind="stable")[: OPTIONS.support].tolist() if total[i] > 0]
    shares = total / max(float(total.sum()), np.finfo(float).tiny)
    classes = [None] * len(total) if labels is None else [str(label) for label in labels]
    rows: list[Json] = [{"example": names[i], "class": classes[i], "share": float(shares[i])} for i in order]
    support = explanation.support
    return {"kind": support.kind, "total": len(support), "sentence": str(support), "rows": rows}


def sentences(certificate: Certificate) -> list[str]:
    """What is proven, for a reader who does not know the package."""
    proven = certificate.reservation.removeprefix("; ") or "this is proven"
    bound, value = digits(certificate.lower_bound, certificate.objective)
    if isinstance(certificate, DualityCertificate):
        rank = " without the bound on the rank" if isinstance(certificate, RelaxationCertificate) else ""
        return [
            f"The objective of this metric is {value}.",
            f"No metric has an objective below {bound}{rank}: {proven}.",
            _distance(certificate),
            f"{certificate.n_active:,} {certificate.constraints} are active at this metric.",
            "The bound was computed by the problem from multipliers. It holds whether or not the solver is right.",
        ]
    if isinstance(certificate, RegretCertificate):
        allowed = certificate.regret_bound
        theorem = [] if allowed is None else [f"The theorem of the method allows a loss of {allowed:.8g}."]
        return [
            f"The cumulative loss on the stream is {value}.",
            f"Every fixed metric loses at least {bound} on the same stream; {proven}.",
            *theorem,
            "Nothing is proven about the last metric alone.",
        ]
    if isinstance(certificate, StationarityCertificate):
        return [
            f"The objective of this metric is {value}.",
            f"The norm of the gradient is {certificate.stationarity:.2g}; at a stationary point it is 0.",
            "The problem is not convex: nothing is proven about other metrics, and another start may end elsewhere.",
        ]
    if isinstance(certificate, InfeasibilityCertificate):
        rows = ", ".join(map(str, certificate.contradiction[:10]))
        return [f"No metric satisfies all constraints: {certificate.constraints} {rows} contradict each other."]
    return [str(certificate)]


def _distance(certificate: DualityCertificate) -> str:
    """How far the objective may be from the best possible one."""
    if certificate.resolved:
        return (
            f"So the objective is at most {rounded(certificate.gap)} above the smallest possible one, which is "
            f"proven to be at most 0; gaps up to {certificate.resolution:.2g}, a tiny share of what one constraint "
            "costs, count as closed then."
        )
    return f"So {excess_sentence(certificate.objective, certificate.lower_bound)}."


def checks(solution: Solution) -> list[Json]:
    """Ways to check the claims: what each does, and the code."""
    commands = [
        (
            "Certify the metric again, from the data and the multipliers:",
            "sm.certify(problem, solution.components, dual=solution.dual)",
        )
    ]
    if isinstance(solution.certificate, DualityCertificate):
        purpose = "Prove a bound of your own, by another solver, without the multipliers:"
        commands.append((purpose, "sm.verify(problem, solution.components)"))
    problem: object = solution.problem
    if isinstance(problem, Provable) and solution.dual is not None:
        purpose = "Write a proof file, and verify it by a small program that shares no code with the solvers:"
        code = 'solution.save_proof("proof.npz")\n# in a terminal, DATA being the numbers that were solved:\n'
        commands.append((purpose, f"{code}# sdpmetric check DATA proof.npz"))
    return [{"what": purpose, "code": code} for purpose, code in commands]
