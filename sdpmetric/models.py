"""A metric with the preparation of its data and the names of its features, in one file without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import (
    ArraySpec,
    check_arrays,
    check_values,
    expected,
    printable,
    read_json,
    read_npz,
    write_npz,
)
from sdpmetric.core.solution import Solution
from sdpmetric.core.validation import Frame
from sdpmetric.datasets import MeanNorm

Arrays = dict[str, NDArray[np.generic]]
Value = str | float | int | bool | None

# The steps that a file may hold: their state is arrays and numbers, and reading it runs no code of the file.
STEPS = {
    kind.__name__: kind
    for kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PCA, MeanNorm)
}
# Of the files that `Model.save` writes, and what their JSON text says.
FORMAT = 1
TEXT_SCHEMA = {
    "format": "int",
    "steps": "list",
    "features": "list",
    "label": "str | None",
    "statement": "str",
    "parameters": "dict",
    "linear": "bool",
}


@dataclass(frozen=True, eq=False)
class Model:
    """A learned metric with its preprocessing, as ``sdpmetric solve --output`` writes it, for use on raw data.

    No training example is stored.

    Attributes
    ----------
    solution : Solution
        Of one metric on the prepared features. Of a loaded model its certificate is as saved, not verified.
    preparation : Pipeline
        Fitted steps of scikit-learn; see `STEPS`.
    features : tuple of str
        Names of the raw features, in their order; empty where the data had none.
    label : str or None
        The column of the labels in the training table.
    statement : str
        Name of the statement on the command line.
    parameters : mapping of str to str, number or None
        Parameters of the problem class, those that were given.
    linear : bool
        Whether the metric is one of the prepared features, and not of a kernel's.

    See Also
    --------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile, pathlib
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> solution = sm.solve(problem)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sm.Model(solution).save(pathlib.Path(folder) / "model.npz")
    ...     again = sm.Model.load(pathlib.Path(folder) / "model.npz")
    >>> bool(np.allclose(again.transform(X), X @ solution.components.T))
    True
    """

    solution: Solution
    preparation: Pipeline = field(default_factory=lambda: make_pipeline("passthrough"))
    features: tuple[str, ...] = ()
    label: str | None = None
    statement: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    linear: bool = True

    def prepare(self, X: ArrayLike) -> FloatArray:
        """The prepared features, (n, d'), float64.

        Parameters
        ----------
        X : (n, d) array or frame
            A frame's columns are taken by name, in any order.
        """
        columns = getattr(X, "columns", None)
        if columns is not None and self.features:
            if missing := [name for name in self.features if name not in list(columns)]:
                named = ", ".join(map(printable, self.features))
                raise ValueError(f"X lacks {', '.join(map(printable, missing))}; the model's features are {named}.")
            X = cast(Frame, X)[list(self.features)]
        data = validation.check_data(X).astype(np.float64)
        validation.check_width("X", data, self.n_features, f"the model ({', '.join(map(printable, self.features))})")
        prepared: FloatArray = self.preparation.transform(data)
        return prepared

    def transform(self, X: ArrayLike) -> FloatArray:
        """Embed raw data so that the Euclidean distance is the learned one, (n, r), float64.

        Parameters
        ----------
        X : (n, d) array or frame
            As in `prepare`. With several metrics their coordinates are side by side.
        """
        if not self.linear:
            raise ValueError(
                f"a metric of {self.statement} needs the training examples to embed others, which a model does not "
                "keep; use the estimator in Python instead."
            )
        L = np.asarray(self.solution.components, dtype=np.float64)
        embedded: FloatArray = self.prepare(X) @ L.reshape(-1, L.shape[-1]).T
        return embedded

    @property
    def n_features(self) -> int:
        """Number of the raw features."""
        if self.features:
            return len(self.features)
        widths = [step.n_features_in_ for step in self.preparation if hasattr(step, "n_features_in_")]
        return int(widths[0] if widths else self.solution.components.shape[-1])

    def save(self, path: str | Path) -> None:
        """Save as one NPZ file without pickle; `Solution.load` reads it, too.

        Parameters
        ----------
        path : str or Path
            The file to write, as given.
        """
        steps, arrays = [], {}
        for number, step in enumerate(step for step in self.preparation if step != "passthrough"):
            kind = type(step).__name__
            if STEPS.get(kind) is not type(step):
                raise TypeError(f"a model supports the steps {', '.join(STEPS)}, not {kind}; use skops for others.")
            state: dict[str, object] = {}
            for name, value in vars(step).items():
                if isinstance(value, np.ndarray):
                    arrays[f"step{number}_{name}"] = value
                else:
                    state[name] = value.item() if isinstance(value, np.generic) else value
            steps.append({"kind": kind, "state": state})
        model = {
            "format": FORMAT,
            "steps": steps,
            "features": self.features,
            "label": self.label,
            "statement": self.statement,
            "parameters": dict(self.parameters),
            "linear": self.linear,
        }
        problem = self.solution.problem
        saved = self.solution.to_arrays(fingerprint=None if problem is None else problem.fingerprint())
        write_npz(path, saved | arrays | {"model": np.array(json.dumps(model))})

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Load what `save` wrote.

        Parameters
        ----------
        path : str or Path
        """
        arrays = read_npz(path)
        if "model" not in arrays:
            raise ValueError(
                f"{path} holds the arrays {', '.join(arrays) or '(none)'} and is no model; write one with "
                "'sdpmetric solve DATA --output FILE' or Model.save."
            )
        solution = Solution.load(path)
        with expected(path, "a model", "Model.save"):
            model = read_json(arrays, "model")
            if model.get("format") != FORMAT:
                raise ValueError(f"it has format {model.get('format')}, and this version reads format {FORMAT}.")
            check_values(model, TEXT_SCHEMA, "model", frozenset(TEXT_SCHEMA))
            features, steps = cast(list[str], model["features"]), cast(list[object], model["steps"])
            if not all(isinstance(name, str) for name in features):
                raise ValueError("its features are not names.")
            linear = bool(model["linear"])
            width = _check_steps(steps, arrays, linear, len(features))
            made = [_step(number, cast(dict[str, object], step), arrays) for number, step in enumerate(steps)]
            preparation = make_pipeline(*(made or ["passthrough"]))
            if width is not None:
                with np.errstate(all="ignore"):
                    prepared = np.asarray(preparation.transform(np.zeros((1, width))))
                if not np.isfinite(prepared).all() or (linear and prepared.shape[1] != solution.components.shape[-1]):
                    raise ValueError("its preparation does not fit its metric.")
            return cls(
                solution,
                preparation,
                tuple(features),
                cast(str | None, model["label"]),
                cast(str, model["statement"]),
                cast(dict[str, Value], model["parameters"]),
                linear,
            )


def _check_steps(steps: list[object], arrays: Arrays, linear: bool, n_features: int) -> int | None:
    """Refuse steps whose arrays do not fit each other and the metric; returns how many features they take, if known."""
    schema, width = {"components": ArraySpec("f", ("r d", "c r d") if linear else ("r n", "c r n"))}, "d"
    for number, step in reversed(list(enumerate(steps))):
        check_values(step, {"kind": "str", "state": "dict"}, f"step {number}", frozenset(("kind", "state")))
        values = cast(dict[str, object], step)
        kind = STEPS.get(str(values["kind"]))
        if kind is None:
            raise ValueError(f"step {number} is none of {', '.join(STEPS)}.")
        if foreign := [name for name in cast(dict[str, object], values["state"]) if hasattr(kind, name)]:
            raise ValueError(f"step {number} has no state {foreign[0]!r}.")
        if kind is PCA:  # from this width to that of the next step
            schema[f"step{number}_components_"] = ArraySpec("f", (f"{width} w{number}",))
            schema[f"step{number}_mean_"] = ArraySpec("f", (f"w{number}",))
        schema[f"step{number}_*"] = ArraySpec("f i", (width,))
        width = f"w{number}" if kind is PCA else width
    sizes = check_arrays(arrays, schema)
    if n_features and sizes.setdefault(width, n_features) != n_features:
        raise ValueError(f"it names {n_features} features, and its metric and preparation are of {sizes[width]}.")
    return sizes.get(width)


def _step(number: int, saved: Mapping[str, object], arrays: Arrays) -> BaseEstimator:
    """A fitted step from its kind, numbers and arrays."""
    step = STEPS[str(saved["kind"])]()
    step.__dict__.update(cast(Mapping[str, object], saved["state"]))
    prefix = f"step{number}_"
    step.__dict__.update({key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})
    return step
