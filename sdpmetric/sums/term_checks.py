"""What a bound term returns, checked once before compiled loops, which check nothing, use it as row numbers."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.core.sample_weight import check_products
from sdpmetric.sums.terms.base import Loss, Term
from sdpmetric.sums.terms.margins import MarginLoss


def check_bound_term(term: Term, n: int) -> Term:
    """A bound term, refused where its rows, shapes or numbers do not fit n examples."""
    rows, costs = term.pair_costs()
    _check_rows(f"pair_costs() of {term.name}", np.asarray(rows), (len(rows), 2), n)
    _check_numbers(f"the costs of {term.name}", np.asarray(costs), (len(rows),))
    if len(rows):
        check_products(term.name, np.asarray(costs), getattr(term, "weights", None))
    if not (math.isfinite(term.ridge) and term.ridge >= 0.0):
        raise ValueError(f"ridge of {term.name} must be a finite number of at least 0, got {term.ridge!r}.")
    for loss in term.losses:
        _check_loss(loss, n)
    return term


def _check_loss(loss: Loss, n: int) -> None:
    pairs, name = np.asarray(loss.distance_pairs()), loss.name
    _check_rows(f"distance_pairs() of {name}", pairs, (len(pairs), 2), n)
    if isinstance(loss, MarginLoss):
        weights = np.asarray(loss.item_weights)
        if weights.ndim != 1:
            raise ValueError(f"bind() of {name} must set weights to an array of shape (m,), got {weights.shape}.")
        _check_numbers(f"weights of {name}", weights, weights.shape)
        if (weights < 0.0).any():
            raise ValueError(f"weights of {name} must be at least 0.")
        check_products(name, weights, loss.weights)
        for role, rows in loss.roles().items():
            _check_rows(f"{role!r} in roles() of {name}", np.asarray(rows), (loss.size,), n)
    _check_numbers(f"offset of {name}", np.asarray(loss.offset), (loss.size,))
    combination = loss.combination
    if not sp.issparse(combination) or combination.shape != (loss.size, len(pairs)):
        raise ValueError(
            f"combination of {name} must be a sparse array of shape {(loss.size, len(pairs))}, its numbers by its "
            f"pairs, got {type(combination).__name__} of shape {np.shape(combination)}."
        )
    _check_numbers(f"combination of {name}", combination.data, combination.data.shape)


def _check_rows(what: str, rows: NDArray[np.generic], shape: tuple[int, ...], n: int) -> None:
    if rows.shape != shape or rows.dtype.kind not in "iu":
        raise ValueError(
            f"{what} must be integers of shape {shape}, row numbers of X, got shape {rows.shape} and dtype "
            f"{rows.dtype}; let bind() check them."
        )
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= n):
        wrong = int(rows.min()) if int(rows.min()) < 0 else int(rows.max())
        raise ValueError(f"{what} names row {wrong}, but the rows of X are 0..{n - 1}; let bind() check them.")


def _check_numbers(what: str, values: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    if values.shape != shape or values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError(
            f"{what} must be finite numbers of shape {shape}, got shape {values.shape} and {values.dtype}."
        )
