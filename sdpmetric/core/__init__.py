"""The common code of all statements: problem, solution, certificate, registry, the run loop, and checks of input."""
