r"""A campaign against exact rational arithmetic: nothing that any verb claims of any statement may be false.

Problems are drawn from the hostile families of tests/adversary, each from its own seed. Points of each are certified
and one more verb is tried; what they claim is compared with exact objectives.

    python examples/benchmarks/rigor.py --seed 0 --problems 1000 [--statements lmnn,mmc] [--families far] \
        [--verbs explain] [--log FILE]

prints every violation as soon as it is found, with the command that finds it again, and at the end a table of
statements and families: problems, refusals and the first words of their reasons, grades, violations. With a log the
problems in it are not tried again, and the table is about all of them. The exit code is 1 if there was a violation.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from adversary.campaign import FAMILIES, STATEMENTS, VERBS, Outcome, drawn, tried
from threadpoolctl import threadpool_limits

# Seconds after which a problem counts as one that does not end.
LONGEST = 120


def out_of_time(signum, frame):
    raise TimeoutError(f"more than {LONGEST} s")


def read(log: Path | None) -> list[Outcome]:
    if log is None or not log.exists():
        return []
    return [Outcome(**json.loads(line)) for line in log.read_text().splitlines()]


def names(given: str | None, every: tuple[str, ...]) -> tuple[str, ...]:
    chosen = every if given is None else tuple(name.strip() for name in given.split(","))
    if foreign := set(chosen) - set(every):
        raise SystemExit(f"unknown: {', '.join(sorted(foreign))}; known are {', '.join(every)}")
    return chosen


def table(outcomes: list[Outcome]) -> str:
    """Statement by family: problems, refusals with their first words, grades, violations."""
    lines = [f"{'statement':12} {'family':15} {'problems':>8} {'refused':>7} {'claims':>7}  grade  violations"]
    for statement in STATEMENTS:
        for family in FAMILIES:
            own = [o for o in outcomes if (o.statement, o.family) == (statement, family)]
            if own:
                refused = Counter(" ".join(o.refused["statement"].split()[:9]) for o in own if "statement" in o.refused)
                why = f"  refused: {'; '.join(f'{n} x {words}' for words, n in refused.items())}" if refused else ""
                kinds = Counter(f"{kind} by {verb}" for o in own for verb, kind, _ in o.violations)
                wrong = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "0"
                grades = "+".join(sorted({o.grade for o in own if o.grade}))
                counts = f"{len(own):8,} {refused.total():7,} {sum(o.claims for o in own):7,}"
                lines.append(f"{statement:12} {family:15} {counts}  {grades:5}  {wrong}{why}")
    later = Counter(
        f"{verb}: {' '.join(words.split()[:9])}"
        for o in outcomes
        for verb, words in o.refused.items()
        if verb != "statement"
    )
    lines += ["", "refused by verbs:", *(f"{n:6,} {words}" for words, n in later.most_common())]
    lines += ["", "how solves ended:"]
    for statement in STATEMENTS:
        ended = Counter(word for o in outcomes if o.statement == statement for word in o.ended)
        lines.append(f"{statement:12} {', '.join(f'{word} {n:,}' for word, n in ended.most_common())}")
    used = Counter(verb for o in outcomes for verb in o.verbs)
    lines += ["", "verbs: " + ", ".join(f"{verb} {n:,}" for verb, n in used.items())]
    wrong, unknown = sum(len(o.violations) for o in outcomes), sum(len(o.unknown) for o in outcomes)
    claims, open_ = sum(o.claims for o in outcomes), sum(o.undecided for o in outcomes)
    contradictions = sum(o.contradictions for o in outcomes)
    lines.append(
        f"{len(outcomes):,} problems, {claims:,} claims, {contradictions:,} contradictions, {wrong:,} violations of "
        f"which {unknown:,} are not known, {open_:,} exact values not decided"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--statements", help=", ".join(STATEMENTS))
    parser.add_argument("--families", help=", ".join(FAMILIES))
    parser.add_argument("--verbs", help="in place of the one that is drawn: " + ", ".join(VERBS))
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    chosen = names(options.statements, tuple(STATEMENTS)), names(options.families, FAMILIES)
    verbs = () if options.verbs is None else names(options.verbs, tuple(VERBS))
    outcomes = read(options.log)
    done, began = {(o.seed, o.statement, o.family) for o in outcomes}, time.perf_counter()
    signal.signal(signal.SIGALRM, out_of_time)
    for seed in range(options.seed, options.seed + options.problems):
        if time.perf_counter() - began > options.seconds:
            break
        statement, family = drawn(seed, *chosen)
        if (seed, statement, family) in done:
            continue
        signal.alarm(LONGEST)
        outcome = tried(seed, statement, family, verbs)
        signal.alarm(0)
        outcomes.append(outcome)
        for text in outcome.unknown:
            print(text, flush=True)
        if options.log is not None:
            with options.log.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    print(table(outcomes))
    return 1 if any(outcome.unknown for outcome in outcomes) else 0


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):
        raise SystemExit(main())
