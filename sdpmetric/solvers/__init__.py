"""Solvers: each turns a problem into a point and a dual candidate; none of them judges its own work."""
