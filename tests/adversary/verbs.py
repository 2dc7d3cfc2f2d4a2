"""Every verb that claims something about a problem, and the claims it makes."""

import json
from dataclasses import replace

import exact
import numpy as np
from exact import number, rational

import sdpmetric as sm
from adversary.families import log_uniform
from sdpmetric.check.__main__ import main as check

NOT_SOLVED = ("online", "riemannian")


def exact_of(case, solution, **weights):
    """The exact objective at a solution."""
    extras = {name: value for name, value in solution.extras.items() if name == "threshold"}
    if case.extras(np.random.default_rng(0)) and not extras:
        return None  # the certificate is about the best threshold
    return case.exact(np.asarray(solution.components, float), **extras, **weights)


def state(case, ledger, verb, solution, tol, *, program="", **weights):
    optimal = tol if solution.status is sm.Status.OPTIMAL else None
    exact = exact_of(case, solution, **weights)
    ledger.ended.append(f"{solution.solver} {solution.status.word}")
    inside = case.inside is None
    ledger.claim(verb, solution.certificate, exact, program=program, optimal=optimal, inside=inside)


def points(case, rng):
    """Factors of floats, and the exact metric near by of those that are combined in a restricted domain."""
    if case.inside is None:
        return [(L, None) for L in case.factors(rng)]
    points_and_extras = [(np.zeros((0, case.X.shape[1])), None)]
    for _ in range(2):
        F = case.inside(rng)
        floats = np.array([[float(F[i, j]) for j in range(F.ncols())] for i in range(F.nrows())])
        points_and_extras.append((floats, exact.metric(F)))
    points_and_extras += [(L, None) for L in case.planted if case.diagonal]
    return points_and_extras[::-1]


def certify(case, ledger, rng, folder):
    for L, M in points(case, rng):
        extras = case.extras(rng)
        options = {} if case.dual is None else {"dual": case.dual(case.problem)}
        certificate = case.problem.certify(L, **extras, **options)
        # Of a restricted domain the objective is that of the metric as given, and of one near by that is in it.
        ledger.claim("certify", certificate, case.exact(L, **extras), inside=M is None)
        if M is not None:
            ledger.state("certify", exact=case.value(M, **extras))


def metric(case, ledger, rng, folder):
    M = None if case.inside is not None else case.metrics(rng)
    if M is None or len(np.shape(M)[-1:]) == 0 or (case.rank < case.X.shape[1]):
        return
    extras = case.extras(rng)
    options = {} if case.dual is None else {"dual": case.dual(case.problem)}
    certificate = case.problem.certify(metric=M, **extras, **options)
    exactly = [rational(matrix) for matrix in M] if case.several else rational(M)
    ledger.claim("metric", certificate, case.value(exactly, **extras))


def solvers(problem):
    return [s.name for s in sm.solvers_of(problem) if s.name not in NOT_SOLVED]


def solved(case, rng, name=None, **options):
    tol = 10.0 ** -int(rng.integers(2, 9))
    name = str(rng.choice(solvers(case.problem))) if name is None else name
    return sm.solve(case.problem, name, tol=tol, max_iter=int(rng.integers(10, 120)), **options), tol


def solve(case, ledger, rng, folder):
    solution, tol = solved(case, rng)
    state(case, ledger, "solve", solution, tol)
    if solution.dual is None or solution.certificate.kind not in ("duality", "infeasibility"):
        return
    noise = 10.0 ** rng.uniform(-12, -1)
    if isinstance(solution.dual, sm.Dual):
        values = np.asarray(solution.dual.values) * np.exp(noise * rng.normal(size=len(solution.dual.values)))
        dual = replace(solution.dual, values=values)
    else:
        dual = np.asarray(solution.dual) * np.exp(noise * rng.normal(size=np.shape(solution.dual)))
    L = np.asarray(solution.components, float)
    L = L * (1.0 + noise * rng.normal(size=L.shape))
    certificate = sm.certify(case.problem, L, dual=dual)
    ledger.claim(
        "dual", certificate, case.exact(L) if "threshold" not in solution.extras else None, inside=case.inside is None
    )


def verify(case, ledger, rng, folder):
    tol, M = 10.0 ** -int(rng.integers(2, 6)), None
    if rng.random() < 0.5 and case.inside is None and case.rank >= case.X.shape[1]:
        M = case.metrics(rng)
    if M is not None:
        exactly = [rational(matrix) for matrix in M] if case.several else rational(M)
        certificate = sm.verify(case.problem, metric=M, tol=tol)
        ledger.claim("verify metric", certificate, None if case.extras(rng) else case.value(exactly))
        return
    L, M = points(case, rng)[0]
    rescale = bool(rng.random() < 0.3)
    certificate = sm.verify(case.problem, L, tol=tol, rescale=rescale)
    exact = None if rescale or case.extras(rng) else case.exact(L)
    ledger.claim("verify", certificate, exact, inside=M is None)


def compare(case, ledger, rng, folder):
    solved_twice = [solved(case, rng) for _ in range(2)]
    for solution, tol in solved_twice:
        state(case, ledger, "compare", solution, tol)
    if (
        len({s.certificate.kind for s, _ in solved_twice}) == 1
        and solved_twice[0][0].certificate.kind != "infeasibility"
    ):
        comparison = sm.compare(*(solution for solution, _ in solved_twice))
        bound, objective = max(s.lower_bound for s, _ in solved_twice), min(s.objective for s, _ in solved_twice)
        if comparison.consistent != (bound <= objective):
            ledger.wrong("compare", "contradiction", f"{bound!r} and {objective!r}: {comparison.verdict}")


def stop(case, ledger, rng, folder):
    drawn = np.random.default_rng(int(rng.integers(2**31)))
    options = {"score": lambda components: float(drawn.random()), "patience": int(rng.integers(1, 4))}
    solution, tol = solved(case, rng, solvers(case.problem)[0], **options)
    state(case, ledger, "stop", solution, tol)


def path(case, ledger, rng, folder):
    ((name, values),) = case.weights.items()
    tol = 10.0 ** -int(rng.integers(2, 7))
    along = sm.path(case.problem, tol=tol, **{name: values})
    for value, solution in zip(values, along, strict=True):
        program = f"{name}={value!r}"
        state(case, ledger, "path", solution, tol, program=program, **{name: value})
        L, M = points(case, rng)[0]
        extras = case.extras(rng)
        certificate = solution.problem.certify(L, **extras)
        ledger.claim("path", certificate, case.exact(L, **extras, **{name: value}), program=program, inside=M is None)


def explain(case, ledger, rng, folder):
    intervals = []
    for tol in (1e-2, 1e-7):
        solution = sm.solve(case.problem, tol=tol, max_iter=100)
        state(case, ledger, "explain", solution, tol)
        explanation = sm.explain(solution)
        ledger.claim("explain", explanation.certificate, exact_of(case, solution), inside=case.inside is None)
        support = explanation.support
        rows = zip(*(np.asarray(column).tolist() for column in support.columns.values()), strict=True)
        intervals.append(dict(zip(rows, zip(support.lower.tolist(), support.upper.tolist(), strict=True), strict=True)))
        for key, (low, high) in intervals[-1].items():
            if np.isnan([low, high]).any():
                ledger.wrong("explain", "nan", f"interval of {key}: {low!r}, {high!r}")
    for key in set(intervals[0]) & set(intervals[1]):
        (low, high), (lower, upper) = intervals[0][key], intervals[1][key]
        if max(low, lower) > min(high, upper) * (1.0 + 1e-9):
            ledger.wrong(
                "explain", "interval", f"{key}: [{low!r}, {high!r}] and [{lower!r}, {upper!r}] have nothing in common"
            )


def rank(case, ledger, rng, folder):
    solution = sm.solve(case.problem, tol=1e-4, max_iter=60, n_components=1)
    ledger.claim("rank", solution.certificate, exact_of(case, solution))


def proof(case, ledger, rng, folder):
    solution, tol = solved(case, rng)
    state(case, ledger, "proof", solution, tol)
    solution.save_proof(folder / "proof.npz", folder / "data.npz")
    code, text = check([str(folder / "data.npz"), str(folder / "proof.npz")])
    if code:
        ledger.wrong("proof", "refused", f"the checker: {text}")
        return
    with np.load(folder / "proof.npz") as file:
        header, L = json.loads(str(file["about"])), file["0.components"]
    of_the_case = header["domain"]["domain"] == "all" and len(L) == max(1, case.several)
    if header["objective"] is not None and of_the_case:
        ledger.state("proof", header["objective"], header["lower_bound"], case.exact(L if case.several else L[0]))


def regret(case, ledger, rng, folder):
    problem = case.problem
    options = {"gamma": log_uniform(rng, -1, 3)} if isinstance(problem, sm.POLAProblem) and rng.random() < 0.7 else {}
    regret = sm.regret(problem, sm.solve(problem, solver="online", **options), tol=1e-4, **options)
    ledger.state("regret", lower_bound=regret.lower_bound)
    if regret.regret_bound is not None:
        ledger.state("regret", regret.regret_bound, exact=number(regret.objective * (1.0 - 1e-9)), program="theorem")
    for L in case.factors(rng):
        ledger.state("regret", exact=case.exact(L))


def relaxed(case, ledger, rng, folder):
    solution = sm.solve(case.problem, "relaxed", tol=1e-3, max_iter=60)
    ledger.claim("relaxed", solution.certificate, exact_of(case, solution))


NAMED = (certify, metric, solve, verify, compare, stop, path, explain, rank, proof, regret, relaxed)
VERBS = {verb.__name__: verb for verb in NAMED}
