"""Sums of terms over one metric: the problem, its Fenchel dual and certificate, its program, its solvers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["terms"])
