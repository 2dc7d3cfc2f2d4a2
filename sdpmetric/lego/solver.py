"""LEGO over a given stream, once, with the certificate of what it lost so far."""

from __future__ import annotations

from collections.abc import Iterator

from sdpmetric.core.certificate import RegretCertificate
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.lego.stream import LEGOStream

# Number of certificates during a run.
CERTIFICATES = 8


@solver(LEGOProblem, "online", tol=1e-6, rank=1, stream=True)
def steps(problem: LEGOProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Take the pairs in their order by LEGO, and certify the run now and then."""
    d, rate, first = problem.X.shape[1], problem.learning_rate, problem.prior
    stream = LEGOStream(d, rate, first)

    def certify(n_pairs: int) -> RegretCertificate:
        return problem.certify_stream(stream.cumulative_loss, n_pairs, stream.reach, stream.components)

    yield Step(stream.components, objective=0.0, lower_bound=0.0, certificate=certify(0))
    p, taken = len(problem.pairs), 0
    while taken < p:
        left = budget.max_iter - budget.spent
        size = int(min(max(1, -(-p // CERTIFICATES)), p - taken, max(left, 0)))
        if not size or not budget.remaining:
            raise BudgetSpent
        part = slice(taken, taken + size)
        budget.spend(size)
        stream.partial_fit(problem.X, problem.pairs[part], problem.targets[part], problem.sides[part])
        taken += size
        certificate = certify(taken)
        yield Step.of_certificate(stream.components, certificate, n_active=stream.n_updates)
