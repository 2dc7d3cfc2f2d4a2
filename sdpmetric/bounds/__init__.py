"""Lower bounds in floating point: multipliers, forms, dual cones, null directions and infeasibility."""
