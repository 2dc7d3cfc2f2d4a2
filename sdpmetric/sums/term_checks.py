"""What a bound term returns, checked once before compiled loops, which check nothing, use it as row numbers."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from sdpmetric.core import validation
from sdpmetric.core.sample_weight import check_products
from sdpmetric.sums.terms.base import Loss, Term


def check_bound_term(term: Term, n: int) -> Term:
    """A bound term, refused where its rows, shapes or numbers do not fit n examples."""
    rows, costs = term.pair_costs()
    validation.check_rows(f"pair_costs() of {term.name}", rows, n, (len(rows), 2))
    validation.check_matrix(f"the costs of {term.name}", costs, (len(rows),))
    if len(rows):
        check_products(term.name, np.asarray(costs), getattr(term, "weights", None))
    if not (math.isfinite(term.ridge) and term.ridge >= 0.0):
        raise ValueError(f"ridge of {term.name} must be a finite number of at least 0, got {term.ridge!r}.")
    for loss in term.losses:
        _check_loss(loss, n)
    return term


def _check_loss(loss: Loss, n: int) -> None:
    pairs, name = np.asarray(loss.distance_pairs()), loss.name
    validation.check_rows(f"distance_pairs() of {name}", pairs, n, (len(pairs), 2))
    loss.check_weights()
    for role, rows in loss.roles().items():
        validation.check_rows(f"{role!r} in roles() of {name}", rows, n, (loss.size,))
    validation.check_matrix(f"offset of {name}", loss.offset, (loss.size,))
    combination = loss.combination
    if not sp.issparse(combination) or combination.shape != (loss.size, len(pairs)):
        raise ValueError(
            f"combination of {name} must be a sparse array of shape {(loss.size, len(pairs))}, its numbers by its "
            f"pairs, got {type(combination).__name__} of shape {np.shape(combination)}."
        )
    validation.check_matrix(f"combination of {name}", combination.data, ("m",))
