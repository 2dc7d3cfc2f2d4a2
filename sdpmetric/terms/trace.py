"""The trace as a term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.terms.base import Term


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Term):
    """``trace(M)``, linear: every direction costs the same, which makes metrics of low rank.

    Parameters
    ----------
    weight : float, default 1
    """

    name: ClassVar[str] = "trace"

    @property
    def ridge(self) -> float:
        """Its weight."""
        return self.weight

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Nothing has to be checked."""
        return self

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return "trace"
