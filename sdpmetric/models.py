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

from sdpmetric.core import validation
from sdpmetric.core.frames import Frame
from sdpmetric.core.solution import Solution
from sdpmetric.datasets import MeanNorm, read_npz

FloatArray = NDArray[np.float64]
Arrays = dict[str, NDArray[np.generic]]
Value = str | float | int | bool | None

# The steps that a file may hold: their state is arrays and numbers, and reading it runs no code of the file.
STEPS = {
    kind.__name__: kind
    for kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PCA, MeanNorm)
}
# Of the files that `Model.save` writes.
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Model:
    """A learned metric that can be applied to raw data: what ``sdpmetric solve --output`` writes.

    No training example is stored.

    Attributes
    ----------
    solution : Solution
        With certificate; of one metric on the prepared features.
    preparation : Pipeline
        Fitted steps of scikit-learn; see `STEPS`.
    features : tuple of str
        Names of the raw features, in their order; empty where the data had none.
    label : str or None
        The column of the labels in the training table.
    statement : str
        Name of the statement on the command line.
    parameters : mapping of str to str, number or None
        Of the statement, those that were given.
    linear : bool
        Whether the metric is one of the prepared features, and not of a kernel's.
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

        Raises
        ------
        ValueError
            If X lacks a feature, or has another number of them.
        """
        columns = getattr(X, "columns", None)
        if columns is not None and self.features:
            if missing := [name for name in self.features if name not in list(columns)]:
                raise ValueError(f"X lacks {', '.join(missing)}; the model's features are {', '.join(self.features)}.")
            X = cast(Frame, X)[list(self.features)]
        data = validation.check_data(X).astype(np.float64)
        if data.shape[1] != self.n_features:
            names = f": {', '.join(self.features)}" if self.features else ""
            raise ValueError(f"X has {data.shape[1]} features; the model has {self.n_features}{names}.")
        prepared: FloatArray = self.preparation.transform(data)
        return prepared

    def transform(self, X: ArrayLike) -> FloatArray:
        """Embed raw data so that the Euclidean distance is the learned one, (n, r), float64.

        Parameters
        ----------
        X : (n, d) array or frame
            As in `prepare`. With several metrics their coordinates are side by side.

        Raises
        ------
        ValueError
            As in `prepare`, or if the metric is not one of features but of a kernel's.
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

        Raises
        ------
        TypeError
            If a step of the preparation is not one of `STEPS`.
        """
        steps, arrays = [], {}
        for number, step in enumerate(step for step in self.preparation if step != "passthrough"):
            kind = type(step).__name__
            if STEPS.get(kind) is not type(step):
                raise TypeError(f"a model keeps the steps {', '.join(STEPS)}, not {kind}; use skops for others.")
            said: dict[str, object] = {}
            for name, value in vars(step).items():
                if isinstance(value, np.ndarray):
                    arrays[f"step{number}_{name}"] = value
                else:
                    said[name] = value.item() if isinstance(value, np.generic) else value
            steps.append({"kind": kind, "state": said})
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
        with Path(path).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **saved, **arrays, model=np.array(json.dumps(model)))

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Load what `save` wrote.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        ValueError
            If the file was not written by `save`.
        """
        arrays = read_npz(path)
        if "model" not in arrays:
            raise ValueError(
                f"{path} holds the arrays {', '.join(arrays) or '(none)'} and is no model; write one with "
                "'sdpmetric solve DATA --output FILE' or Model.save."
            )
        model = json.loads(str(arrays["model"]))
        if model["format"] != FORMAT:
            raise ValueError(f"{path} has format {model['format']}, and this version reads format {FORMAT}.")
        return cls(
            Solution.from_arrays(arrays),
            make_pipeline(*([_step(*step, arrays) for step in enumerate(model["steps"])] or ["passthrough"])),
            tuple(model["features"]),
            model["label"],
            model["statement"],
            model["parameters"],
            model["linear"],
        )


def _step(number: int, said: Mapping[str, object], arrays: Arrays) -> BaseEstimator:
    """A fitted step from its kind, numbers and arrays."""
    step = STEPS[str(said["kind"])]()
    step.__dict__.update(cast(Mapping[str, object], said["state"]))
    prefix = f"step{number}_"
    step.__dict__.update({key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})
    return step
