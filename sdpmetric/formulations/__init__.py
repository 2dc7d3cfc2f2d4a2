"""Statements as CVXPY programs, the papers' equations next to each line; each registers its program."""
