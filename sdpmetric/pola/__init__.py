"""POLA (Shalev-Shwartz, Singer and Ng 2004): the batch problem, its program and solvers, the streams of the paper."""
