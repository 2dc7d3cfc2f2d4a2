"""Points that a solve passes, for the page that shows the examples moving."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.steps import Step
from sdpmetric.core.trace import TraceRow

# Numbers that all of them hold at most, 16 MB.
MAX_NUMBERS = 1 << 21


@dataclass(frozen=True, eq=False)
class Frame:
    """A point of a recorded solve.

    Attributes
    ----------
    row : int
        Its row of the trace.
    components : array
        (r, d), or (c, r, d) for c metrics.

    See Also
    --------
    Recorder, write

    Examples
    --------
    >>> from sdpmetric import report
    >>> report.Frame(0, [[1.0, 0.0]]).row
    0
    """

    row: int
    components: NDArray[np.floating]


@dataclass
class Recorder:
    """Keeps every first, second, fourth or so point: twice as sparse whenever there are too many.

    Attributes
    ----------
    frames : list of Frame
        What was kept, for `write`.

    See Also
    --------
    Frame, write

    Examples
    --------
    >>> import sdpmetric as sm
    >>> recorder = sm.report.Recorder()
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(*sm.datasets.load("iris")), watch=recorder)
    >>> sm.report.write(solution, "iris.html", frames=recorder.frames)  # doctest: +SKIP
    """

    frames: list[Frame] = field(default_factory=list)
    stride: int = 1
    n_rows: int = 0

    def __call__(self, step: Step, row: TraceRow) -> None:
        number, self.n_rows = self.n_rows, self.n_rows + 1
        if number % self.stride:
            return
        self.frames.append(Frame(number, step.components))
        while len(self.frames) > 1 and (
            len(self.frames) > 16 or sum(frame.components.size for frame in self.frames) > MAX_NUMBERS
        ):
            self.stride *= 2
            self.frames = [frame for frame in self.frames if frame.row % self.stride == 0]
