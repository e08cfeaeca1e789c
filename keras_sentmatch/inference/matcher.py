"""Matcher: a trained model with its encoder and label names; sentences in, named answers out."""

import hashlib
import importlib.resources
import io
import os
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import Task
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference._encodings import EncodedCorpus
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.learned import FILE, LearnedPairs
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.inference.run_folder import (
    FORMAT,
    SIMILARITY,
    calibration_of,
    check_fit,
    check_place,
    is_packaged,
    load_model,
    load_run_encoder,
    read_card,
    write_json,
)
from keras_sentmatch.inference.unseen_words import BLOCK, UnseenWords, spare_rows, write_rows
from keras_sentmatch.safety import cache_folder, working_folder
from keras_sentmatch.vectors.built_in import WordTable, load_word_table
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    import keras

    from keras_sentmatch.inference.compiled import CompiledModel

_SIMILARITY_FILE = "similarity_matcher.npz"
_SIMILARITY_LENGTH = 64  # words of a sentence


class OneModelMatcher(BaseMatcher):
    """A matcher with one model: encodes pairs and scores them in batches."""

    encoder: Encoder
    info: dict[str, Any]
    unseen_words: UnseenWords | None = None
    threads = 1  # batches scored at the same time

    @abstractmethod
    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """Yield the row numbers of each batch, and the number of rows and length to pad it to."""

    @abstractmethod
    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        """Return the outputs `[rows, outputs]` of the model for encoded pairs."""

    def lending(self, *columns: Sequence[str]) -> AbstractContextManager[Iterator[slice]]:
        """Yield slices that together cover columns of sentences, to be encoded one by one.

        The unseen words of a slice have word vectors until the next slice is taken.
        """
        if self.unseen_words is None:
            return nullcontext(iter([slice(None)]))
        return self.unseen_words.lending(*columns)

    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        check_count("batch_size", batch_size)
        first, second = pairs.sentence1, pairs.sentence2
        tags = pairs.tags if "pos" in self.encoder.features else None
        scores = np.zeros((len(pairs), len(self.label_names or ("score",))), "float32")
        with self.lending(first, second) as parts:
            for part in parts:
                some = None if tags is None else (tags[0][part], tags[1][part])
                encoded = self.encoder.encode_pairs(first[part], second[part], tags=some)
                scores[part] = self._score(encoded, batch_size)
        self._check(scores)
        return scores[:, 0] if self.label_names is None else scores

    def _score(self, encoded: Any, batch_size: int) -> Array:
        scores = np.zeros((len(encoded), len(self.label_names or ("score",))), "float32")

        def score(batch: tuple[Array, int, int]) -> None:
            rows, size, length = batch
            filled = np.pad(rows, (0, size - len(rows)), mode="edge")  # copies of the last row
            scores[rows] = self.score_arrays(encoded.arrays(filled, length))[: len(rows)]

        batches = list(self.batches(encoded.lengths.max(axis=1), batch_size))
        if self.threads == 1 or len(batches) == 1:
            list(map(score, batches))
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(score, batches))
        return scores

    def _check(self, scores: Array) -> None:
        """Refuse scores that are no numbers, or no probabilities."""
        good = np.isfinite(scores).all(1)
        if self.label_names is not None:
            good &= (scores >= 0).all(1) & (np.abs(scores.sum(1) - 1) < 0.01)
        if not good.all():
            row = int(np.argmin(good))
            what = "finite numbers" if self.label_names is None else "probabilities that sum to 1"
            raise InputError(
                f"{self!r} returned {scores[row].tolist()!s:.80} for pair {row} of {len(scores)}. "
                f"Expected {what}: the weights are damaged, or the training diverged. Copy the run "
                "folder again, or train again with a lower learning rate."
            )


class Matcher(OneModelMatcher):
    """Scores pairs of raw sentences with a trained model.

    Pairs are sorted by length, padded to a few fixed shapes (so that JAX and XLA compile only a few
    programs) and answered in the order given. Padding never changes an answer.

    Args:
        model: Keras model. Its inputs are arrays that `encoder` makes; its output is class
            probabilities `[batch, classes]` or a score `[batch, 1]`.
        encoder: The `PairEncoder` or `SubwordPairEncoder` that the model was trained with.
        label_names: Names of the classes in index order; `None` for a scoring model.
        task: `"classification"`, `"ranking"` or `"regression"`.
        threshold: For two classes, the probability above which the second one is the answer.
            Defaults to `None`: the more probable class is the answer.
        temperature: Temperature of the probabilities (see `apply_temperature`), which `calibrate`
            finds. Defaults to `1.0`, which leaves them unchanged.
        abstain_below: For each class, the probability below which the matcher abstains: the label
            is then `None`. `calibrate` finds these. Defaults to `None`: every pair is answered.
        info: Facts to save with the matcher (data, seed, …): anything that JSON can hold.
        word_table: The built-in table, if the word vectors come from it. Words outside the
            vocabulary then get the vectors that the table makes of their spelling or pieces.
        learned: The pairs that the model learned from, if they are known.

    Raises:
        InputError: Label names, threshold, temperature or encoder do not fit the model.

    Example:

    ```python
    from keras_sentmatch import Matcher

    matcher = Matcher.load("runs/drcn-embedded")
    answer = matcher.predict(sentence1="A dog runs.", sentence2="An animal moves.")
    answer["label"], answer["probabilities"]["entailment"]
    ```
    """

    encoder: PairEncoder | SubwordPairEncoder

    def __init__(
        self,
        model: "keras.Model",
        encoder: PairEncoder | SubwordPairEncoder,
        label_names: Sequence[str] | None,
        *,
        task: str,
        threshold: float | None = None,
        temperature: float = 1.0,
        abstain_below: Sequence[float] | None = None,
        info: Mapping[str, Any] | None = None,
        word_table: WordTable | None = None,
        learned: LearnedPairs | None = None,
    ):
        outputs = model.output_shape[-1]
        names = None if outputs == 1 else tuple(map(str, label_names or ()))
        if names is not None and len(names) != outputs:
            came = f"{len(names)} ({', '.join(names)})" if names else "none"
            raise InputError(
                f"The model has {outputs} classes, but the label names are {came}. Pass one name "
                "per class, in index order."
            )
        if names and len(set(names)) < len(names):
            raise InputError(
                f"The label names are {', '.join(names)}. Give each class a different name."
            )
        if task not in get_args(Task):
            raise InputError(
                f"task={task!r} is not a task. Expected one of "
                f"{', '.join(map(repr, get_args(Task)))}."
            )
        super().__init__(names, task, temperature, threshold, abstain_below)
        made = encoder.input_names
        if missing := sorted(set(model.input) - set(made)):
            raise InputError(
                f"The model needs {', '.join(missing)}, but this encoder makes {', '.join(made)}. "
                "Use the encoder that the model was trained with."
            )
        self.model = model
        self.encoder = encoder
        self.info = dict(info or {})
        self.word_table = word_table
        self.learned = learned
        if word_table is not None and (rows := spare_rows(model, encoder)):
            write = partial(write_rows, model)
            self.unseen_words = UnseenWords(word_table, encoder, rows, write)  # type: ignore[arg-type]
        self._explainer: keras.Model | None = None
        self._compiled: CompiledModel | None = None

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<Matcher {self.model.name}: {self.task}, {answers:.200}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the files of the run folder."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            files = {
                str(path.relative_to(folder)): path.read_bytes()
                for path in Path(folder).rglob("*")
                if path.is_file()
            }
        return _from_files, (files,)

    def explainer(self) -> "keras.Model | None":
        """Return the model's explainer, or `None` if the model has nothing to show."""
        if self._explainer is None and hasattr(self.model, "explainer"):
            try:
                self._explainer = self.model.explainer()
            except NotImplementedError:
                return None
            self._explainer.jit_compile = self.model.jit_compile
        return self._explainer

    def encode(self, sentences: Sequence[str], *, batch_size: int = 64) -> EncodedCorpus:
        """Encode candidates (second sentences) once, for any number of `rank` calls.

        Args:
            sentences: The candidates.
            batch_size: Maximum number of sentences per batch. Defaults to `64`.

        Raises:
            InputError: The model does not read each sentence alone: its `can_split` is false.

        Example:

        ```python
        corpus = matcher.encode(["It rains.", "A dog runs."])
        matcher.rank("An animal moves.", corpus, top_k=1, label="entailment")
        ```
        """
        if isinstance(sentences, str):
            raise InputError("The sentences are one string. Expected a list of strings.")
        check_count("batch_size", batch_size)
        return EncodedCorpus(self, sentences, batch_size)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write model.keras, encoder/ and matcher.json into `folder`; keep other files there.

        Everything is first written next to the folder and then moved into it, `matcher.json` last:
        a folder with this file is complete. The state of the optimizer is not saved.
        """
        folder = Path(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file. Expected the name of a folder to write to.")
        check_place(folder)
        plain = type(self.model).from_config(self.model.get_config())
        plain.set_weights(self.model.get_weights())
        with working_folder(folder.parent, folder.name) as temporary:
            plain.save(temporary / "model.keras")
            self.encoder.save(temporary / "encoder")
            if self.word_table is not None:
                self.word_table.save(temporary / "encoder")
            if self.learned is not None:
                self.learned.save(temporary)
            write_json(temporary / "matcher.json", self._card())
            folder.mkdir(exist_ok=True)
            (folder / "matcher.json").unlink(missing_ok=True)
            os.replace(temporary / "model.keras", folder / "model.keras")
            (folder / FILE).unlink(missing_ok=True)
            if self.learned is not None:
                os.replace(temporary / FILE, folder / FILE)
            if (folder / "encoder").exists():
                os.replace(folder / "encoder", temporary / "old")
            os.replace(temporary / "encoder", folder / "encoder")
            os.replace(temporary / "matcher.json", folder / "matcher.json")

    @classmethod
    def similarity(cls) -> "Matcher":
        """Return the built-in matcher: how similar two English sentences are, without training.

        It is RE2 with 75 units on the built-in word vectors. It was taught the cosines that
        all-MiniLM-L6-v2 gives to pairs of sentences of SNLI, MultiNLI, PAWS, QNLI and BoolQ, without
        their labels. Scores are about 0 for unrelated sentences, and 1 for the same meaning.
        `training.init = "similarity"` starts training from its weights.

        Example:

        ```python
        from keras_sentmatch import Matcher

        matcher = Matcher.similarity()
        close = matcher.predict(sentence1="A dog runs.", sentence2="A puppy is running.")
        far = matcher.predict(sentence1="A dog runs.", sentence2="The price of oil rose.")
        close["score"] > far["score"]  # True
        ```
        """
        from keras_sentmatch.applications import RE2

        content = _similarity_content()
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            weights = {name: arrays[name].astype(np.float32) for name in arrays.files}
        table = load_word_table()
        encoder = PairEncoder(table.words, (), features=("word",), max_length=_SIMILARITY_LENGTH)
        model = RE2(
            vocabulary_size=encoder.vocabulary_size + BLOCK,
            num_classes=1,
            embedding_dim=table.dim,
            units=len(weights["hidden/bias"]),
            name=SIMILARITY,
        )
        model.set_word_vectors(np.pad(table.matrix(), [(2, BLOCK), (0, 0)]))
        for variable in model.weights:
            if variable.path in weights:
                variable.assign(weights[variable.path])
        info = {"taught_by": "all-MiniLM-L6-v2", "weights": _digest(content)}
        return cls(model, encoder, None, task="regression", info=info, word_table=table)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Matcher":
        """Load a matcher that `save` wrote, on any backend, in Keras's safe mode.

        Args:
            folder: A run folder. `"similarity"` names the built-in matcher (see `similarity`)
                unless there is a folder of this name. It is kept as a run folder in
                `$XDG_CACHE_HOME/keras_sentmatch` or `~/.cache/keras_sentmatch`.

        Raises:
            InputError: Not a run folder, a missing or damaged file, or another format.

        Example:

        ```python
        from keras_sentmatch import Matcher

        Matcher.load("runs/drcn-embedded").label_names
        # ("entailment", "neutral", "contradiction")
        ```
        """
        folder = run_folder(Path(folder))
        card = read_card(folder)
        encoder = load_run_encoder(folder / "encoder")
        if encoder.vocabulary_size != card["vocabulary_size"]:
            raise InputError(
                f"{folder} mixes files of two runs: matcher.json says {card['vocabulary_size']} "
                f"words, encoder/ has {encoder.vocabulary_size}. Copy the whole run folder again."
            )
        model = load_model(folder / "model.keras", card)
        check_fit(model, encoder, folder)
        return cls(
            model,
            encoder,
            card["label_names"],
            task=card["task"],
            threshold=card["threshold"],
            temperature=card["temperature"],
            abstain_below=card.get("abstain_below"),
            info=card["info"],
            word_table=WordTable.load(folder / "encoder"),
            learned=LearnedPairs.read(folder, model.output_shape[-1]),
        )

    def _card(self) -> dict[str, Any]:
        import keras

        return {
            "format": FORMAT,
            "label_names": None if self.label_names is None else list(self.label_names),
            "task": self.task,
            **calibration_of(vars(self)),
            "vocabulary_size": self.encoder.vocabulary_size,
            "versions": {
                "keras_sentmatch": __version__,
                "keras": keras.__version__,
                "backend": keras.config.backend(),
            },
            "seed": self.info.get("seed"),
            "info": self.info,
        }

    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        return prediction_batches(lengths, batch_size, self.encoder.max_length)

    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        if self._compiled is None:
            from keras_sentmatch.inference.compiled import CompiledModel

            self._compiled = CompiledModel(self.model)
        return self._compiled(arrays)


def run_folder(folder: Path) -> Path:
    """Return `folder`, or the run folder of the built-in matcher if `folder` names it."""
    if not is_packaged(folder):
        return folder
    version = f"{__version__} {load_word_table().digest}".encode()
    kept = cache_folder() / f"{SIMILARITY}-{_digest(_similarity_content() + version)}"
    if not (kept / "matcher.json").is_file():
        Matcher.similarity().save(kept)
    return kept


def _from_files(files: dict[str, bytes]) -> Matcher:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return Matcher.load(folder)


def _similarity_content() -> bytes:
    folder = importlib.resources.files("keras_sentmatch.vectors") / "tables"
    return (folder / _SIMILARITY_FILE).read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
