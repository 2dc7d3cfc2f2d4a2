"""Linear algebra: the PSD cone, and pair distances with their adjoint."""
