"""Sums of terms over one metric: the problem, its Fenchel dual and certificate, its program, its solvers."""
