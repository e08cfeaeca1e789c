"""Index: a corpus on disk with what retrievers need, to rank its sentences against a query."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.corpus.mining import Miner
from keras_sentmatch.corpus.retrieval import EXACT, PROBES, Bm25, fuse, optional
from keras_sentmatch.corpus.vectors import BLOCK, Array, make_vectors
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.safety import check_types, first_line, read_object

FORMAT = 1
_PROBED = 4  # sentences whose vectors tell whether an index fits a run
_KINDS: dict[str, Any] = {
    "count": int,
    "retrievers": [str],
    "vectors": str,
    "columns": [str],
    "source": (dict, None),
}
AGAIN = "build the index again"


class Texts:
    """Strings in two memory-mapped files: their bytes, and where each ends."""

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
    """A saved corpus whose sentences can be ranked against a query without scoring all of them.

    It is a folder of `.npy` and `.json` files, which are memory-mapped. `Index.build` makes one;
    the constructor opens it.

    Args:
        folder: What `build` wrote.
        matcher: What scores pairs. It must be the run that the index was built with, if the vectors
            are the run's (`vectors` is `"words"` or `"encodings"`); otherwise any run will do.

    Raises:
        InputError: No index, one of another version, of another run, or a damaged one; or the file
            that it was built from has changed since.

    Example:

    ```python
    from keras_sentmatch.corpus import Index

    Index.build(matcher, titles, "catalog", columns={"id": ids})
    index = Index("catalog", matcher)
    index.rank("red shoes", top_k=3)  # [{"index": 17, "sentence": …, "score": 0.96, "id": …}, …]
    ```
    """

    def __init__(self, folder: str | os.PathLike[str], matcher: Any) -> None:
        self.folder, self.matcher = Path(folder), matcher
        facts = self.facts = read_facts(self.folder)
        self._check_source()
        member = getattr(matcher, "members", [matcher])[0]
        self.embed: Callable[[Sequence[str]], Array] | None = None
        try:
            self.sentences = Texts(self.folder, "sentences", facts["count"])
            self.columns = {
                name: Texts(self.folder, f"column-{number}", facts["count"])
                for number, name in enumerate(facts["columns"])
            }
            if "bm25" in facts["retrievers"]:
                self.bm25 = Bm25((), self.folder / "bm25")
                if self.bm25.scores.shape[1] != facts["count"]:
                    raise ValueError("bm25 has other sizes")
            if "dense" in facts["retrievers"]:
                self.vectors, self.rows, self.lists, self.centroids = (
                    _array(self.folder / f"{name}.npy")
                    for name in ("vectors", "rows", "lists", "centroids")
                )
                if len(self.vectors) != facts["count"] or len(self.rows) != facts["count"]:
                    raise ValueError("vectors has other sizes")
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InputError(f"{folder} is damaged ({first_line(error)}): {AGAIN}.") from error
        if "dense" in facts["retrievers"]:
            state = self.folder / "state.json"
            learned = read_object(state, AGAIN) if state.exists() else ()
            self.embed = make_vectors(facts["vectors"], member, learned)
            self._check_run()

    def __len__(self) -> int:
        return int(self.facts["count"])

    def __repr__(self) -> str:
        return f"<Index of {len(self):,} sentences, {', '.join(self.facts['retrievers'])}>"

    def _check_source(self) -> None:
        """Refuses the index of a file that has changed since; a file that is gone is no change."""
        source = self.facts["source"]
        if source is None:
            return
        check_types(source, {"path": str, "size": int, "sha256": str}, self.folder / "index.json")
        path = Path(source["path"])
        if path.is_file() and (
            path.stat().st_size != source["size"] or file_digest(path) != source["sha256"]
        ):
            raise InputError(f"{path} has changed since {self.folder} was built from it: {AGAIN}.")

    def _check_run(self) -> None:
        """Refuses a run that makes other vectors of the same sentences."""
        assert self.embed is not None
        places = range(min(_PROBED, len(self)))
        found = self.embed([self.sentences[int(self.rows[place])] for place in places])
        kept = self.vectors[: len(places)]
        if found.shape != kept.shape or np.abs(found - kept).max() > 0.01:
            raise InputError(
                f"{self.folder} holds other vectors ({self.facts['vectors']!r:.60}) than this run "
                f"makes of its sentences: use the run that it was built with, or {AGAIN}."
            )

    def candidates(self, query: str, k: int = 100) -> Array:
        """The rows of the `k` sentences that the retrievers find for a query, the best first."""
        check_count("candidates", k)
        k = min(k, len(self))
        rankings = []
        if "bm25" in self.facts["retrievers"]:
            rankings.append(self.bm25.search([query], k))
        if self.embed is not None:
            rankings.append(self._nearest(self.embed([query])[0], k)[None])
        found = fuse(rankings, k)[0]
        return np.asarray(found[found >= 0])

    def _nearest(self, vector: Array, k: int) -> Array:
        """The rows of the nearest vectors in the nearest lists."""
        near = np.argsort(-(self.centroids @ vector), kind="stable")[:PROBES]
        places = np.concatenate([np.arange(self.lists[i], self.lists[i + 1]) for i in near])
        parts = [self.vectors[self.lists[i] : self.lists[i + 1]] @ vector for i in near]
        found = self.rows[places[np.argsort(-np.concatenate(parts), kind="stable")[:k]]]
        if not vector.any():  # nothing is known of the query
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
        """Orders the sentences that the retrievers find for a query by the matcher's score.

        Args:
            query: The first sentence of every pair.
            top_k: How many to return.
            candidates: How many sentences the matcher scores.
            label: As for `Matcher.rank`.
            batch_size: Most pairs scored at once.

        Returns:
            A `Prediction` each: `index`, `sentence`, `score`, and the columns kept with it.
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

    @classmethod
    def build(
        cls,
        matcher: Any,
        sentences: Sequence[str],
        folder: str | os.PathLike[str],
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
        retriever: str = "both",
        vectors: str | None = None,
        source: str | os.PathLike[str] | None = None,
    ) -> None:
        """Writes an index, in place of one that is there; nothing is left half written.

        Args:
            matcher: The run to rank with.
            sentences: The corpus.
            folder: Where to write.
            columns: What else to keep of each sentence, as strings: ids, prices, ….
            retriever: As for `Miner`.
            vectors: As for `Miner`.
            source: The file that the sentences come from. If it changes, the index is refused.

        Raises:
            InputError: What `Miner` refuses; a column of another length, or with a name that answers
                have; or a folder that holds something else.
        """
        sentences, folder = list(sentences), Path(folder)
        if not sentences:
            raise InputError("The corpus has no sentences; an index needs at least one.")
        miner = Miner(matcher, sentences, sentences, retriever=retriever, vectors=vectors)
        columns = dict(columns or {})
        for name, values in columns.items():
            if name in ("index", "sentence", "score") or len(values) != len(sentences):
                raise InputError(
                    f"The column {name!r:.60} has {len(values):,} values for {len(sentences):,} "
                    "sentences; expected one value for each, and a name other than index, sentence "
                    "and score."
                )
        if folder.exists() and not (folder / "index.json").is_file():
            raise InputError(f"{folder} exists and is no index: name another folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            new = temporary / "new"
            new.mkdir()
            Texts.write(new, "sentences", sentences)
            for number, values in enumerate(columns.values()):
                Texts.write(new, f"column-{number}", [str(value) for value in values])
            if "bm25" in miner.names:
                Bm25(sentences).save(new / "bm25")
            if "dense" in miner.names:
                _write_vectors(new, miner, sentences)
            facts = {
                "format": FORMAT,
                "version": __version__,
                "count": len(sentences),
                "retrievers": list(miner.names),
                "vectors": miner.kind,
                "columns": list(columns),
                "source": None if source is None else _describe(Path(source)),
            }
            (new / "index.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            if folder.exists():
                os.replace(folder, temporary / "old")
            os.replace(new, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _write_vectors(folder: Path, miner: Miner, sentences: Sequence[str]) -> None:
    """The vectors, those of one list together, and the centroids of the lists."""
    embed = make_vectors(miner.kind, miner.member, sentences)
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
    """index.json, checked."""
    path = folder / "index.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no index (it holds no index.json): give the folder that "
            "`keras-sentmatch index` wrote."
        )
    facts = read_object(path, AGAIN)
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {facts.get('format')!r:.20} (written by keras_sentmatch "
            f"{facts.get('version')!r:.20}), but keras_sentmatch {__version__} reads format {FORMAT}: "
            f"{AGAIN}."
        )
    if missing := [name for name in _KINDS if name not in facts]:
        raise InputError(f"{path} lacks {', '.join(missing)}: {AGAIN}.")
    check_types(facts, _KINDS, path)
    return facts


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"path": str(path.resolve()), "size": size, "sha256": file_digest(path)}
