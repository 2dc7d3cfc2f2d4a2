"""Bounds of programs that users wrote in CVXPY, whatever they are about; see ``docs/bounds_of_programs.md``."""

from sdpmetric.programs.bound import ProgramBound, bound

__all__ = ["ProgramBound", "bound"]
