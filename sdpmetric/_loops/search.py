"""Compiled loops of the impostor search: tiles of the distance matrix, scanned while they are in a core's cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST, loop
from sdpmetric.arrays import IndexArray

# Rows and columns of one tile of the distance matrix, which stays in the cache of its core in single precision, and the
# columns that are looked at together.
TILE_ROWS, TILE_COLUMNS, CHUNK = 64, 1024, 64


@loop(fastmath=FAST)
def _any_within(values: NDArray[np.floating], ceilings: NDArray[np.floating], limit: float) -> bool:
    """Whether any value is at or below its ceiling or the limit; without a branch, so it is vectorized."""
    count = np.float32(0.0)
    for j in range(len(values)):
        count += np.float32(1.0) if values[j] <= max(ceilings[j], limit) else np.float32(0.0)
    return bool(count > 0.0)


@loop(nogil=True, fastmath=FAST)
def scan_tiles(
    left: NDArray[np.floating],
    tiles: NDArray[np.floating],
    limits: NDArray[np.floating],
    ceilings: NDArray[np.floating],
    own: NDArray[np.int64],
    both: bool,
    tops: NDArray[np.int64],
    state: NDArray[np.int64],
    pairs: IndexArray,
) -> None:
    """Scan the tiles with the first rows `tops` of ``D = left @ tiles`` for entries at or below their limit.

    Row k of D belongs to columns ``own[k, 0]`` to ``own[k, 1]``, which are left out. Where ``both``, rows and columns
    are the same points: only columns from ``own[k, 1]`` on are looked at, and an entry at or below the ceiling of its
    column is listed as the pair (column, row) too. Starts at task ``state[0]``, stops early when `pairs` might
    overflow, and leaves the next task and the number of pairs in `state`.
    """
    n_tiles, width, n = len(tiles), tiles.shape[2], len(ceilings)
    height = TILE_ROWS
    D = np.empty((height, width), dtype=left.dtype)
    task, used = state[0], 0
    while task < len(tops) * n_tiles and used + 2 * height * width <= len(pairs):
        top, first = tops[task // n_tiles], task % n_tiles * width
        task += 1
        rows, last = min(height, len(left) - top), min(first + width, n)
        inside = own[top, 0] == own[top + rows - 1, 0] and first >= own[top, 0] and last <= own[top, 1]
        if inside or (both and last <= own[top, 1]):
            continue
        np.dot(left[top : top + rows], tiles[first // width], D[:rows])
        for k in range(rows):
            row, limit = top + k, limits[top + k]
            for part in range(2):
                if part == 0:
                    start, stop = first, 0 if both else min(last, own[row, 0])
                else:
                    start, stop = max(first, own[row, 1]), last
                for low in range(start, stop, CHUNK):
                    high = min(low + CHUNK, stop)
                    if not _any_within(D[k, low - first : high - first], ceilings[low:high], limit):
                        continue
                    for j in range(low, high):
                        distance = D[k, j - first]
                        if distance <= limit:
                            pairs[used, 0], pairs[used, 1] = row, j
                            used += 1
                        if both and distance <= ceilings[j]:
                            pairs[used, 0], pairs[used, 1] = j, row
                            used += 1
    state[0], state[1] = task, used
