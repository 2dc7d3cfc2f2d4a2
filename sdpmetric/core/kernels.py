"""Kernel functions, for every learner that works in a feature space: their names, parameters, values and checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics.pairwise import pairwise_kernels

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation

Kernel = str | Callable[[FloatArray, FloatArray], FloatArray]

NAMES = ("linear", "poly", "rbf", "laplacian", "sigmoid", "cosine")
PARAMETERS = ("gamma", "degree", "coef0")
# A kernel matrix is invalid if it is asymmetric, or has an eigenvalue below 0, by more than this share of its size.
PSD_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """A positive semidefinite kernel and its parameters."""

    kernel: Kernel
    parameters: Mapping[str, float]  # By name

    @classmethod
    def of(cls, kernel: Kernel, parameters: Mapping[str, float | None] | None = None) -> KernelFunction:
        """Check a kernel and its parameters; those that are None are left out."""
        if not callable(kernel):
            validation.check_choice("kernel, where it is no function,", kernel, NAMES)
        if parameters is not None and not isinstance(parameters, Mapping):
            raise ValueError(f"kernel_params must be a dict of the kernel's parameters by name, got {parameters!r}.")
        named = {name: value for name, value in (parameters or {}).items() if value is not None}
        checked = {name: validation.check_number(str(name), value, -np.inf) for name, value in named.items()}
        if callable(kernel):
            try:
                with suppress(ValueError):  # some built-in functions have no signature
                    inspect.signature(kernel).bind(None, None, **checked)
            except TypeError as error:
                raise ValueError(f"the kernel does not take these kernel_params ({error}).") from error
        else:
            validation.check_known(f"kernel_params of {kernel!r}", checked, PARAMETERS)
        return cls(kernel, checked)

    def __call__(self, X: ArrayLike, Y: ArrayLike) -> FloatArray:
        A: FloatArray = np.asarray(X, dtype=np.float64)
        B: FloatArray = np.asarray(Y, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if callable(self.kernel):
                K = np.asarray(self.kernel(A, B, **self.parameters), dtype=np.float64)
            else:
                if self.kernel == "rbf":  # distances are translation invariant; rounding is smallest near the origin
                    center = B.mean(axis=0)
                    A, B = A - center, B - center
                K = np.asarray(pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **self.parameters))
        if K.shape != (len(A), len(B)):
            raise ValueError(
                f"the kernel must map (n, d) and (m, d) arrays to (n, m) values; it returned shape {K.shape} for "
                f"{len(A)} and {len(B)} examples."
            )
        if not np.isfinite(K).all():
            name = "" if callable(self.kernel) else f"{self.kernel} "
            raise ValueError(
                f"values of the {name}kernel overflow or are NaN; scale the features, for example to [0, 1]."
            )
        return K


def check_symmetric(K: FloatArray, tolerance: float = PSD_TOLERANCE) -> None:
    """Refuse a matrix of kernel values of examples with each other that is not symmetric."""
    worst = float(np.abs(K - K.T).max())
    if worst > tolerance * float(np.abs(K).max()):
        raise ValueError(
            f"the kernel matrix is not symmetric: entries differ from their mirror image by up to {worst:.3g}; "
            "k(x, y) must equal k(y, x)."
        )


def check_semidefinite(K: FloatArray, tolerance: float = PSD_TOLERANCE) -> None:
    """Refuse a symmetric matrix that is not positive semidefinite."""
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    if values[0] < -tolerance * max(values[-1], 0.0):
        raise ValueError(
            f"the kernel is not positive semidefinite: its matrix has the eigenvalue {values[0]:.3g} and a "
            f"largest one of {values[-1]:.3g}; use a kernel that is."
        )
