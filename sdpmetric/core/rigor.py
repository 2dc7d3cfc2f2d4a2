"""Grades of rigor: how far what a certificate claims is proven."""

from __future__ import annotations

from typing import Literal, get_args

Rigor = Literal["float", "rounding", "assumption"]
# From the strongest to the weakest.
RIGORS: tuple[Rigor, ...] = get_args(Rigor)


def reservation(rigor: Rigor, assumption: str | None) -> str:
    """The grade in words, after a semicolon; empty where every rounding is accounted for."""
    if rigor == "float":
        return ""
    why = "rounding is not fully accounted for" if assumption is None else f"this assumes that {assumption}"
    return f"; {why} (rigor: {rigor})"
