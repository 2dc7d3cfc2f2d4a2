"""LEGO over a given stream, once, with the certificate of what it lost so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sdpmetric.core.certificate import RegretCertificate
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.lego.stream import LEGOStream


@solver(LEGOProblem, "online", tol=1e-6, rank=1, stream=True)
def steps(problem: LEGOProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Take the pairs in their order by LEGO, and certify the run now and then."""
    d, rate, prior = problem.X.shape[1], problem.learning_rate, problem.prior
    stream = LEGOStream(d, rate, prior)

    def certify(n_pairs: int) -> RegretCertificate:
        return problem.certify_stream(stream.cumulative_loss, n_pairs, stream.reach, stream.components)

    yield Step(stream.components, objective=0.0, lower_bound=0.0, certificate=certify(0))
    p, n_taken = len(problem.pairs), 0
    while n_taken < p:
        size = int(min(max(1, -(-p // 8)), p - n_taken, max(1, budget.max_iter - budget.spent)))
        budget.spend(size)
        rows = slice(n_taken, n_taken + size)
        stream.partial_fit(problem.X, problem.pairs[rows], problem.targets[rows], problem.sides[rows])
        n_taken += size
        certificate = certify(n_taken)
        yield replace(Step.of_certificate(stream.components, certificate), n_active=stream.n_updates)
