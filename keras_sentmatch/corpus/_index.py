"""An index: a corpus on disk with what retrievers need, to rank its sentences against a query."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.corpus._bm25 import Bm25, fuse
from keras_sentmatch.corpus._cells import Array, Cells
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.safety import (
    check_integers,
    first_line,
    inside,
    read_bytes,
    read_object,
    working_folder,
)
from keras_sentmatch.vectors.static import load_static
from keras_sentmatch.version import __version__

FORMAT = 2
PROBES = 32  # number of cells that are searched
RESERVED = ("index", "sentence", "score")
AGAIN = "Build the index again"


class Index:
    """A saved corpus whose sentences are ranked against a query without scoring all of them.

    The folder is written by `Index.build`. Its arrays are memory-mapped, and any matcher can use it.

    Args:
        folder: The folder of the index.
        matcher: The matcher that scores pairs.

    Raises:
        InputError: The folder is no index, is damaged or has another format.

    Example:

    ```python
    from keras_sentmatch.corpus import Index

    Index.build(titles, "catalog", columns={"id": ids})
    index = Index("catalog", matcher)
    index.rank("red shoes", top_k=3)  # [{"index": 17, "sentence": …, "score": 0.96, "id": …}, …]
    ```
    """

    def __init__(self, folder: str | os.PathLike[str], matcher: Any) -> None:
        from scipy.sparse import csr_matrix

        self.folder, self.matcher = Path(folder), matcher
        self.count = count = _read_count(self.folder)
        try:
            self.content = self._array("content", "uint8", (-1,))
            self.content_ends = self._ends("content-ends", count, len(self.content))
            words = read_bytes(inside(self.folder, "words.txt"), "TEXT_BYTES").decode().split("\n")
            scores = self._array("bm25-scores", "float32", (-1,))
            rows = self._array("bm25-rows", "int32", scores.shape, below=count)
            starts = np.append(0, self._ends("bm25-ends", len(words), len(scores)))
            shape = len(words), count
            self.bm25 = Bm25(words, csr_matrix((scores, rows, starts), shape=shape, copy=False))
            self.centroids = self._array("centroids", "float32", (-1, load_static().dim))
            self.ends = self._ends("list-ends", len(self.centroids), count)
            self.vectors = self._array("vectors", "float32", (count, self.centroids.shape[1]))
            self.rows = self._array("rows", "int64", (count,), below=count)
        except InputError:
            raise
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{folder} is damaged: {first_line(error)}. {AGAIN}.") from error

    def __len__(self) -> int:
        return self.count

    def _array(self, name: str, dtype: str, shape: tuple[int, ...], below: int = 0) -> Array:
        """Return an array that may come from anybody. A size of -1 is free.

        If `below` is given, the values are indices from 0 to less than `below`.
        """
        path = inside(self.folder, f"{name}.npy")
        if not path.is_file():
            raise ValueError(f"{path.name} is missing")
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if (
            found.dtype != dtype
            or found.ndim != len(shape)
            or any(size not in (-1, there) for size, there in zip(shape, found.shape))
            or (below and found.size and not 0 <= found.min() <= found.max() < below)
        ):
            raise ValueError(f"{path.name} does not fit the other files")
        return np.asanyarray(found)

    def _ends(self, name: str, count: int, last: int) -> Array:
        """Return the ends of consecutive parts of an array of size `last`."""
        found = self._array(name, "int64", (count,))
        if not count or np.diff(found, prepend=0).min() < 0 or found[-1] != last:
            raise ValueError(f"{name}.npy does not fit the other files")
        return found

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a sentence and its columns."""
        start = self.content_ends[row - 1] if row else 0
        try:
            found = json.loads(bytes(self.content[start : self.content_ends[row]]))
            if not isinstance(found["sentence"], str) or {"index", "score"} & found.keys():
                raise ValueError("wrong columns")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{self.folder} is damaged at row {row}. {AGAIN}.") from error
        return dict(found)

    @staticmethod
    def build(
        sentences: Sequence[str],
        folder: str | os.PathLike[str],
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Write an index, which replaces an older index in the folder once it is complete.

        Args:
            sentences: The corpus.
            folder: The folder to write.
            columns: Further values of each sentence by name, such as ids: strings or numbers.

        Raises:
            InputError: The corpus is empty, a sentence is no string, a column has another length or a
                reserved name, or the folder holds something else.
        """
        if isinstance(sentences, str):
            raise InputError("The corpus is one string. Pass a list of sentences.")
        sentences, folder, columns = list(sentences), Path(folder), dict(columns or {})
        if not sentences or not all(isinstance(sentence, str) for sentence in sentences):
            raise InputError(f"The corpus is {sentences!r:.60}. Expected at least one string.")
        for name, values in columns.items():
            if name in RESERVED or len(values) != len(sentences):
                raise InputError(
                    f"The column {name!r:.60} has {len(values):,} values for {len(sentences):,} "
                    "sentences. Expected one value per sentence, and a name other than "
                    f"{', '.join(RESERVED)}."
                )
        if folder.exists() and not _is_index(folder):
            raise InputError(f"{folder} exists and is no index. Choose another folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with working_folder(folder.parent, folder.name) as temporary:
            new = temporary / "new"
            new.mkdir()
            names = ("sentence", *columns)
            _write(new, sentences, [dict(zip(names, r)) for r in zip(sentences, *columns.values())])
            if folder.exists():
                os.replace(folder, temporary / "old")
            os.replace(new, folder)

    def candidates(self, query: str, k: int = 100) -> Array:
        """Return the rows of the `k` sentences that the retrievers find for a query, best first."""
        check_count("candidates", k)
        if not isinstance(query, str):
            raise InputError(f"The query is {query!r:.60}. Expected one string.")
        k = min(k, len(self))
        near = self._nearest(load_static()([query])[0], k)
        return fuse([self.bm25.search(query, k), near], k)

    def _nearest(self, vector: Array, k: int) -> Array:
        """Return the rows of the nearest vectors in the nearest cells."""
        near = np.argsort(-(self.centroids @ vector), kind="stable")[:PROBES]
        spans = [(int(self.ends[i - 1]) if i else 0, int(self.ends[i])) for i in near]
        places = np.concatenate([np.arange(*span) for span in spans])
        cosines = np.concatenate([self.vectors[start:end] @ vector for start, end in spans])
        found = self.rows[places[np.argsort(-cosines, kind="stable")[:k]]]
        if not vector.any():  # no word of the query has a vector
            found = found[:0]
        return np.asarray(found)

    def rank(
        self,
        query: str,
        *,
        top_k: int | None = 10,
        candidates: int = 100,
        label: str | None = None,
        batch_size: int = 64,
    ) -> list[Prediction]:
        """Rank the sentences that the retrievers find for a query by the matcher's score.

        Args:
            query: The first sentence of every pair.
            top_k: Number of sentences to return. Defaults to `10`.
            candidates: Number of sentences that the matcher scores. Defaults to `100`.
            label: The label whose probability is the score, as for `Matcher.rank`.
            batch_size: Maximum number of pairs per batch. Defaults to `64`.

        Returns:
            A list of predictions with `index`, `sentence`, `score` and the saved columns.
        """
        rows = self.candidates(query, candidates).tolist()
        if not rows:
            self.matcher.score_column(label)
            return []
        kept = [self[row] for row in rows]
        texts = [row["sentence"] for row in kept]
        best = self.matcher.rank(query, texts, top_k=top_k, label=label, batch_size=batch_size)
        for one in best:
            one.update(kept[one["index"]], index=rows[one["index"]])
        return list(best)


def _write(folder: Path, sentences: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    encoded = [json.dumps(row, default=_plain).encode() for row in rows]
    bm25, cells = Bm25.of(sentences), Cells(load_static()(sentences))
    arrays = {
        "content": np.frombuffer(b"".join(encoded), "uint8"),
        "content-ends": np.cumsum([len(row) for row in encoded], dtype="int64"),
        "bm25-scores": bm25.scores.data,
        "bm25-rows": bm25.scores.indices.astype("int32"),
        "bm25-ends": bm25.scores.indptr[1:].astype("int64"),
        "vectors": cells.vectors[cells.rows],
        "rows": cells.rows.astype("int64"),
        "list-ends": cells.ends,
        "centroids": cells.centroids,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "words.txt").write_text("\n".join(bm25.words), encoding="utf-8")
    facts = {"format": FORMAT, "version": __version__, "count": len(sentences)}
    (folder / "index.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Return what JSON holds for a value: a number of NumPy stays a number, others become text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _is_index(folder: Path) -> bool:
    """Whether a folder may be replaced: all its files are those of an index."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return "index.json" in names and all(
        name in ("index.json", "words.txt") or name.endswith(".npy") for name in names
    )


def _read_count(folder: Path) -> int:
    """Check index.json, and return the number of sentences."""
    path = folder / "index.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no index: it has no index.json. Give the folder that `Index.build` or "
            "`keras-sentmatch rank --save-index` wrote."
        )
    facts = read_object(inside(folder, path.name), AGAIN)
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {facts.get('format')!r:.20}. keras_sentmatch {__version__} reads "
            f"format {FORMAT}. {AGAIN}."
        )
    check_integers({"count": None, **facts}, path, count=1 << 40)
    return int(facts["count"])
