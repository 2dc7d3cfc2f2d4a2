"""The certificate in words, and how to check it."""

from __future__ import annotations

from sdpmetric.core.certificate import (
    Certificate,
    DualityCertificate,
    InfeasibilityCertificate,
    RegretCertificate,
    RelaxationCertificate,
    StationarityCertificate,
)
from sdpmetric.core.proof import Provable
from sdpmetric.core.solution import Solution


def sentences(certificate: Certificate) -> list[str]:
    """What is proven, for a reader who does not know the package."""
    proven = certificate.reservation.removeprefix("; ") or "this is proven"
    value, bound = f"{certificate.objective:.8g}", f"{certificate.lower_bound:.8g}"
    if isinstance(certificate, DualityCertificate):
        rank = " without the bound on the rank" if isinstance(certificate, RelaxationCertificate) else ""
        return [
            f"The objective of this metric is {value}.",
            f"No metric has an objective below {bound}{rank}: {proven}.",
            _distance(certificate),
            f"{certificate.n_active:,} {certificate.constraints} are active at this metric.",
            "The bound was computed by the problem from multipliers. It holds whether or not the solver is right.",
        ]
    if isinstance(certificate, RegretCertificate):
        allowed = certificate.regret_bound
        theorem = [] if allowed is None else [f"The theorem of the method allows a loss of {allowed:.8g}."]
        return [
            f"The cumulative loss on the stream is {value}.",
            f"Every fixed metric loses at least {bound} on the same stream; {proven}.",
            *theorem,
            "Nothing is proven about the last metric alone.",
        ]
    if isinstance(certificate, StationarityCertificate):
        return [
            f"The objective of this metric is {value}.",
            f"The norm of the gradient is {certificate.stationarity:.2g}; at a stationary point it is 0.",
            "The problem is not convex: nothing is proven about other metrics, and another start may end elsewhere.",
        ]
    if isinstance(certificate, InfeasibilityCertificate):
        rows = ", ".join(map(str, certificate.contradiction[:10]))
        return [f"No metric satisfies all constraints: {certificate.constraints} {rows} contradict each other."]
    return [str(certificate)]


def _distance(certificate: DualityCertificate) -> str:
    """How far the objective may be from the best possible one."""
    if certificate.resolved:
        return (
            f"So the objective is at most {certificate.gap:.2g} above the best possible one, which is proven to be at "
            f"most 0; gaps up to {certificate.resolution:.2g}, a tiny share of what one constraint costs, count as "
            "closed then."
        )
    return f"So the objective is at most {certificate.relative_gap:.2g} (relatively) above the best possible one."


def checks(solution: Solution) -> list[dict[str, str]]:
    """Ways to check the claims: what each does, and the code."""
    ways = [
        {
            "what": "Certify the metric again, from the data and the multipliers:",
            "code": "sm.certify(problem, solution.components, dual=solution.dual)",
        }
    ]
    if isinstance(solution.certificate, DualityCertificate):
        ways.append(
            {
                "what": "Prove a bound of your own, by another solver, without the multipliers:",
                "code": "sm.verify(problem, solution.components)",
            }
        )
    problem: object = solution.problem
    if isinstance(problem, Provable) and solution.dual is not None:
        ways.append(
            {
                "what": "Write a proof file, and verify it by a small program that shares no code with the solvers:",
                "code": 'solution.save_proof("proof.npz")\n# in a terminal, DATA being the numbers that were solved:\n'
                "# sdpmetric check DATA proof.npz",
            }
        )
    return ways
