"""Solvers, one file each, and each registers itself."""
