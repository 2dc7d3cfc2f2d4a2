"""Sums of terms that have no minimum, and hard constraints that contradict each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import InfeasibilityCertificate
from sdpmetric.problems.fenchel import NULL, FenchelDual
from sdpmetric.terms.base import PairLoss

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Parts of multipliers added where constraints pull together, so that a proof of a contradiction bears rounding.
MORE = (0.0, 1e-9, 1e-6, 1e-3)
# Multipliers below this share of the largest are left out of the list of constraints that contradict each other.
NEGLIGIBLE = 1e-6


def unbounded(dual: FenchelDual) -> int:
    """In how many directions a term may gain without end at no cost; 0 where the sum is bounded from below."""
    gaining = [loss for loss in dual.total.losses if not loss.nonnegative]
    if not gaining or dual.total.regularizers:
        return 0
    anchors = [loss.anchor(loss.clip(np.ones(loss.size))) for loss in dual.total.losses]
    null = dual.slack.coordinates(dual.total.pair_weights(anchors), None)[1]
    Y = dual.total.centered @ dual.slack.domain.basis.T @ null
    rows = np.concatenate([loss.distance_pairs() for loss in gaining if isinstance(loss, PairLoss)])
    parts = Y[rows[:, 0]] - Y[rows[:, 1]]
    sizes = np.linalg.svd(parts[np.abs(parts).max(axis=1, initial=0.0) > NULL], compute_uv=False)
    return int(np.count_nonzero(sizes > NULL))


def contradiction(dual: FenchelDual, a: Lists) -> FloatArray | None:
    """Multipliers that prove that no metric satisfies all hard constraints, (m,); None where these do not.

    Where some metric does, the sum of the hard constraints alone has the minimum 0, and nothing above is proven.
    """
    hard = [loss.hard for loss in dual.total.losses]
    found = [part if is_hard else np.zeros_like(part) for part, is_hard in zip(a, hard, strict=True)]
    size = max((float(part.max(initial=0.0)) for part in found), default=0.0)
    if not 0.0 < size < math.inf:
        return None
    alone = replace(
        dual.total, terms=tuple(loss for loss, is_hard in zip(dual.total.losses, hard, strict=True) if is_hard)
    )
    scaled = [part / size for part, is_hard in zip(found, hard, strict=True) if is_hard]
    own = FenchelDual(alone, replace(dual.slack, total=alone))
    for more in MORE:
        raised = [
            np.where(part > 0.0, part + more * (loss.anchor(part) > 0.0), 0.0)
            for loss, part in zip(alone.losses, scaled, strict=True)
        ]
        proven = own.prove(raised, np.zeros((0, dual.d)))
        if proven.value > 0.0:
            parts = iter(proven.multipliers)
            return np.concatenate([next(parts) if is_hard else part for part, is_hard in zip(found, hard, strict=True)])
    return None


def certificate(dual: FenchelDual, components: FloatArray, given: FloatArray | None) -> InfeasibilityCertificate | None:
    """Proof that hard constraints contradict each other, by given multipliers or by the violations at a point.

    Parameters
    ----------
    dual : FenchelDual
    components : (r, d) array
    given : (m,) array or None
    """
    total = dual.total
    if not any(loss.hard for loss in total.losses):
        return None
    u = total.excess(components)
    tries = [] if given is None else [total.split(given)]
    tries.append([np.maximum(part, 0.0) if loss.hard else part for loss, part in zip(total.losses, u, strict=True)])
    for a in tries:
        if (found := contradiction(dual, a)) is not None:
            rows = tuple(int(i) for i in np.flatnonzero(found > NEGLIGIBLE * found.max()))
            return InfeasibilityCertificate(program="sum of terms", constraints="hard constraints", contradiction=rows)
    return None
