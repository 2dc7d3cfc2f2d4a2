"""Tables for notebooks, in plain HTML that a notebook's own style formats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape


def cell(value: object) -> str:
    """A value as text: numbers short, nothing for what is unknown."""
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def facts(caption: str, values: Mapping[str, object]) -> str:
    """A table of names and values; what is unknown is left out."""
    rows = {name: text for name, value in values.items() if (text := cell(value))}
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f"<table><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>"


def columns(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
