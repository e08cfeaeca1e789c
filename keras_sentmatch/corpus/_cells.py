"""Neighbors among many vectors: cells around centroids, and products of whole cells."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from keras_sentmatch.display.progress import progress_bar

Array = NDArray[Any]
EXACT = 20_000  # up to this number of vectors, all are compared
PROBES = 8  # number of cells that a vector is compared with
_ROWS = 1024  # vectors compared at the same time
_ROUNDS = 5  # of k-means
_SAMPLE = 64  # vectors per cell from which k-means learns
_THREADS = os.cpu_count() or 1


class Cells:
    """Finds the nearest of many unit vectors by their cosine.

    Up to `EXACT` vectors the search is exact. Above that, each vector belongs to the cell of its nearest
    centroid, and only the vectors in the nearest cells are compared. All vectors that look into a
    cell are multiplied with it at once, which is several times as fast as looking each up.

    Args:
        vectors: Unit vectors `[rows, dim]` of any floating type. Rows of zeros are found by nobody.
    """

    def __init__(self, vectors: Array) -> None:
        self.vectors = vectors
        count = 1 if len(vectors) <= EXACT else int(len(vectors) ** 0.5)
        self.centroids = find_centroids(vectors, count)
        cells = nearest_cells(vectors, self.centroids)[:, 0]
        self.rows = np.argsort(cells, kind="stable").astype("int32")
        self.ends = np.cumsum(np.bincount(cells, minlength=count))

    def search(self, asked: Array, k: int) -> Array:
        """Return the `k` nearest rows for each vector, best first, then -1 if there are fewer."""
        rows = np.full((len(asked), k), -1, "int32")
        cosines = np.full((len(asked), k), -np.inf, "float32")

        def look(cell: int, part: Array) -> None:
            inside = self.rows[self.ends[cell - 1] if cell else 0 : self.ends[cell]]
            found = asked[part].astype("float32") @ self.vectors[inside].astype("float32").T
            least = cosines[part, -1]
            if len(inside) > k and np.isinf(least).any():  # as long as all are above the least
                least = np.partition(found, -k, axis=1)[:, -k]
            places = np.flatnonzero(found >= least[:, None])
            at, column = np.divmod(places, len(inside))
            at = np.concatenate([np.repeat(np.arange(len(part)), k), at])
            row = np.concatenate([rows[part].reshape(-1), inside[column]])
            cosine = np.concatenate([cosines[part].reshape(-1), found.reshape(-1)[places]])
            order = np.lexsort((-cosine, at))
            at = at[order]
            best = order[np.arange(len(at)) - np.searchsorted(at, at) < k].reshape(-1, k)
            rows[part], cosines[part] = row[best], cosine[best]

        near = nearest_cells(asked, self.centroids, min(PROBES, len(self.centroids)))
        done = 0
        with (
            ThreadPoolExecutor(_THREADS) as pool,
            progress_bar("comparing sentences", near.size, len(self.centroids) > 1) as show,
        ):
            for cells in near.T:  # the nearest cell of all, then the second nearest, …
                order = np.argsort(cells, kind="stable")
                counts = np.bincount(cells, minlength=len(self.centroids))
                parts = [
                    (cell, part[start : start + _ROWS])
                    for cell, part in enumerate(np.split(order, np.cumsum(counts)[:-1]))
                    for start in range(0, len(part), _ROWS)
                ]
                for (_, part), _ in zip(parts, pool.map(lambda one: look(*one), parts)):
                    done += len(part)
                    show(done)
        return rows


def nearest_cells(vectors: Array, centroids: Array, count: int = 1) -> Array:
    """Return the rows of the nearest centroids, `[vectors, count]`, the nearest first."""
    found = np.zeros((len(vectors), count), "int32")
    for start in range(0, len(vectors), _ROWS):
        away = -(vectors[start : start + _ROWS].astype("float32") @ centroids.T)
        best = np.argpartition(away, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(away, best, 1), axis=1, kind="stable")
        found[start : start + _ROWS] = np.take_along_axis(best, order, 1)
    return found


def find_centroids(vectors: Array, count: int) -> Array:
    """Return unit vectors, float32 `[count, dim]`, around which vectors lie: spherical k-means."""
    rng = np.random.default_rng(0)
    some = rng.choice(len(vectors), min(len(vectors), _SAMPLE * count), replace=False)
    sample = vectors[some].astype("float32")
    found = sample[:count]
    for _ in range(_ROUNDS if count > 1 else 0):
        cells = nearest_cells(sample, found)[:, 0]
        ones = np.ones(len(cells), "float32")
        sums = csr_matrix((ones, (cells, np.arange(len(cells)))), (count, len(cells))) @ sample
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        found = np.where(norms > 0, sums / np.maximum(norms, 1e-9), found)
    return np.asarray(found, "float32")
