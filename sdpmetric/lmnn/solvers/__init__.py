"""Solvers of large margin nearest neighbor classification."""
