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
from sdpmetric.report.recorder import Frame, Recorder

__all__ = ["Frame", "Recorder", "write"]

# Vega 6.4.0, https://vega.github.io, build/vega.min.js of its npm package; its license is in this folder.
EMBEDDED_FILES = {"STYLE": "page.css", "SCRIPT": "page.js"}


def write(
    solution: Solution,
    path: str | Path,
    y: ArrayLike | None = None,
    *,
    title: str | None = None,
    held_out: tuple[ArrayLike, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    example_names: Sequence[str] | None = None,
    frames: Sequence[Frame] = (),
) -> str:
    """Write a page for a browser: one HTML file that needs no network.

    It says whether the metric helps: accuracy of three nearest neighbors with and without it, with the exact
    interval of [CP1934] and an exact sign test, and impostors before and after. It shows the examples moving from
    the Euclidean metric to the learned one, which classes are confused, the most influential examples, the interval
    that contains the optimum, the weights of the features, the spectrum, and how to check the certificate. Several
    metrics are shown one after the other.

    Parameters
    ----------
    solution : Solution
        Of a problem that has a metric.
    path : str or Path
        The file to write.
    y : (n,) array, optional
        Labels; default those of the problem, if it was made from labels.
    title : str, optional
        Name of the data, for the headline.
    held_out : pair of (m, d) array and (m,) array, optional
        Labeled examples that the metric was not learned from, prepared like the problem's. Without them, accuracy
        is that of the training examples, each left out of its own neighbors.
    feature_names : d strings, optional
        Default: their numbers.
    example_names : n strings, optional
        Default: their numbers.

    frames : sequence of Frame, optional
        Points of the solve, kept by a `Recorder`, to show between the Euclidean metric and the learned one.

    Returns
    -------
    verdict : str
        Whether the metric helps, as the page says it.

    Raises
    ------
    ValueError
        If the solution was loaded without its problem, or the arguments do not fit the data.

    See Also
    --------
    Recorder

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> sm.report.write(solution, "iris.html", title="iris")  # doctest: +SKIP
    """
    data = page_data(solution, y, title, held_out, feature_names, example_names, frames)
    folder = Path(__file__).parent
    page = (folder / "page.html").read_text(encoding="utf-8")
    values = {name: (folder / file).read_text(encoding="utf-8") for name, file in EMBEDDED_FILES.items()}
    vega = gzip.compress((folder / "vega.min.js").read_bytes(), mtime=0)  # browsers unpack it, a third of its size
    values["VEGA"] = base64.b64encode(vega).decode("ascii")
    values["TITLE"] = html.escape(str(data["title"]))
    # No "<" inside the script element: no text of the user's may end it.
    values["DATA"] = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = re.sub(f"%({'|'.join(values)})%", lambda place: values[place[1]], page)  # once: values are not searched
    with replacing(Path(path)) as file:
        file.write(page.encode())
    return str(data["verdict"])
