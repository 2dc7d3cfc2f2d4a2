"""What is claimed about a problem against what is true: claims of every verb, and the judge.

A claim is false if an exact objective is above the objective that is stated for it, if a lower bound is above the exact
objective of any known point, or above another stated objective, if a number is NaN, or if "optimal" is said of a point
although a known one is better by more than the tolerance.
"""

import math
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flint import arb, ctx

import sdpmetric as sm
from adversary import contradictions, relatives, statements, sums
from adversary.case import Case, Exact
from adversary.families import FAMILIES, data
from adversary.verbs import VERBS

# Tolerances at which a certificate is asked whether it proves a point optimal.
TOLERANCES = (1e-2, 1e-4, 1e-7)
# Objectives beyond this may be infinite.
LARGE = 1e290
# Binary digits of balls.
DIGITS = 256
STATEMENTS: dict[str, Callable[..., Case]] = {
    "lmnn": statements.lmnn,
    "squared": lambda X, y, rng: statements.lmnn(X, y, rng, loss="squared_hinge"),
    "listed": statements.listed_triplets,
    "several": statements.several,
    "kernel": statements.kernel,
    "pola": statements.pola,
    "hard": statements.hard,
    "mmc": statements.mmc,
    "itml": statements.itml,
    "lego": statements.lego,
    "stream": statements.stream,
    "pola stream": statements.pola_stream,
    "frml": relatives.frml,
    "sums": sums.sums,
    "labels": sums.labels,
    **relatives.CASES,
    "planted": sums.planted,
    "bounds": contradictions.bounds,
    "tight": contradictions.tight,
}


@dataclass
class Claim:
    """What a verb says about one program: an objective and a lower bound, and the exact objective at its point."""

    verb: str
    objective: float
    lower_bound: float
    exact: Exact = None
    program: str = ""
    optimal: float | None = None
    inside: bool = True
    grade: str = "float"


@dataclass
class Ledger:
    """All claims about a problem."""

    claims: list[Claim] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    violations: list[tuple[str, str, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    # Of the problem: whether some metric satisfies the hard constraints with these numbers; None if not decided.
    satisfiable: Callable[[tuple[int, ...]], bool | None] | None = None
    contradictions: int = 0
    undecided: int = 0
    # See `Case.decided`.
    decided: bool = False

    def claim(
        self,
        verb: str,
        certificate: sm.Certificate,
        exact: Exact = None,
        *,
        program: str = "",
        optimal: float | None = None,
        inside: bool = True,
    ) -> None:
        grade = str(getattr(certificate, "rigor", "float"))
        proven = [tol for tol in TOLERANCES if certificate.kind == "duality" and certificate.proves_optimal(tol)]
        optimal = min([*proven, *([] if optimal is None else [optimal])], default=None)
        if isinstance(certificate, sm.InfeasibilityCertificate) and self.satisfiable is not None:
            self._judge_contradiction(verb, certificate.contradiction)
        objective, bound = certificate.objective, certificate.lower_bound
        if self.decided and exact is not None and objective == math.inf and arb(exact) < arb(LARGE):
            self.wrong(verb, "undecided", f"infinite, although it is {arb(exact).str(17)}")
        self.claims.append(Claim(verb, objective, bound, exact, program, optimal, inside, grade))

    def state(
        self, verb: str, objective=math.inf, lower_bound=-math.inf, exact: Exact = None, program: str = ""
    ) -> None:
        """A claim without a certificate, or an exact value alone."""
        self.claims.append(Claim(verb, objective, lower_bound, exact, program))

    def _judge_contradiction(self, verb: str, named: tuple[int, ...]) -> None:
        answer = not named or self.satisfiable(named)
        self.contradictions += 1
        self.undecided += answer is None
        if answer:
            self.wrong(verb, "named", f"a metric satisfies constraints {named} together")

    def wrong(self, verb: str, kind: str, text: str) -> None:
        self.violations.append((verb, kind, text))

    def judge(self, unit: arb) -> int:
        """Compare the claims with each other and with what is exact; returns how many values were not decided."""
        undecided = 0
        for program in {claim.program for claim in self.claims}:
            claims = [claim for claim in self.claims if claim.program == program]
            values = [arb(c.exact) for c in claims if c.exact is not None and c.inside]
            undecided += sum(value.is_nan() for value in values)
            minimum = lowest(values)
            stated = min((c.objective for c in claims), default=math.inf)
            bound = max((c.lower_bound for c in claims if not math.isnan(c.lower_bound)), default=-math.inf)
            for claim in claims:
                self._judge(claim, minimum, stated, unit if not bound > 0.0 else arb(0))
        return undecided

    def _judge(self, claim: Claim, minimum: arb, stated: float, unit: arb) -> None:
        objective, bound = claim.objective, claim.lower_bound
        at_grade = "" if claim.grade == "float" else f" at grade {claim.grade}"

        def wrong(kind: str, text: str) -> None:
            self.wrong(claim.verb, kind + at_grade, text)

        if math.isnan(objective) or math.isnan(bound):
            wrong("nan", f"objective {objective!r}, lower bound {bound!r}")
            return
        if claim.exact is not None and arb(objective) < arb(claim.exact):
            wrong("objective", f"{objective!r} < {arb(claim.exact).str(17)}")
        if arb(bound) > minimum:
            wrong("bound", f"{bound!r} > {minimum.str(17)}")
        elif bound > stated:
            wrong("contradiction", f"lower bound {bound!r} > objective {stated!r}")
        if claim.optimal is not None and claim.exact is not None:
            exact, tol = arb(claim.exact), arb(claim.optimal * (1.0 + 1e-9))
            if exact - minimum > tol * max(abs(exact), abs(minimum), unit):
                wrong("optimal", f"{exact.str(17)} at tol {claim.optimal!r}, although {minimum.str(17)} is known")


def lowest(values: list[arb]) -> arb:
    """One of the least values: nothing is surely below it."""
    minimum = arb("inf")
    for value in values:
        if value < minimum:
            minimum = value
    return minimum


@dataclass
class Outcome:
    """What came of one problem."""

    seed: int
    statement: str
    family: str
    verbs: list[str]
    refused: dict[str, str]
    grade: str
    ended: list[str]
    claims: int
    contradictions: int
    undecided: int
    violations: list[tuple[str, str, str]]
    seconds: float

    @property
    def unknown(self) -> list[str]:
        """Violations at grade "float", with the command that finds them again."""
        command = f"--seed {self.seed} --problems 1 --statements '{self.statement}' --families '{self.family}'"
        return [
            f"{self.statement} / {self.family} / {verb}: {kind}: {text}   [rigor.py {command}]"
            for verb, kind, text in self.violations
            if " at grade " not in kind
        ]


def clear(error: BaseException) -> bool:
    """Whether an error is a sentence of the package about an argument."""
    if not isinstance(error, ValueError | TypeError) or isinstance(error, np.linalg.LinAlgError):
        return False
    last = Path(frames(error)[-1])
    return "sdpmetric" in last.parts[:-1] or last.parts[-3:] == ("sklearn", "utils", "validation.py")


def frames(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def place(error: BaseException) -> str:
    """Where in the package it was raised."""
    frames_inside = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "sdpmetric" in Path(frame.filename).parts
    ]
    return f"{Path(frames_inside[-1].filename).name}:{frames_inside[-1].lineno}" if frames_inside else "outside"


def attempt(ledger: Ledger, verb: str, act: Callable[[], object]) -> object:
    """Do something that may be refused in a sentence; anything else that is raised is a violation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return act()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        ours = Path(frames(error)[-1]).parent == Path(__file__).parent and not isinstance(error, TimeoutError)
        if ours and statements.TARGETS not in str(error):
            raise  # of the campaign itself
        if clear(error):
            ledger.refused[verb] = str(error)
        else:
            ledger.wrong(verb, "crash", f"{type(error).__name__}: {str(error)[:120]} ({place(error)})")
        return None


def drawn(
    seed: int, names: tuple[str, ...] = tuple(STATEMENTS), families: tuple[str, ...] = FAMILIES
) -> tuple[str, str]:
    """Statement and family of a seed: all pairs in turn."""
    return names[seed % len(names)], families[(seed // len(names) + seed) % len(families)]


def tried(seed: int, statement: str, family: str, only: tuple[str, ...] = ()) -> Outcome:
    """Draw a problem, certify points of it, try one more verb, or the given ones, and judge what they claim."""
    began, ctx.prec = time.process_time(), DIGITS
    rng = np.random.default_rng([seed, zlib.crc32(statement.encode()), zlib.crc32(family.encode())])
    ledger, verbs, undecided = Ledger(), [], 0
    X, y = data(family, rng)
    case = attempt(ledger, "statement", lambda: STATEMENTS[statement](X, y, rng))
    if isinstance(case, Case):
        if case.constraints:
            ledger.decided = case.decided
            ledger.satisfiable = lambda named: contradictions.satisfiable(
                [case.constraints[i] for i in named], case.diagonal
            )
        verbs = [*case.always, str(rng.choice(case.verbs))] if not only else [v for v in only if v in case.takes]
        with tempfile.TemporaryDirectory() as folder:
            for verb in verbs:
                attempt(ledger, verb, lambda verb=verb: VERBS[verb](case, ledger, rng, Path(folder)))
        for M in case.known:
            ledger.state("known", exact=case.value(M))
        undecided = ledger.judge(unit_of(case))
    grade = "+".join(sorted({claim.grade for claim in ledger.claims}))
    return Outcome(
        seed=seed,
        statement=statement,
        family=family,
        verbs=verbs,
        refused=ledger.refused,
        grade=grade,
        ended=ledger.ended,
        claims=len(ledger.claims),
        contradictions=ledger.contradictions,
        undecided=undecided + ledger.undecided,
        violations=ledger.violations,
        seconds=round(time.process_time() - began, 3),
    )


def unit_of(case: Case) -> arb:
    """What one example costs at the zero metric, or 1 where that is infinite."""
    zero = np.zeros((0, case.X.shape[1]))
    value = case.exact([zero] * case.several if case.several else zero)
    value = arb(0 if value is None else value)
    return abs(value) / len(case.X) if value.is_finite() and value != 0 else arb(1)
