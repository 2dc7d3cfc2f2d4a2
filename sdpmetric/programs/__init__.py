"""All that speaks CVXPY: statements as exact programs, and bounds of programs that users wrote."""

from sdpmetric.programs.bound import ProgramBound, bound
from sdpmetric.programs.exact_program import ExactProgram, Point, named, to_cvxpy

__all__ = ["ExactProgram", "Point", "ProgramBound", "bound", "named", "to_cvxpy"]
