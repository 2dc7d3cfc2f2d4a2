"""Programs that print as their papers write them: lines of plain text, and the same lines in LaTeX.

A statement says its objective and its constraints in plain text with the symbols ``D(i,j)`` for a squared distance,
``V(i,j)`` for the matrix with ``D(i,j) = tr(V(i,j) M)``, ``xi[..]`` for slacks, and ``[u]_+`` for a hinge. Entries of
vectors have their index in brackets. `Lines.to_latex` translates that, symbol by symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

# Longer sums and lists of constraints do not fit on a screen: only the first are shown.
MAX_SHOWN = 50
FIRST_SHOWN = 3
# Larger data are not shown.
MAX_POINTS, MAX_FEATURES = 12, 6
# Words of plain lines in LaTeX; other words of three letters or more are names.
WORDS = {name: rf"\{name}" for name in ("xi", "mu", "rho", "gamma", "eta", "log", "exp", "det")}
WORDS |= {"tr": r"\operatorname{tr}", "diag": r"\operatorname{diag}", "margins": "a", "floor": "f", "cone": "Z"}
SIGNS = {">=": r"\ge", "<=": r"\le", ">>": r"\succeq", "==": "=", " * ": r"\, ", "...": r"\cdots", "'": r"^\top"}
SIGNS |= {"^-1": "^{-1}", "1/2": r"\tfrac12", "{": r"\{", "}": r"\}"}
WORD = re.compile(r"([A-Za-z]+)(\d*)((?:_\w+)*)(\[[\w,]+\])?")


@dataclass(frozen=True)
class Lines:
    """A program as text: labeled constraints have a line for each row, and `where` defines the symbols."""

    objective: str
    constraints: Sequence[tuple[str, Sequence[str]]]
    definitions: Sequence[str]
    goal: str = "minimize"

    def __str__(self) -> str:
        rows = []
        for label, lines in self.constraints:
            for t, line in enumerate(shortened(lines)):
                index = f"[{t}]" if len(lines) > 1 and not line.startswith("...") else ""
                rows.append(f"{label}{index}: {line}" if label else line)
        sections = {self.goal: [self.objective], "subject to": rows, "where": self.definitions}
        heads = ((name if not k else "", line) for name, lines in sections.items() for k, line in enumerate(lines))
        return "\n".join(f"{head:11} {line}" for head, line in heads)

    def to_latex(self) -> str:
        """Return the same lines in LaTeX, an ``aligned`` environment."""
        rows = [line for _, lines in self.constraints for line in shortened(lines)]
        sections = {self.goal: [self.objective], "subject to": rows, "where": self.definitions}
        heads = {name: rf"\text{{{name}}} \quad " for name in sections}
        lines = (
            f"{'' if k else heads[name]}& {latex(line)}" for name in sections for k, line in enumerate(sections[name])
        )
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def latex(line: str) -> str:
    """Return a plain line in LaTeX."""
    line = re.sub(r"sqrt\((\w+\(\w+,\w+\))\)", r"@\1#", line)  # the only root is that of a distance
    line = re.sub(r"\|\|(.+?)\|\|", r"\\lVert \1 \\rVert", line)
    line = re.sub("|".join(map(re.escape, SIGNS)), lambda sign: SIGNS[sign[0]], line)
    return re.sub(r"(?<!\\)\b" + WORD.pattern, _word, line).replace("@", r"\sqrt{").replace("#", "}")


def _word(symbol: re.Match[str]) -> str:
    name, digits, subscript, index = symbol.groups()
    indices = [digits, subscript[1:] if name in WORDS or len(name) == 1 or name == "sum" else "", (index or "")[1:-1]]
    if not indices[1] and subscript:
        name += subscript.replace("_", r"\_")
    letter = WORDS.get(name) or (r"\sum" if name == "sum" else name if len(name) == 1 else rf"\mathrm{{{name}}}")
    below = ", ".join(index.replace(",", ", ") for index in indices if index)
    return f"{letter}_{{{below}}}" if below else letter


def number(value: float) -> str:
    """Return a number with six digits; there is no negative zero."""
    return f"{value + 0.0:.6g}"


def times(weight: float | str, term: str) -> str:
    """Return a weighted term; a sum is put in parentheses."""
    shown = weight if isinstance(weight, str) else number(weight)
    return term if shown == "1" else f"{shown} * ({term})" if is_sum(term) else f"{shown} * {term}"


def divided(term: str, weight: float) -> str:
    return term if weight == 1.0 else f"{term} / {number(weight)}"


def is_sum(text: str) -> bool:
    """Return whether a sign stands outside of all brackets."""
    depth = np.cumsum([(char in "([") - (char in ")]") for char in text])
    return text.startswith("-") or any(depth[sign.start()] == 0 for sign in re.finditer(" [+-] ", text))


def total(terms: Iterable[tuple[float, str]], count: int | None = None) -> str:
    """Return a weighted sum, empty without terms, and the first terms if `count` is more than `MAX_SHOWN`."""
    n_more = 0 if count is None or count <= MAX_SHOWN else count - FIRST_SHOWN
    text = ""
    for weight, term in islice(terms, FIRST_SHOWN if n_more else None):
        if term.startswith("-") and not is_sum(term[1:]):
            weight, term = -weight, term[1:]
        summand = times(abs(weight), term)
        summand = f"({summand})" if weight < 0.0 and is_sum(summand) else summand
        sign = "-" if weight < 0.0 or summand.startswith("-") else "+"
        summand = summand.removeprefix("-")
        text += f" {sign} {summand}" if text else summand if sign == "+" else f"-{summand}"
    return f"{text} + ... ({n_more:,} more)" if n_more else text


def shortened(lines: Sequence[str]) -> list[str]:
    """Return all lines, or the first lines and the number of those that follow."""
    omission = f"... ({len(lines) - FIRST_SHOWN:,} more)"
    return list(lines) if len(lines) <= MAX_SHOWN else [*lines[:FIRST_SHOWN], omission]


def boxes(name: str, sign: str, limits: Sequence[float], unit: str = "1") -> list[str]:
    """Return a line for all limits of a vector if they are equal; else one for each that is finite."""
    named = [name] if len(set(limits)) == 1 else [f"{name}[{t}]" for t in range(len(limits))]
    finite = ((entry, limit) for entry, limit in zip(named, limits, strict=False) if np.isfinite(limit))
    return [f"{entry} {sign} {number(limit) if unit == '1' else times(limit, unit)}" for entry, limit in finite]


def distance(i: int | str, j: int | str, symbol: str = "D") -> str:
    return f"{symbol}({i},{j})"


def points(X: NDArray[np.floating]) -> list[str]:
    """Return the definition of the points, with their numbers if they are few."""
    if len(X) > MAX_POINTS or X.shape[1] > MAX_FEATURES:
        return ["x_i = X[i]"]
    return [", ".join(f"x_{i} = ({', '.join(map(number, row))})" for i, row in enumerate(X.tolist()))]


def matrix(A: NDArray[np.floating]) -> str:
    return "[" + ", ".join(f"({', '.join(map(number, row))})" for row in A.tolist()) + "]"
