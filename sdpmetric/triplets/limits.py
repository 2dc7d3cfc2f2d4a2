"""Limits of exhaustive searches: their deadline, and how many candidates they may list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sdpmetric.engine.deadline import BudgetSpent as BudgetSpent
from sdpmetric.engine.deadline import check_deadline as check_deadline
from sdpmetric.engine.deadline import deadline as deadline
from sdpmetric.engine.deadline import remaining as remaining
from sdpmetric.engine.interface import WHOLE, Part
from sdpmetric.triplets.triplets import Candidates

# Largest number of candidate pairs in memory: for each target pair of the anchors, and in all; the larger one counts.
CANDIDATES_PER_TARGET_PAIR, FEWEST_CANDIDATES = 32, 1 << 20

_PART: ContextVar[Part] = ContextVar("part", default=WHOLE)


class TooManyCandidates(Exception):
    """A search has met more candidates than it may list."""

    def __init__(self, found: list[Candidates]) -> None:
        super().__init__("more candidate triplets than the solver may hold at once")
        self.found = found


@contextmanager
def only_part(part: Part) -> Iterator[None]:
    """Let searches list only a part of the pairs of their anchors; not across a ``yield``.

    Searches with the same anchors list every pair in exactly one of the parts that make up the whole.
    """
    token = _PART.set(part)
    try:
        yield
    finally:
        _PART.reset(token)


def part_of_pairs() -> Part:
    """The part of the pairs that searches list."""
    return _PART.get()


def capacity(n_target_pairs: int) -> int:
    """Largest number of candidate pairs in memory for so many target pairs."""
    return max(FEWEST_CANDIDATES, CANDIDATES_PER_TARGET_PAIR * n_target_pairs)


def listed(blocks: Iterable[Candidates], most: float = math.inf) -> list[Candidates]:
    """The blocks of a search."""
    found: list[Candidates] = []
    count = 0
    for block in blocks:
        found.append(block)
        count += len(block.impostors)
        if count > most:
            raise TooManyCandidates(found)
    return found
