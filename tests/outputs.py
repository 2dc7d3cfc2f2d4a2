"""Compare what is printed with what a page says: words exactly, numbers too or to a tolerance, times not at all."""

import re

import pytest

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?")
# Numbers of seconds, and columns of them, differ from machine to machine.
TIMES = re.compile(r"(?:after |seconds?[: ]+)?\d[\d.]* (?:ms|s|seconds)\b")
# Active constraints and ranks are those of the point where a solver stops, which depends on the rounding.
COUNTS = re.compile(r"\d[\d,]*(?= active)|(?<=optimal rank )\d+(?= of)")


def without_counts(text: str) -> str:
    return TIMES.sub("some time", COUNTS.sub("some", text))


def assert_same(printed: str, page: str) -> None:
    """Every word and every digit, except times; the lines may be broken elsewhere."""
    sides = [without_counts(text).split() for text in (printed, page)]
    assert sides[0] == sides[1]


def assert_agree(printed: str, page: str, *, tolerance: float = 1e-2) -> None:
    """Gaps and other numbers below the tolerance may be any such numbers: they are where a solver happened to stop."""
    sides = [without_counts(text) for text in (printed, page)]
    words = [NUMBER.sub(" # ", text).split() for text in sides]
    assert words[0] == words[1]
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in sides]
    assert numbers[0] == pytest.approx(numbers[1], rel=tolerance, abs=tolerance)
