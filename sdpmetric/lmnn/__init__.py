"""Large margin nearest neighbors (Weinberger and Saul 2009): problem, program, push, solvers."""
