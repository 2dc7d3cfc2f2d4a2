"""Statements as CVXPY programs, the papers' equations next to each line; each registers its program."""

from sdpmetric.formulations import frobenius, lfda, lmnn, pola, query, rca, terms
from sdpmetric.formulations.exact_program import ExactProgram, Point, formulate, named, to_cvxpy

__all__ = [
    "ExactProgram",
    "Point",
    "formulate",
    "frobenius",
    "lfda",
    "lmnn",
    "named",
    "pola",
    "query",
    "rca",
    "terms",
    "to_cvxpy",
]
