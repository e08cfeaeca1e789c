"""An index: a corpus on disk with what retrievers need, to rank its sentences against a query."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.corpus._mining import Distinct
from keras_sentmatch.corpus._retrieval import (
    BLOCK,
    EXACT,
    PROBES,
    Array,
    Bm25,
    fuse,
    make_vectors,
    optional,
    vector_kind,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.safety import check_types, first_line, read_object
from keras_sentmatch.version import __version__

FORMAT = 1
_PROBED = 4  # sentences whose vectors are compared with the run's
_KINDS: dict[str, Any] = {
    "count": int,
    "vectors": str,
    "columns": [str],
    "source": (dict, None),
}
AGAIN = "Build the index again."


class Texts:
    """Strings in two memory-mapped files: their bytes, and the end of each string."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self.bytes, self.ends = (
            _array(folder / f"{name}-{part}.npy") for part in ("bytes", "ends")
        )
        if self.ends.shape != (count,) or (count and self.ends[-1] != len(self.bytes)):
            raise ValueError(f"{name} has other sizes")

    def __getitem__(self, row: int) -> str:
        start = self.ends[row - 1] if row else 0
        return bytes(self.bytes[start : self.ends[row]]).decode("utf-8")

    @staticmethod
    def write(folder: Path, name: str, texts: Sequence[str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        np.save(folder / f"{name}-ends.npy", np.cumsum([len(text) for text in encoded]))
        np.save(folder / f"{name}-bytes.npy", np.frombuffer(b"".join(encoded), np.uint8))


def _array(path: Path) -> Array:
    return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))


class Index:
    """A saved corpus whose sentences are ranked against a query without scoring all of them.

    The folder of memory-mapped `.npy` and `.json` files is written by `build_index`.

    Args:
        folder: The folder of the index.
        matcher: The matcher that scores pairs. Any matcher can use an index of the built-in vectors
            (`"table"`); an index of `"words"` needs the run that built it.

    Raises:
        InputError: If the folder is no index, is damaged, has another format or the vectors of
            another run, or if the file that it was built from has changed.

    Example:

    ```python
    from keras_sentmatch.corpus import Index, build_index

    build_index(matcher, titles, "catalog", columns={"id": ids})
    index = Index("catalog", matcher)
    index.rank("red shoes", top_k=3)  # [{"index": 17, "sentence": …, "score": 0.96, "id": …}, …]
    ```
    """

    def __init__(self, folder: str | os.PathLike[str], matcher: Any) -> None:
        self.folder, self.matcher = Path(folder), matcher
        facts = self.facts = read_facts(self.folder)
        self._check_source()
        member = getattr(matcher, "members", [matcher])[0]
        try:
            self.sentences = Texts(self.folder, "sentences", facts["count"])
            self.columns = {
                name: Texts(self.folder, f"column-{number}", facts["count"])
                for number, name in enumerate(facts["columns"])
            }
            self.bm25 = Bm25((), self.folder / "bm25")
            if self.bm25.scores.shape[1] != facts["count"]:
                raise ValueError("bm25 has other sizes")
            self.vectors, self.rows, self.lists, self.centroids = (
                _array(self.folder / f"{name}.npy")
                for name in ("vectors", "rows", "lists", "centroids")
            )
            if len(self.vectors) != facts["count"] or len(self.rows) != facts["count"]:
                raise ValueError("vectors has other sizes")
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InputError(f"{folder} is damaged: {first_line(error)}. {AGAIN}") from error
        state = self.folder / "state.json"
        learned = read_object(state, "Build the index again") if state.exists() else ()
        self.embed = make_vectors(vector_kind(member, facts["vectors"]), member, learned)
        self._check_run()

    def __len__(self) -> int:
        return int(self.facts["count"])

    def __repr__(self) -> str:
        return f"<Index of {len(self):,} sentences>"

    def _check_source(self) -> None:
        """Refuse the index of a file that has changed. A file that is gone has not changed."""
        source = self.facts["source"]
        if source is None:
            return
        check_types(source, {"path": str, "size": int, "sha256": str}, self.folder / "index.json")
        path = Path(source["path"])
        if path.is_file() and (
            path.stat().st_size != source["size"] or file_digest(path) != source["sha256"]
        ):
            raise InputError(f"{path} has changed since {self.folder} was built from it. {AGAIN}")

    def _check_run(self) -> None:
        """Refuse a run that makes other vectors of the same sentences."""
        places = range(min(_PROBED, len(self)))
        found = self.embed([self.sentences[int(self.rows[place])] for place in places])
        kept = self.vectors[: len(places)]
        if found.shape != kept.shape or np.abs(found - kept).max() > 0.01:
            raise InputError(
                f"{self.folder} was built with the word vectors of another run. Use that run, or build "
                "the index again."
            )

    def candidates(self, query: str, k: int = 100) -> Array:
        """Return the rows of the `k` sentences that the retrievers find for a query, best first."""
        check_count("candidates", k)
        k = min(k, len(self))
        near = self._nearest(self.embed([query])[0], k)[None]
        found = fuse([self.bm25.search([query], k), near], k)[0]
        return np.asarray(found[found >= 0])

    def _nearest(self, vector: Array, k: int) -> Array:
        """Return the rows of the nearest vectors in the nearest lists."""
        near = np.argsort(-(self.centroids @ vector), kind="stable")[:PROBES]
        places = np.concatenate([np.arange(self.lists[i], self.lists[i + 1]) for i in near])
        parts = [self.vectors[self.lists[i] : self.lists[i + 1]] @ vector for i in near]
        found = self.rows[places[np.argsort(-np.concatenate(parts), kind="stable")[:k]]]
        if not vector.any():  # no word of the query has a vector
            found = found[:0]
        return np.pad(found, (0, k - len(found)), constant_values=-1)

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
            top_k: Number of sentences to return.
            candidates: Number of sentences that the matcher scores.
            label: The label whose probability is the score, as for `Matcher.rank`.
            batch_size: Maximum number of pairs per batch.

        Returns:
            A list of predictions with `index`, `sentence`, `score` and the saved columns.
        """
        rows = self.candidates(query, candidates).tolist()
        if not rows:
            self.matcher.score_column(label)
            return []
        texts = [self.sentences[row] for row in rows]
        best = self.matcher.rank(query, texts, top_k=top_k, label=label, batch_size=batch_size)
        for one in best:
            row = one["index"] = rows[one["index"]]
            one.update({name: column[row] for name, column in self.columns.items()})
        return list(best)


def build_index(
    matcher: Any,
    sentences: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    columns: Mapping[str, Sequence[Any]] | None = None,
    vectors: str | None = None,
    source: str | os.PathLike[str] | None = None,
) -> None:
    """Write an index, which replaces an older index in the folder once it is complete.

    Args:
        matcher: The run to rank with.
        sentences: The corpus.
        folder: The folder to write.
        columns: Further values of each sentence by name, such as ids; kept as strings.
        vectors: `"table"` or `"words"`, as for `mine`.
        source: The file that the sentences come from. If it changes, the index is refused.

    Raises:
        InputError: If the corpus is empty, a column has another length or a reserved name, or the
            folder holds something else.
    """
    sentences, folder = list(sentences), Path(folder)
    if not sentences:
        raise InputError("The corpus has no sentences. An index needs at least one.")
    Distinct(sentences, "sentences")  # refuses what is no sentence
    member = getattr(matcher, "members", [matcher])[0]
    kind = vector_kind(member, vectors)
    columns = dict(columns or {})
    for name, values in columns.items():
        if name in ("index", "sentence", "score") or len(values) != len(sentences):
            raise InputError(
                f"The column {name!r:.60} has {len(values):,} values for {len(sentences):,} sentences. "
                "Expected one value per sentence, and a name other than index, sentence and score."
            )
    if folder.exists() and not (folder / "index.json").is_file():
        raise InputError(f"{folder} exists and is no index. Choose another folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new = temporary / "new"
        new.mkdir()
        Texts.write(new, "sentences", sentences)
        for number, values in enumerate(columns.values()):
            Texts.write(new, f"column-{number}", [str(value) for value in values])
        Bm25(sentences).save(new / "bm25")
        _write_vectors(new, make_vectors(kind, member, sentences), sentences)
        facts = {
            "format": FORMAT,
            "version": __version__,
            "count": len(sentences),
            "vectors": kind,
            "columns": list(columns),
            "source": None if source is None else _describe(Path(source)),
        }
        (new / "index.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            os.replace(folder, temporary / "old")
        os.replace(new, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_vectors(folder: Path, embed: Any, sentences: Sequence[str]) -> None:
    """Write the vectors, list by list, and the centroids of the lists."""
    if hasattr(embed, "state"):
        (folder / "state.json").write_text(json.dumps(embed.state()), encoding="utf-8")
    blocks = range(0, len(sentences), BLOCK)
    vectors = np.concatenate([embed(sentences[start : start + BLOCK]) for start in blocks])
    number = int(4 * len(vectors) ** 0.5) if len(vectors) > EXACT else 1
    lists = np.zeros(len(vectors), int)
    centroids = np.zeros((1, vectors.shape[1]), "float32")
    if number > 1:
        faiss = optional("faiss", "faiss-cpu")
        options = {"niter": 10, "max_points_per_centroid": 64, "spherical": True, "seed": 0}
        means = faiss.Kmeans(vectors.shape[1], number, **options)
        means.train(vectors)
        centroids, lists = means.centroids, means.index.search(vectors, 1)[1][:, 0]
    rows = np.argsort(lists, kind="stable")
    np.save(folder / "vectors.npy", vectors[rows])
    np.save(folder / "rows.npy", rows)
    np.save(folder / "lists.npy", np.searchsorted(lists[rows], np.arange(number + 1)))
    np.save(folder / "centroids.npy", centroids)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read and check index.json."""
    path = folder / "index.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no index: it has no index.json. Pass the folder that `build_index` or "
            "`keras-sentmatch rank --save-index` wrote."
        )
    facts = read_object(path, "Build the index again")
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {facts.get('format')!r:.20} (of keras_sentmatch "
            f"{facts.get('version')!r:.20}). keras_sentmatch {__version__} reads format {FORMAT}. {AGAIN}"
        )
    if missing := [name for name in _KINDS if name not in facts]:
        raise InputError(f"{path} lacks {', '.join(missing)}. {AGAIN}")
    check_types(facts, _KINDS, path)
    return facts


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"path": str(path.resolve()), "size": size, "sha256": file_digest(path)}
