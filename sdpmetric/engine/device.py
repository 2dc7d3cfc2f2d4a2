"""The engine of one device of PyTorch, a GPU or the CPU: the heavy loops as operations on whole arrays."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.interface import Loops, Threads

if TYPE_CHECKING:
    from torch import Tensor

# Entries of the largest array that a loop makes, on a GPU and on the CPU.
ENTRIES, ENTRIES_ON_CPU = 1 << 27, 1 << 21
# Pairs that a search hands on at once.
PAIRS_AT_ONCE = 1 << 22


class Torch(Threads):
    """Loops over pairs and triplets on one device of PyTorch, everything else on the threads of this process.

    The search for impostors multiplies in single precision with the allowance of the compiled search, so that it misses
    no pair; all that a certificate adds up is in double precision. On a GPU sums are added up in no fixed order, so
    that two solves agree up to rounding only.

    Parameters
    ----------
    device : str, default "cuda"
        As PyTorch names it: "cuda", "cuda:1", "cpu".

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    ValueError
        If PyTorch has no such device, or one without double precision.

    Examples
    --------
    >>> sm.solve(problem, engine=sm.engines.Torch("cpu"))  # doctest: +SKIP
    """

    def __init__(self, device: str = "cuda") -> None:
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"engine {device!r} needs PyTorch; install it with pip install 'sdpmetric[torch]'."
            ) from error
        try:
            torch.zeros(1, dtype=torch.float64, device=device)
        except (AssertionError, RuntimeError, TypeError) as error:
            raise ValueError(
                f"PyTorch has no device {device!r} with double precision here; pass one that it has, for example 'cpu'."
            ) from error
        self.loops: Loops | None = TorchLoops(device)


class TorchLoops:
    """See `sdpmetric.engine.interface.Loops`.

    Parameters
    ----------
    device : str
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch, self._device = torch, torch.device(device)
        self._entries = ENTRIES_ON_CPU if self._device.type == "cpu" else ENTRIES
        self._kept: dict[tuple[int, str], Tensor] = {}

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _on(self, array: NDArray[np.generic]) -> Tensor:
        """An array on the device."""
        return self._torch.tensor(array, device=self._device)

    def _cached(self, array: NDArray[np.generic], what: str, make: Callable[[], Tensor]) -> Tensor:
        """What is computed from an array that does not change, cached as long as the array exists."""
        key = id(array), what
        if key not in self._kept:
            self._kept[key] = make()
            weakref.finalize(array, self._kept.pop, key, None)
        return self._kept[key]

    def _keep(self, array: NDArray[np.generic]) -> Tensor:
        """An array that nobody changes, on the device; whole numbers as indices."""
        whole = np.issubdtype(array.dtype, np.integer)
        return self._cached(array, "itself", lambda: self._on(array.astype(np.int64) if whole else array))

    def _chunks(self, n: int, width: int) -> Iterator[slice]:
        step = max(1, self._entries // max(width, 1))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    def _times(self, X: Tensor, bounds: NDArray[np.int64], W: Tensor) -> Tensor:
        parts = [X[a:b] @ W[c] for c, (a, b) in enumerate(pairwise(bounds.tolist()))]
        return parts[0] if len(parts) == 1 else self._torch.cat(parts)

    def _gram(self, Y: Tensor, X: Tensor, bounds: NDArray[np.int64]) -> Tensor:
        return self._torch.stack([Y[a:b].T @ X[a:b] for a, b in pairwise(bounds.tolist())])

    @contextmanager
    def _exact_products(self) -> Iterator[None]:
        """Products of single precision are not to be rounded to fewer digits, as some devices may."""
        before = self._torch.get_float32_matmul_precision()
        self._torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self._torch.set_float32_matmul_precision(before)

    # -- loops ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        left: NDArray[np.floating],
        right: NDArray[np.floating],
        ceilings: NDArray[np.floating],
        row_labels: IndexArray,
        column_labels: IndexArray,
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """See `Loops.scan`."""
        torch = self._torch
        rows, columns, limits = self._on(left), self._on(right).T, self._on(ceilings)[:, None]
        own, other = self._on(row_labels)[:, None], self._on(column_labels)[None]
        found: list[Tensor] = []
        for chunk in self._chunks(len(left), len(right)):
            with self._exact_products():
                near = (rows[chunk] @ columns <= limits[chunk]) & (own[chunk] != other)
            pairs = torch.nonzero(near).to(torch.int32)
            pairs[:, 0] += chunk.start
            found.append(pairs)
            if sum(len(part) for part in found) >= PAIRS_AT_ONCE or chunk.stop == len(left):
                both = torch.cat(found).T.cpu().numpy()
                found = []
                yield both[0], both[1]

    def times(self, X: NDArray[np.floating], bounds: NDArray[np.int64], W: NDArray[np.floating]) -> FloatArray:
        """See `Loops.times`."""
        with self._exact_products():
            return np.asarray(self._times(self._keep(X), bounds, self._on(W)).cpu().numpy())

    def push(
        self,
        X: NDArray[np.floating],
        bounds: NDArray[np.int64],
        candidates: tuple[IndexArray, IndexArray, IndexArray, NDArray[np.int64], IndexArray, FloatArray | None],
        L: FloatArray,
        gamma: float,
        squared: bool,
    ) -> tuple[FloatArray, NDArray[np.floating]]:
        """See `Loops.push`."""
        torch, points = self._torch, self._keep(X)
        anchors, bases, targets, indptr, impostors, weights = candidates
        Z = self._times(points, bounds, self._on(np.swapaxes(L, 1, 2).astype(X.dtype)))
        i, l = self._keep(anchors), self._keep(impostors)
        base, target = self._keep(bases), self._keep(targets)
        valid, rows = target >= 0, self._rows(indptr)
        slot = torch.nonzero(valid)
        b, t = base[valid], target[valid]
        near = torch.full(target.shape, -np.inf, dtype=Z.dtype, device=self._device)
        near[slot[:, 0], slot[:, 1]] = ((Z[b] - Z[t]) ** 2).sum(dim=1)
        Y, pull = torch.zeros_like(Z), torch.zeros(target.shape, dtype=torch.float64, device=self._device)
        sums = torch.zeros(3, dtype=torch.float64, device=self._device)
        for chunk in self._chunks(len(l), Z.shape[1] + target.shape[1]):
            first, second, row = i[rows[chunk]], l[chunk], rows[chunk]
            between = Z[first] - Z[second]
            u = (1.0 + near[row] - (between**2).sum(dim=1)[:, None]).clamp_min_(0.0)
            loss, slopes = _loss(torch.where, u, gamma, squared)
            w = None if weights is None else self._keep(weights)[chunk, None].to(Z.dtype)
            active = u > 0.0
            if w is not None:
                loss, slopes, active = w * loss, w * slopes, active & (w > 0.0)
            plain = (u * u if squared else u) if w is None else w * (u * u if squared else u)
            sums += torch.stack([part.sum(dtype=torch.float64) for part in (loss, plain, active)])
            pull.index_add_(0, row, slopes.double())
            between *= slopes.sum(dim=1)[:, None]
            Y.index_add_(0, first, between, alpha=-1)
            Y.index_add_(0, second, between)
        between = pull[valid].to(Z.dtype)[:, None] * (Z[b] - Z[t])
        Y.index_add_(0, b, between)
        Y.index_add_(0, t, between, alpha=-1)
        return sums.cpu().numpy(), self._gram(Y, points, bounds).cpu().numpy()

    def _rows(self, indptr: NDArray[np.int64]) -> Tensor:
        """The row of each pair."""
        return self._cached(indptr, "rows", lambda: self._on(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))

    def slopes(
        self,
        Z: NDArray[np.floating],
        candidates: tuple[IndexArray, FloatArray, NDArray[np.int64], IndexArray, FloatArray | None],
        gamma: float,
        squared: bool,
    ) -> tuple[FloatArray, FloatArray]:
        """See `Loops.slopes`."""
        torch, points = self._torch, self._on(Z)
        anchors, near, indptr, impostors, weights = candidates
        i, l, rows, reach = self._keep(anchors), self._keep(impostors), self._rows(indptr), self._on(near)
        reach = torch.where(reach >= 0.0, reach, -np.inf)
        sums, parts = torch.zeros(4, dtype=torch.float64, device=self._device), [np.zeros((0, near.shape[1]))]
        for chunk in self._chunks(len(l), Z.shape[1] + near.shape[1]):
            row = rows[chunk]
            far = ((points[i[row]] - points[l[chunk]]) ** 2).sum(dim=1)[:, None]
            u = (1.0 + reach[row] - far).clamp_min_(0.0)
            a = _loss(torch.where, u, gamma, squared)[1]
            plain, share, active = u * u if squared else u, a * a, u > 0.0
            if weights is not None:
                w = self._keep(weights)[chunk, None]
                a, plain, share, active = w * a, w * plain, w * share, active & (w > 0.0)
            sums += torch.stack([part.sum(dtype=torch.float64) for part in (plain, a, share, active)])
            parts.append(a.cpu().numpy())
        return sums.cpu().numpy(), np.concatenate(parts)

    def form(
        self,
        X: NDArray[np.floating],
        bounds: NDArray[np.int64],
        first: IndexArray,
        second: IndexArray,
        weights: FloatArray,
    ) -> FloatArray:
        """See `Loops.form`."""
        points, w = self._keep(X), self._on(weights)
        a, b, Y = self._keep(first), self._keep(second), self._torch.zeros_like(points)
        for chunk in self._chunks(len(a), X.shape[1]):
            between = (points[a[chunk]] - points[b[chunk]]) * w[chunk, None]
            Y.index_add_(0, a[chunk], between)
            Y.index_add_(0, b[chunk], between, alpha=-1)
        return np.asarray(self._gram(Y, points, bounds).cpu().numpy())

    def products(
        self, X: NDArray[np.floating], bounds: NDArray[np.int64], first: IndexArray, second: IndexArray, N: FloatArray
    ) -> FloatArray:
        """See `Loops.products`."""
        points, a, b = self._keep(X), self._keep(first), self._keep(second)
        W, parts = self._times(points, bounds, self._on(N)), [np.zeros(0)]
        for chunk in self._chunks(len(a), X.shape[1]):
            p, q = a[chunk], b[chunk]
            parts.append(((points[p] - points[q]) * (W[p] - W[q])).sum(dim=1).cpu().numpy())
        return np.concatenate(parts)


def _loss(where: Callable[..., Tensor], u: Tensor, gamma: float, squared: bool) -> tuple[Tensor, Tensor]:
    """Value and slope at u >= 0 of the squared hinge, or of the hinge made quadratic on [0, gamma]."""
    if squared:
        return u * u, 2.0 * u
    if gamma == 0.0:
        return u, (u > 0.0).to(u.dtype)
    return where(u >= gamma, u - 0.5 * gamma, 0.5 * u * u / gamma), (u / gamma).clamp_max(1.0)
