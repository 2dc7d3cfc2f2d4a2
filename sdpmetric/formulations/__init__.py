"""Statements as CVXPY programs, the papers' equations next to each line; each registers its program."""

from sdpmetric.formulations.exact_program import ExactProgram, Point, formulate, named, to_cvxpy

__all__ = ["ExactProgram", "Point", "formulate", "named", "to_cvxpy"]
