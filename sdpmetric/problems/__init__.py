"""Statements: immutable, each with data, objective and certificate. Solving them is another room's duty."""
