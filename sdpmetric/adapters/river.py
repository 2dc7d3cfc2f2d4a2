"""Online learners as river's transformers, one labeled example at a time: ``pip install sdpmetric[river]``."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable

import numpy as np

from sdpmetric.arrays import FloatArray

try:
    from river import base
except ImportError as error:
    raise ImportError("these transformers need river: pip install 'sdpmetric[river]'.") from error

from sdpmetric.lego.stream import LEGOStream
from sdpmetric.pola.stream import POLAStream

Features = dict[Hashable, float]


class _MetricTransformer(base.SupervisedTransformer, base.Transformer):
    """What both transformers share: names of features, and examples to pair the next one with.

    River's pipelines apply a `SupervisedTransformer` to what they predict but not to what the steps after it learn,
    as it is no `Transformer`; what is both is applied to both.

    Each labeled example makes two pairs, with a remembered example of its class and with one of another class, both
    drawn at random. The features are those of the first example: one that comes later is ignored, one that is missing
    is 0, as everywhere in river.
    """

    def __init__(self, memory: int, seed: int | None) -> None:
        self.memory = memory
        self.seed = seed
        self._rng = random.Random(seed)
        self._names: list[Hashable] = []
        self._remembered: dict[Hashable, deque[FloatArray]] = {}
        self._root: FloatArray | None = None

    def learn_one(self, x: Features, y: Hashable) -> None:
        """Take one labeled example.

        Parameters
        ----------
        x : dict of feature name to number
        y : label
        """
        if not self._names:
            self._names = sorted(x, key=str)
            self._begin(len(self._names))
        example = self._vector(x)
        other_labels = [label for label in self._remembered if label != y]
        same = [y] if y in self._remembered else []
        for label in [*same, *([self._rng.choice(other_labels)] if other_labels else [])]:
            partner = self._rng.choice(self._remembered[label])
            if not np.array_equal(example, partner):  # no metric tells equal examples apart
                self._take(example, partner, label == y)
                self._root = None
        self._remembered.setdefault(y, deque(maxlen=self.memory)).append(example)

    def transform_one(self, x: Features) -> dict[Hashable, float]:
        """Embed one example by the symmetric root of the metric: Euclidean distances are the learned ones.

        The metric is scaled to the trace of the identity. What a later step stores, such as the examples of a nearest
        neighbors classifier, stays where it was embedded: the symmetric root moves least from step to step.

        Parameters
        ----------
        x : dict of feature name to number

        Returns
        -------
        z : dict of int to float
            As many as there are features; as they are until a pair has been learned from.
        """
        if not self._names:
            return dict(x)
        if self._root is None:
            values, vectors = np.linalg.eigh(self._metric())
            roots = np.sqrt(np.maximum(values, 0.0))
            length = float(np.sqrt(np.mean(roots**2)))
            self._root = (vectors * (roots / length)) @ vectors.T if length > 0.0 else np.eye(len(roots))
        return dict(enumerate((self._root @ self._vector(x)).tolist()))

    def _vector(self, x: Features) -> FloatArray:
        return np.array([float(x.get(name, 0.0)) for name in self._names])

    def _begin(self, n_features: int) -> None:
        raise NotImplementedError

    def _take(self, u: FloatArray, v: FloatArray, similar: bool) -> None:
        raise NotImplementedError

    def _metric(self) -> FloatArray:
        raise NotImplementedError


class POLATransformer(_MetricTransformer):
    """Online POLA (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004] in river; see `sdpmetric.POLAStream`.

    Scale features before, as with ``river.preprocessing.StandardScaler``.

    Parameters
    ----------
    gamma : float or None, default 1
        Every step is shortened by it, for pairs that no metric separates; None: the separable version.
    memory : int, default 10
        Examples of each class that are remembered, the latest ones.
    seed : int, optional
        Seed of the draws among them.

    Examples
    --------
    >>> from river import neighbors, preprocessing
    >>> from sdpmetric.adapters.river import POLATransformer
    >>> model = preprocessing.StandardScaler() | POLATransformer(seed=0) | neighbors.KNNClassifier(1)
    >>> for x, y in [({"a": 0.0, "b": 1.0}, "u"), ({"a": 0.1, "b": 9.0}, "u"), ({"a": 3.0, "b": 2.0}, "v")]:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"a": 2.9, "b": 5.0}) in ("u", "v")
    True
    """

    def __init__(self, gamma: float | None = 1.0, memory: int = 10, seed: int | None = None) -> None:
        super().__init__(memory, seed)
        self.gamma = gamma

    def _begin(self, n_features: int) -> None:
        self._stream = POLAStream(n_features, gamma=self.gamma)

    def _take(self, u: FloatArray, v: FloatArray, similar: bool) -> None:
        self._stream.partial_fit(np.stack([u, v]), [[0, 1]], [similar])

    def _metric(self) -> FloatArray:
        return self._stream.metric


class LEGOTransformer(_MetricTransformer):
    """LEGO (Jain, Kulis, Dhillon and Grauman 2008, section 2.1) [JKDG2008] in river; see `sdpmetric.LEGOStream`.

    Parameters
    ----------
    learning_rate : float, default 0.01
    upper, lower : float, default 1 and 4
        Squared distances of pairs of one class are to be at most `upper`, of others at least `lower`, as multiples of
        the number of features: that of standardized independent examples is 2.
    memory : int, default 10
        As in `POLATransformer`.
    seed : int, optional
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        upper: float = 1.0,
        lower: float = 4.0,
        memory: int = 10,
        seed: int | None = None,
    ) -> None:
        super().__init__(memory, seed)
        self.learning_rate = learning_rate
        self.upper = upper
        self.lower = lower

    def _begin(self, n_features: int) -> None:
        self._stream = LEGOStream(n_features, self.learning_rate)

    def _take(self, u: FloatArray, v: FloatArray, similar: bool) -> None:
        target = (self.upper if similar else self.lower) * len(u)
        self._stream.update(u, v, target, 1 if similar else -1)

    def _metric(self) -> FloatArray:
        return self._stream.metric
