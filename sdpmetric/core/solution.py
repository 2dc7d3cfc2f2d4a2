"""What a solver gives back: a point, the problem's certificate for it, how it ended, and the way there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import Certificate
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.linalg import psd
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]


class Status(Enum):
    """How a solve ended; every member carries advice.

    The words are CVXPY's where it has one.
    """

    OPTIMAL = ("optimal", "The asked relative gap is proven.")
    OPTIMAL_INACCURATE = (
        "optimal_inaccurate",
        "The solver stopped by its own measure, but the asked tolerance is not proven: "
        "tighten the solver's own tolerances, or try another solver or another start.",
    )
    USER_LIMIT = (
        "user_limit",
        "The limit on time or iterations came first; this is the best certified point so far: "
        "raise max_time or max_iter, or ask for a larger tol.",
    )
    INFEASIBLE = (
        "infeasible",
        "No point keeps all constraints: certificate.contradiction names some that contradict each other; "
        "correct or drop them, or use a soft margin.",
    )
    INTERRUPTED = ("interrupted", "The solve was interrupted; this is the best certified point so far.")
    STATIONARY = ("stationary", "A stationary point of a non-convex problem; nothing proves that it is a minimum.")
    STREAM_ENDED = (
        "stream_ended",
        "Every item of the stream was taken; such an answer is judged by its regret, not by optimality: "
        "see certificate.kind.",
    )
    STOPPED_EARLY = (
        "stopped_early",
        "The score on the examples held back stopped rising; this is the point with the best score.",
    )
    NUMERICAL_ERROR = (
        "numerical_error",
        "The iterates stopped being finite numbers; this is the last certified point: "
        "check the data for extreme values, or standardise the features.",
    )
    SOLVER_ERROR = ("solver_error", "The convex solver gave no answer: try another one, or loosen its tolerances.")

    def __init__(self, word: str, advice: str) -> None:
        self.word = word
        self.advice = advice

    def __str__(self) -> str:
        return self.word

    @property
    def ok(self) -> bool:
        """Whether the asked tolerance was proven."""
        return self is Status.OPTIMAL


@dataclass(frozen=True)
class Dual:
    """Multipliers of triplets: all triplets that are not listed have multiplier 0.

    Attributes
    ----------
    triplets : Triplets
    values : (t,) array
        The multiplier ``a_t`` of each listed triplet, between 0 and the push weight times its weight.
    """

    triplets: Triplets
    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)


# Multipliers of triplets, or one for each constraint of a problem that lists its constraints itself.
Multipliers = Dual | FloatArray


class Problem(Protocol):
    """What every statement offers: it describes itself and judges any point."""

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""

    def fingerprint(self) -> str:
        """Return a hash of data and parameters, so that a saved solution finds its problem."""


@dataclass(frozen=True)
class Solution:
    """A point of a problem with its certificate.

    Attributes
    ----------
    components : (r, d) array, or (c, r, d) for c metrics
        Factor L of the metric ``M = L.T @ L``; ``X @ L.T`` embeds the data. In the data's dtype. Factors of several
        metrics are padded with rows of zeros.
    certificate : Certificate
        Made by the problem for exactly these components.
    status : Status
    solver : str
        Name of the solver.
    dual : Dual, (p,) array or None
        The multipliers behind the lower bound: of triplets, or of the constraints in the problem's order.
    trace : Trace
    n_iter : int
    seconds : float
        Wall-clock seconds of the solve.
    problem : Problem or None
        The problem; None for a solution that was loaded without it.
    threshold : float or None
        POLA's threshold b.
    """

    components: NDArray[np.floating]
    certificate: Certificate
    status: Status
    solver: str
    dual: Multipliers | None = None
    trace: Trace = field(default_factory=Trace)
    n_iter: int = 0
    seconds: float = 0.0
    problem: Problem | None = None
    threshold: float | None = None

    @property
    def metric(self) -> NDArray[np.floating]:
        """The metric ``M = L.T @ L``, (d, d), PSD.

        Raises
        ------
        ValueError
            If there are several.
        """
        if self.components.ndim > 2:
            raise ValueError(f"this solution has {len(self.components)} metrics; take one of solution.metrics.")
        return self.components.T @ self.components

    @property
    def metrics(self) -> NDArray[np.floating]:
        """All metrics, (c, d, d)."""
        L = self.components if self.components.ndim > 2 else self.components[None]
        metrics: NDArray[np.floating] = np.swapaxes(L, 1, 2) @ L
        return metrics

    def leading(self, n_components: int) -> NDArray[np.floating]:
        """Components of bounded rank: the leading eigenvectors of the metric, scaled by the roots of its eigenvalues.

        This is LMNN-S of Weinberger and Saul (2009, section 5.4) [WS2009], for `certify` to judge, in the data's own
        coordinates. LMNN-R, ``solve(problem, n_components=...)``, starts from those where the pull cost is the trace.

        Parameters
        ----------
        n_components : int
            Between 1 and the number of features.

        Returns
        -------
        components : (r, d) array
            With ``r <= n_components``, the longest row first.
        """
        d = self.metric.shape[0]
        if isinstance(n_components, bool) or not 1 <= n_components <= d:
            raise ValueError(f"n_components must be between 1 and {d}, got {n_components!r}.")
        return psd.leading(self.components, n_components)

    @property
    def objective(self) -> float:
        """Objective at the components; `certificate.objective`."""
        return self.certificate.objective

    @property
    def lower_bound(self) -> float:
        """Proven lower bound on every objective; `certificate.lower_bound`."""
        return self.certificate.lower_bound

    @property
    def relative_gap(self) -> float:
        """Proven relative gap; `certificate.relative_gap`."""
        return self.certificate.relative_gap

    def __str__(self) -> str:
        return f"{self.solver}: {self.status} after {self.seconds:.2f} s. {self.certificate}"

    def __repr__(self) -> str:
        return f"<Solution {self}>"

    def save(self, path: str | Path) -> None:
        """Save as one NPZ file: arrays, and everything else as JSON text; no pickle.

        Parameters
        ----------
        path : str or Path
            The file to write, as given.
        """
        about = {
            "format": 1,
            "certificate": asdict(self.certificate),
            "status": self.status.word,
            "solver": self.solver,
            "n_iter": self.n_iter,
            "seconds": self.seconds,
            "threshold": self.threshold,
            "fingerprint": None if self.problem is None else self.problem.fingerprint(),
        }
        arrays = {"components": self.components, "about": np.array(json.dumps(about))}
        if isinstance(self.dual, Dual):
            arrays |= {"dual_triplets": self.dual.triplets.to_array(), "dual_values": self.dual.values}
        elif self.dual is not None:
            arrays |= {"dual_values": self.dual}
        arrays |= {f"trace_{f.name}": self.trace[f.name] for f in fields(TraceRow)}
        with Path(path).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path, problem: Problem | None = None) -> Solution:
        """Load what `save` wrote.

        Parameters
        ----------
        path : str or Path
        problem : Problem, optional
            The problem that was solved; it is checked to be the same one.

        Raises
        ------
        ValueError
            If the file was not written by `save`, or belongs to another problem.
        """
        try:
            file = np.load(Path(path), allow_pickle=False)
        except (ValueError, EOFError, BadZipFile) as error:
            raise ValueError(
                f"{path} is not a saved solution: expected an NPZ file that Solution.save wrote."
            ) from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} is not a saved solution but a single array; expected what Solution.save wrote.")
        with file:
            expected = {"about", "components", *(f"trace_{f.name}" for f in fields(TraceRow))}
            if missing := sorted(expected.difference(file.files)):
                raise ValueError(
                    f"{path} is not a saved solution: it lacks {', '.join(missing)}; expected what Solution.save wrote."
                )
            about = json.loads(str(file["about"]))
            saved = about["fingerprint"]
            if about["certificate"].get("contradiction") is not None:
                about["certificate"]["contradiction"] = tuple(about["certificate"]["contradiction"])
            if problem is not None and saved is not None and problem.fingerprint() != saved:
                raise ValueError(
                    f"{path} is the solution of another problem: data or parameters differ; "
                    "pass the one it was saved with."
                )
            dual: Multipliers | None = None
            if "dual_triplets" in file:
                dual = Dual(Triplets.from_array(file["dual_triplets"]), file["dual_values"])
            elif "dual_values" in file:
                dual = file["dual_values"]
            names = [f.name for f in fields(TraceRow)]
            columns = [file[f"trace_{name}"].tolist() for name in names]
            whole = {f.name for f in fields(TraceRow) if isinstance(f.default, int) or f.name == "iteration"}
            rows = [
                TraceRow(**{name: int(v) if name in whole else v for name, v in zip(names, row, strict=True)})
                for row in zip(*columns, strict=True)
            ]
            return cls(
                components=file["components"],
                certificate=Certificate(**about["certificate"]),
                status=next(s for s in Status if s.word == about["status"]),
                solver=about["solver"],
                dual=dual,
                trace=Trace(rows),
                n_iter=about["n_iter"],
                seconds=about["seconds"],
                problem=problem,
                threshold=about["threshold"],
            )
