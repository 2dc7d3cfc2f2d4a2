"""The answer of a solver: a point, the problem's certificate for it, the status, and the trace."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import allow_underflow
from sdpmetric.core.certificate import (
    AS_SAVED,
    Certificate,
    Dual,
    DualityCertificate,
    Multipliers,
    RegretCertificate,
    RelaxationCertificate,
)
from sdpmetric.core.files import (
    Provable,
    check_arrays,
    check_values,
    expected,
    printable,
    read_json,
    read_npz,
    write_npz,
)
from sdpmetric.core.problem import Problem, unsupported
from sdpmetric.core.registry import solvers_of
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Trace, TraceRow
from sdpmetric.core.text import Printed
from sdpmetric.core.triplets import Triplets
from sdpmetric.core.validation import check_integer, check_limit
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import Stop


@dataclass(frozen=True)
class Solution(Printed):
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
    extras : dict of str to float
        Numbers that only some statements or solvers have, by name: POLA's ``threshold``, a stream's ``mistakes``, the
        ``iterate`` of the subgradient solver that is returned, 1 for the first metric.

    See Also
    --------
    Certificate, Status, solve
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
    extras: dict[str, float] = field(default_factory=dict)

    @property
    def metric(self) -> NDArray[np.floating]:
        """The metric ``M = L.T @ L``, (d, d), PSD."""
        if self.components.ndim > 2:
            raise ValueError(f"this solution has {len(self.components)} metrics; take one of solution.metrics.")
        return self.components.T @ self.components

    @property
    def metrics(self) -> NDArray[np.floating]:
        """All metrics, (c, d, d)."""
        L = self.components if self.components.ndim > 2 else self.components[None]
        metrics: NDArray[np.floating] = np.swapaxes(L, 1, 2) @ L
        return metrics

    def leading(self, n_components: int, X: ArrayLike | None = None) -> NDArray[np.floating]:
        """Return components of bounded rank, LMNN-S of Weinberger and Saul (2009, sections 5.4 and 6.3) [WS2009].

        Without X the leading eigenvectors of the metric, scaled by the roots of its eigenvalues; with X the projection
        of the transformed examples onto their leading principal components. The two are the same if the examples are
        whitened. Both are in the data's own coordinates; `certify` evaluates them. LMNN-R, ``solve(problem,
        n_components=...)``, starts from the former, in coordinates that turn the pull cost into the trace.

        Parameters
        ----------
        n_components : int
            Between 1 and the number of features.
        X : (n, d) array, optional
            Examples, usually those that were learned from.

        Returns
        -------
        components : (r, d) array
            With ``r <= n_components``, the longest row first, or with X that of the largest variance.
        """
        d = self.metric.shape[0]
        check_integer("n_components", n_components, high=d)
        if X is None:
            return psd.leading(self.components, n_components)
        Z = np.asarray(X) @ self.components.T
        axes = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2]
        leading: NDArray[np.floating] = axes[:n_components] @ self.components
        return leading

    @property
    def objective(self) -> float:
        """Objective at the components; `certificate.objective`."""
        return self.certificate.objective

    @property
    def lower_bound(self) -> float:
        """Lower bound on every objective; `certificate.lower_bound`."""
        return self.certificate.lower_bound

    @property
    def relative_gap(self) -> float:
        """Relative gap of objective and lower bound; `certificate.relative_gap`."""
        return self.certificate.relative_gap

    @property
    def advice(self) -> str:
        """Say what to do next: the cure of a known cause of an open gap, else the advice of the status."""
        return self.advice_on()

    def advice_on(self, names: Sequence[str] = ()) -> str:
        """Return `advice`, in which features have names in place of numbers.

        Parameters
        ----------
        names : sequence of str
            Those of the features, for example the columns of a data frame; default: their numbers.
        """
        if self.status not in (Status.OPTIMAL_INACCURATE, Status.STALLED, Status.USER_LIMIT):
            return self.status.advice
        if self.problem is not None and (dependence := self.problem.dependence(names)):
            return dependence  # scaling, time and other solvers would not help
        weakness = self.certificate.weakness if isinstance(self.certificate, DualityCertificate) else None
        easier = self.problem.easier() if self.problem is not None and self.objective < math.inf else ""
        # Scaling and other solvers, which statuses advise, would not help a bound with a known weakness.
        advice = f"{weakness[0].upper()}{weakness[1:]}." if weakness else self.status.advice
        return f"{advice} {easier}".strip()

    def __str__(self) -> str:
        return f"{self.solver}: {self._status_in_words()} after {self.seconds:.2f} s. {self.certificate}"

    def _status_in_words(self) -> str:
        return f"{self.status} ({AS_SAVED})" if self.certificate.as_saved else str(self.status)

    def __repr__(self) -> str:
        return f"<Solution {self}>"

    def save(self, path: str | Path) -> None:
        """Save as one NPZ file: arrays, and everything else as JSON text; no pickle.

        Parameters
        ----------
        path : str or Path
            The file to write, as given.
        """
        fingerprint = None if self.problem is None else self.problem.fingerprint()
        write_npz(path, self._to_arrays(fingerprint))

    def _to_arrays(self, fingerprint: str | None = None) -> dict[str, NDArray[np.generic]]:
        """Return everything but the problem as arrays, one of them, ``about``, JSON text; `_from_arrays` reads them."""
        header = {
            "format": FORMAT,
            "certificate": self.certificate.to_dict(),
            "status": self.status.word,
            "solver": self.solver,
            "n_iter": self.n_iter,
            "seconds": self.seconds,
            "extras": self.extras,
            "fingerprint": fingerprint,
        }
        arrays: dict[str, NDArray[np.generic]] = {"components": self.components, "about": np.array(json.dumps(header))}
        if isinstance(self.dual, Dual):
            arrays |= {"dual_triplets": self.dual.triplets.to_array(), "dual_values": self.dual.values}
        elif self.dual is not None:
            arrays |= {"dual_values": self.dual}
        return arrays | {f"trace_{f.name}": self.trace[f.name] for f in fields(TraceRow)}

    def __getstate__(self) -> dict[str, object]:
        """Return plain arrays and the problem, for pickles and for skops, which knows no enumerations."""
        return {"arrays": self._to_arrays(), "problem": self.problem}

    def __setstate__(self, state: dict[str, object]) -> None:
        arrays, problem = cast(dict[str, NDArray[np.generic]], state["arrays"]), cast(Problem | None, state["problem"])
        self.__dict__.update(vars(Solution._from_arrays(arrays, problem)._as_saved()))

    def __copy__(self) -> Solution:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Solution:
        """Return the same certificate: unlike a pickle, a copy in memory cannot have been changed."""
        return replace(self, components=self.components.copy())

    def _as_saved(self) -> Solution:
        return replace(self, certificate=replace(self.certificate, as_saved=True))

    @allow_underflow
    def save_proof(self, path: str | Path, data: str | Path | None = None) -> None:
        """Write what is proven as a file that ``python -m sdpmetric.check DATA PROOF`` verifies without this package.

        The file holds the hash of the data, the program term by term, components, multipliers, and the claims; of
        constraints that contradict each other, the multipliers that prove it. See ``docs/certificates.md``.

        Parameters
        ----------
        path : str or Path
            The file to write, an NPZ file.
        data : str or Path, optional
            Another one to write, with the data that the proof is about: X, and what the statement needs of y, pairs,
            similar, triplets and quadruplets. Default: you have such a file.

        Raises
        ------
        TypeError
            If proof files do not support the problem.
        ValueError
            If the certificate is no proof in floating point.
        """
        problem: object = problem_of("save_proof", self)
        if not isinstance(problem, Provable):
            raise unsupported(
                "save_proof", problem, "it has no method proof(); use certify, which proves the same from solution.dual"
            )
        if self.certificate.reservation:
            raise ValueError(
                f"the certificate of this solution is no proof{self.certificate.reservation}; a proof file needs one "
                'of rigor "float", for example that of the same problem without further constraints.'
            )
        problem.proof(np.asarray(self.components, dtype=np.float64), self.dual).write(path, data)

    @classmethod
    def load(cls, path: str | Path, problem: Problem | None = None, *, tol: float | None = None) -> Solution:
        """Load what `save` wrote.

        With the problem the point is certified again, by the multipliers of the file, and the status is that of the new
        certificate. Without it, and for regret, which only the stream's learner knows, status and certificate are those
        of the file, are printed as saved and not verified, and prove nothing (`Certificate.as_saved`). So are those of
        pickles and skops files; ``sdpmetric.certify(problem, solution.components, dual=solution.dual)`` proves again.

        Parameters
        ----------
        path : str or Path
        problem : Problem, optional
            The problem that was solved; it is checked to be the same one.
        tol : float, optional
            Largest relative gap of an optimal point, default that of the solver, or 1e-3.

        Raises
        ------
        ValueError
            If the file is damaged, of another format, or of another problem.
        """
        description = (path, "a saved solution", "Solution.save")
        if tol is not None:
            check_limit("tol", tol, "relative gap")
        with expected(*description):
            arrays = read_npz(path)
            written = read_json(arrays, "about").get("format")
        if written != FORMAT:
            raise ValueError(
                f"{path} has format {written}, and this version of sdpmetric reads format {FORMAT}; "
                "solve again, or read it with the version that wrote it."
            )
        with expected(*description):
            saved = _check_arrays(arrays).get("fingerprint")
            solution = cls._from_arrays(arrays, problem)
        if problem is not None and saved is not None and problem.fingerprint() != saved:
            raise ValueError(
                f"{path} is the solution of another problem: data or parameters differ; pass the one it was saved with."
            )
        with expected(*description):
            return solution._certified_again(tol)

    def _certified_again(self, tol: float | None) -> Solution:
        """Return the same point with the problem's own certificate, and the status that follows from it."""
        if self.problem is None or self.certificate.kind == RegretCertificate.kind:
            return self._as_saved()
        fresh = self.problem.certify(self.components, dual=self.dual)
        if np.isnan([fresh.objective, fresh.lower_bound]).any():
            raise ValueError("its components or multipliers are too large to be certified.")
        if self.certificate.kind == RelaxationCertificate.kind and isinstance(fresh, DualityCertificate):
            fresh = RelaxationCertificate.of(fresh)
        if tol is None:
            tol = next((entry.tol for entry in solvers_of(self.problem) if entry.name == self.solver), 1e-3)
        status_holds = self.status in ENDED and not fresh.settles(tol)
        extras = self.extras | self.problem.beside(np.asarray(self.components, dtype=np.float64))
        status = self.status if status_holds else fresh.status(tol)
        return replace(self, certificate=fresh, status=status, extras=extras)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], problem: Problem | None = None) -> Solution:
        values = json.loads(str(arrays["about"]))
        dual: Multipliers | None = None
        if "dual_triplets" in arrays:
            triplets = Triplets.from_array(np.asarray(arrays["dual_triplets"], dtype=np.int32))
            dual = Dual(triplets, np.asarray(arrays["dual_values"], dtype=np.float64))
        elif "dual_values" in arrays:
            dual = np.asarray(arrays["dual_values"], dtype=np.float64)
        names = [f.name for f in fields(TraceRow)]
        columns = [arrays[f"trace_{name}"].astype(int if name in INTEGER_COLUMNS else float).tolist() for name in names]
        rows = [replace(TraceRow(*row), stop=Stop(row[-1])) for row in zip(*columns, strict=True)]
        return cls(
            components=cast(NDArray[np.floating], arrays["components"]),
            certificate=Certificate.from_dict(cast(dict[str, object], _printable(values["certificate"]))),
            status={status.word: status for status in Status}[values["status"]],
            solver=printable(values["solver"]),
            dual=dual,
            trace=Trace(rows),
            n_iter=values["n_iter"],
            seconds=values["seconds"],
            problem=problem,
            extras=values["extras"],
        )


def check_solution(verb: str, solution: object) -> None:
    if not isinstance(solution, Solution):
        raise TypeError(f"{verb} takes a solution, as solve(problem) returns one, got {type(solution).__name__}.")


def problem_of(verb: str, solution: object) -> Problem:
    """Return the problem of a solution."""
    check_solution(verb, solution)
    if (stated := cast(Solution, solution).problem) is None:
        raise ValueError(f"{verb}: the solution was loaded without its problem; pass it to Solution.load, too.")
    return stated


# Of the files that `Solution.save` writes.
FORMAT = 5
# Why a solve ended, which no certificate says.
ENDED = (
    Status.USER_LIMIT,
    Status.INTERRUPTED,
    Status.STREAM_ENDED,
    Status.STOPPED_EARLY,
    Status.NUMERICAL_ERROR,
    Status.SOLVER_ERROR,
)
# Columns of the trace that hold whole numbers.
INTEGER_COLUMNS = frozenset(f.name for f in fields(TraceRow) if f.type in ("int", "Stop"))
# Of arrays of the file: possible types, and then possible shapes.
ARRAYS = {
    "components": ("f4 f8", "r d", "c r d"),
    "dual_triplets": ("i4", "t 3"),
    "dual_values": ("f4 f8", "t", "t u"),
    **{f"trace_{f.name}": ("f8", "s") for f in fields(TraceRow)},
}
OPTIONAL = ("dual_triplets", "dual_values")
FINITE = ("components", "dual_values", *(f"trace_{name}" for name in INTEGER_COLUMNS))
TEXT_SCHEMA = {
    "format": "int",
    "certificate": "dict",
    "status": "str",
    "solver": "str",
    "n_iter": "int",
    "seconds": "float",
    "extras": "dict",
    "fingerprint": "str | None",
}
EXTRAS = {"threshold": "float", "mistakes": "int", "iterate": "int"}


def _printable(value: object) -> object:
    if isinstance(value, dict):
        return {printable(name): _printable(entry) for name, entry in value.items()}
    return printable(value) if isinstance(value, str) else value


def _check_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, object]:
    if missing := sorted(set(ARRAYS) - set(OPTIONAL) - set(arrays)):
        raise ValueError(f"it lacks {', '.join(missing)}.")
    check_arrays(arrays, ARRAYS)
    for name in FINITE:
        if not np.isfinite(arrays.get(name, 0.0)).all():
            raise ValueError(f"{name} contains NaN or infinity.")
    if "dual_triplets" in arrays and ("dual_values" not in arrays or arrays["dual_values"].ndim != 1):
        raise ValueError("dual_values does not hold one number for each of dual_triplets.")
    values = read_json(arrays, "about")
    check_values(values, TEXT_SCHEMA, "about", frozenset(TEXT_SCHEMA) - {"fingerprint"})
    check_values(values["extras"], EXTRAS, "extras")
    return values
