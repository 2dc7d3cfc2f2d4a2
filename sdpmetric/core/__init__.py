"""The common house of every statement: problem, solution, certificate, registry, the run loop, and checks of input."""
