"""A page for the eye: one HTML file with the solution, its certificate and Vega's charts, without a network."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from sdpmetric.core.files import replacing
from sdpmetric.core.solution import Solution
from sdpmetric.report.contents import page_data

__all__ = ["write"]

# Vega 6.4.0, https://vega.github.io, build/vega.min.js of its npm package; its license is in this folder.
PARTS = {"STYLE": "page.css", "SCRIPT": "page.js"}


def write(
    solution: Solution,
    path: Path,
    y: ArrayLike | None = None,
    title: str | None = None,
    held_out: tuple[ArrayLike, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    example_names: Sequence[str] | None = None,
) -> None:
    """Write the page of a solution; see `sdpmetric.Solution.report`."""
    data = page_data(solution, y, title, held_out, feature_names, example_names)
    here = Path(__file__).parent
    page = (here / "page.html").read_text(encoding="utf-8")
    values = {name: (here / file).read_text(encoding="utf-8") for name, file in PARTS.items()}
    vega = gzip.compress((here / "vega.min.js").read_bytes(), mtime=0)  # browsers unpack it, a third of its size
    values["VEGA"] = base64.b64encode(vega).decode("ascii")
    values["TITLE"] = html.escape(str(data["title"]))
    # No "<" inside the script element: no text of the user's may end it.
    values["DATA"] = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = re.sub(f"%({'|'.join(values)})%", lambda place: values[place[1]], page)  # once: values are not searched
    with replacing(path) as file:
        file.write(page.encode())
