"""The base of every statement: immutable data, a description, an objective, and a certificate for any point.

A statement may also have *capabilities*: optional methods that functions look up by name. See
``docs/terms.md``.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, Multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.named import scaled_identity
from sdpmetric.core.read_only import read_only
from sdpmetric.core.text import Printed
from sdpmetric.engine.lazy import cached, published
from sdpmetric.linalg.dependence import described
from sdpmetric.linalg.search import best_log_scale

# Logarithms of the multiples of a metric's factor that `Problem.best_scale` looks at.
LOG_SCALES = (-12.0, 12.0)
# Metadata of a dataclass field that controls the computation and is not part of the statement.
NOT_STATED = {"stated": False}


@dataclass(eq=False, repr=False)
class Problem(Printed, ABC):
    """A statement: a dataclass with its data and parameters as fields.

    Its constructor sets each field once, and arrays become read-only copies (`sdpmetric.core.read_only`); nothing
    changes a statement afterwards.

    Attributes
    ----------
    X : (n, d) array
        The data, float64 or float32.
    statement : str
        Class attribute: the name of the statement on the command line; empty for none.
    weights : tuple of str
        Class attribute: the fields that `path` may vary.

    See Also
    --------
    LMNNProblem, MetricProblem, formulation, solver

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> problem.describe().startswith("LMNN"), problem.weights
    (True, ('push_weight', 'ridge'))
    >>> problem.objective(metric=np.eye(4)) >= solution.lower_bound
    True
    """

    statement: ClassVar[str] = ""
    # Modules that register solvers and programs for the class; "conic" takes any exact program.
    solver_modules: ClassVar[tuple[str, ...]] = ("sdpmetric.sums.conic",)

    if TYPE_CHECKING:

        @property
        def X(self) -> NDArray[np.floating]:
            """The data."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) or name not in {f.name for f in fields(self)}:
            raise AttributeError(
                f"{name} of a {type(self).__name__} cannot be set: problems do not change; state another one, for "
                "example by with_weights."
            )
        try:
            super().__setattr__(name, read_only(value))
        except RecursionError as error:
            raise ValueError(f"{name} contains itself.") from error
        if name == "X":
            super().__setattr__("_data_digest", digest(self.X))

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a pickle or a deep copy, with arrays that are read-only again."""
        names = {f.name for f in fields(self)}
        self.__dict__.update({name: read_only(value) if name in names else value for name, value in state.items()})
        if "X" in state:
            super().__setattr__("_data_digest", digest(self.X))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a {type(self).__name__} cannot be deleted: problems do not change.")

    @property
    def weights(self) -> tuple[str, ...]:
        """The fields that `path` may vary; a class attribute in statements that have some."""
        return ()

    @property
    def zero(self) -> FloatArray:
        """Components of the zero metric, (0, d)."""
        return np.zeros((0, self.X.shape[1]))

    @property
    def start(self) -> FloatArray:
        """Components with a finite objective, returned by a solve that ends before it has evaluated any point.

        Default: the identity, scaled so that the mean squared distance of two examples is 1.
        """
        return scaled_identity(self.X, self.X.shape[1])

    @abstractmethod
    def describe(self) -> str:
        """Say in one sentence what is minimized, over how much data."""

    @abstractmethod
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the objective.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric ``M = L.T @ L``.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """

    @abstractmethod
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """Certify any point.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric ``M = L.T @ L``.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        dual : Dual or (p,) array, optional
            Multipliers for the lower bound; default: those computed from the point.
        """

    def beside(self, components: FloatArray) -> dict[str, float]:
        """Return numbers that follow from a point, for `Solution.extras`: POLA's best ``threshold``. Default: none.

        Parameters
        ----------
        components : (r, d) array
        """
        return {}

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """Return the factor of a given point, float64, and how far the metric was from the PSD cone, relatively.

        Parameters
        ----------
        components : (r, d) array or None
        metric : (d, d) array or None
            Exactly one of the two.
        """
        return validation.check_point(components, metric, self.X.shape[1])

    def check_start(self, components: ArrayLike) -> FloatArray:
        """Return components to start from, (r, d) or (c, r, d), float64; raise an error if they are out of range.

        Parameters
        ----------
        components : (r, d) array
        """
        with np.errstate(over="ignore"):
            L, _ = self.check_point(np.asarray(components), None)
            length = float((np.abs(L) @ self._ranges).max(initial=0.0))
        validation.check_range("components put examples up to {:.3g} apart", length)
        return L

    def check_size(self, components: ArrayLike | None, metric: ArrayLike | None) -> None:
        """Raise an error for a given point with squared distances or a trace that are too large.

        Parameters
        ----------
        components : (r, d) array or None
        metric : (d, d) array or None
            Exactly one of the two.
        """
        name = "components" if metric is None else "metric"
        array = validation.real_array(name, components if metric is None else metric)
        if array.ndim >= 2 and array.shape[-1] == self.X.shape[1] and np.isfinite(array).all():
            with np.errstate(over="ignore", invalid="ignore"):
                far = np.abs(array) @ self._ranges
                sizes = [np.sum(far**2), np.sum(array**2)] if metric is None else [np.sum(far @ self._ranges)]
            if not max(sizes) <= validation.RANGES.largest_square:
                raise ValueError(
                    f"{name} is too large: squared distances or the trace exceed {validation.RANGES.largest_square:g}; "
                    "scale it down."
                )

    @cached
    def _ranges(self) -> FloatArray:
        return np.asarray(np.ptp(np.asarray(self.X, dtype=np.float64), axis=0))

    def check_unchanged(self) -> None:
        """Raise an error if the data differ from the stated data, so nothing is claimed about them.

        Their memory is read-only; debuggers, foreign code and attributes that are set by force get around that.
        """
        if getattr(self, "_data_digest", None) not in (None, digest(self.X)):
            raise ValueError(f"X changed since this {type(self).__name__} was stated; state the problem again.")
        for f in fields(self):
            if isinstance(base := getattr(self, f.name), Problem):
                base.check_unchanged()

    def fingerprint(self) -> str:
        """Return a hash of data and parameters, so a saved solution finds its problem."""
        return digest(self)

    def with_weights(self, **values: float) -> Self:
        """State the same problem with other weights; data are shared.

        Parameters
        ----------
        **values : float
            Those of `weights` that change.
        """
        validation.check_known(f"with_weights of {type(self).__name__}", values, self.weights)
        return replace(self, **values)

    def best_scale(self, components: FloatArray) -> float:
        """Return the number s > 0 that about minimizes the objective of ``s * components``, not above that of s = 1.

        Parameters
        ----------
        components : (r, d) array
        """
        objective = self._along(components)
        scale = float(np.exp(best_log_scale(lambda log: objective(np.exp(log)), LOG_SCALES, 1e-6)[0]))
        return scale if self.objective(scale * components) < self.objective(components) else 1.0

    def _along(self, components: FloatArray) -> Callable[[float], float]:
        """Return what `best_scale` minimizes: the objective of multiples of a factor, or a part that stands for it."""
        return lambda scale: self.objective(scale * components)

    @property
    def in_span(self) -> InSpan[Problem] | None:
        """The problem in the span of its rows, if these are few and an optimum acts on nothing else; default: None."""
        return None

    def caution(self, components: NDArray[np.floating], certificate: Certificate) -> str | None:
        """Say why a solution is likely to be useless on other data, or return None.

        A certificate is about the training data. Statements that know more than that the metric is 0 override this.

        Parameters
        ----------
        components : (r, d) array
        certificate : Certificate
        """
        if components.any():
            return None
        return (
            "the metric is 0, under which all examples are equal: give the constraints more weight than the other "
            "terms, or lower the ridge."
        )

    def easier(self) -> str:
        """Name a similar statement with a gap that closes faster, for solves with an open gap, or return ""."""
        return ""

    def dependence(self, names: Sequence[str] = ()) -> str:
        """Say what to do about features that are combinations of others up to rounding, or return "".

        Parameters
        ----------
        names : sequence of str
            Those of the features; default: their numbers.
        """
        relations = described(self.X, names) if isinstance(self.X, np.ndarray) else ""
        if not relations:
            return ""
        remedies = "Pass ridge='auto', or leave" if hasattr(self, "ridge") else "Leave"
        return (
            f"{remedies} out features that are combinations of others up to rounding, or learn in the directions that "
            f"vary, for example by PCA: {relations}. Almost nothing varies in the others, so bounds are weak there."
        )

    @published
    def centered(self) -> FloatArray:
        """The data minus a float near the mean of each feature, float64; exactly 0 for a constant feature.

        If the values of a feature are within a factor of 2, as with a large offset, no subtraction is rounded
        (Sterbenz), so differences of rows are those of X.
        """
        X = np.asarray(self.X, dtype=np.float64)
        return np.asarray(X - np.clip(X.mean(axis=0), X.min(axis=0), X.max(axis=0)))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


ProblemT = TypeVar("ProblemT", bound=Problem, covariant=True)


@dataclass(frozen=True, eq=False)
class InSpan(Generic[ProblemT]):
    """A problem of few rows in many features, for solvers: stated in coordinates of their span."""

    problem: ProblemT
    basis: FloatArray  # (d, r): coordinates are ``X @ basis``
    inverse: FloatArray  # (d, r): the data are about ``coordinates @ inverse.T``
    multiple: float  # of the identity: the metric outside of the span

    def coordinates(self, components: FloatArray) -> FloatArray:
        """Return the factor of a metric in the span, of at most r rows."""
        factor: FloatArray = components @ self.inverse
        return np.asarray(np.linalg.qr(factor, mode="r")) if len(factor) > factor.shape[1] else factor

    def lifted(self, components: FloatArray) -> FloatArray:
        """Return the factor of the metric that is as given in the span; a symmetric root if it is not 0 outside."""
        if not self.multiple:
            return np.asarray(components @ self.basis.T)
        _, sigma, Vt = np.linalg.svd(components, full_matrices=False)
        root, outside = (Vt.T * sigma) @ Vt, math.sqrt(self.multiple)
        np.fill_diagonal(root, root.diagonal() - outside)
        L: FloatArray = self.basis @ root @ self.basis.T
        np.fill_diagonal(L, L.diagonal() + outside)
        return L


@runtime_checkable
class Labeled(Protocol):
    """A statement that labeled data make; the command line states those with a name."""

    @classmethod
    def from_labels(cls, X: ArrayLike, y: ArrayLike, **parameters: str | float | None) -> Problem:
        """State the problem for labeled data."""


@runtime_checkable
class Constrained(Protocol):
    """A statement that lists the constraints its multipliers belong to, for `explain`."""

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """Return the violated constraints and those with a positive multiplier.

        Parameters
        ----------
        components : (r, d) array
            The point, float64.
        dual : Dual or (p,) array or None
            Multipliers, made dual feasible as in `certify`; default: those of the point.
        """


def statements() -> dict[str, type[Problem]]:
    """Return the statements with a name, by name, those of other packages that are imported as well."""
    by_name: dict[str, type[Problem]] = {}
    queue = list(Problem.__subclasses__())
    while queue:
        kind = queue.pop(0)
        queue += kind.__subclasses__()
        if "statement" in vars(kind) and kind.statement:
            by_name[kind.statement] = kind
    return by_name


def check_problem(verb: str, problem: object) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(
            f"{verb} takes a problem, for example LMNNProblem.from_labels(X, y), got {type(problem).__name__}."
        )


def unsupported(verb: str, problem: object, reason: str) -> TypeError:
    return TypeError(f"{verb} does not take {type(problem).__name__}: {reason}.")


def digest(*values: object) -> str:
    """Return SHA-256 of values and of everything in them, as hexadecimal digits."""
    state = hashlib.sha256()
    for value in values:
        _add(state, value)
    return state.hexdigest()


def _add(state: hashlib._Hash, value: object) -> None:
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        state.update(repr(value.item() if isinstance(value, np.generic) else value).encode() + b"\0")
    elif isinstance(value, np.ndarray):
        _add_array(state, value)
    elif isinstance(value, Mapping):
        _add(state, sorted(value.items()))
    elif isinstance(value, tuple | list):
        state.update(f"{len(value)} values\0".encode())
        for item in value:
            _add(state, item)
    elif is_dataclass(value):
        state.update(f"{type(value).__name__}\0".encode())
        for f in fields(value):
            if f.metadata.get("stated", True):
                _add(state, (f.name, getattr(value, f.name)))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be hashed; expected arrays, numbers, texts or dataclasses.")


def _add_array(state: hashlib._Hash, array: NDArray[np.generic]) -> None:
    state.update(f"{array.dtype.str} {array.shape}\0".encode())
    if array.dtype.hasobject:
        state.update(repr(array.tolist()).encode())
    elif array.size:
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
