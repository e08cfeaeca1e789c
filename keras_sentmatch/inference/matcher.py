"""Matcher: a trained model with its encoder and label names; sentences in, named answers out."""

import hashlib
import importlib.resources
import io
import logging
import os
import tempfile
from collections import Counter
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
from keras_sentmatch.encoders.batches import prediction_batches, prediction_lengths
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference._encodings import EncodedCorpus
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.learned import FILE, LearnedPairs
from keras_sentmatch.inference.onnx import FOLDER as ONNX
from keras_sentmatch.inference.onnx import OnnxModel, check_engine, may_use
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.inference.run_folder import (
    CALIBRATION,
    FORMAT,
    SIMILARITY,
    calibration_of,
    check_fit,
    check_keras,
    check_place,
    is_packaged,
    load_model,
    load_run_encoder,
    read_card,
    write_json,
)
from keras_sentmatch.inference.unseen_words import (
    BLOCK,
    UnseenWords,
    WriteRows,
    spare_rows,
    write_rows,
)
from keras_sentmatch.safety import cache_folder, working_folder
from keras_sentmatch.text.tags import english_antonyms
from keras_sentmatch.vectors.built_in import WordTable, english_share, load_word_table
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    import keras

    from keras_sentmatch.inference.compiled import CompiledModel

_SIMILARITY_FILE = "similarity_matcher.npz"
_SIMILARITY_LENGTH = 64  # words of a sentence
_THREADS = os.cpu_count() or 1  # batches that onnxruntime scores at the same time
_TOKENS = 1024  # words of one side in such a batch: more take longer in proportion
_LARGE = 32  # pairs from which threads pay
_SAMPLE, _ENOUGH, _ENGLISH = 200, 12, 0.65  # sentences, words and least share of English words
log = logging.getLogger(__name__)


class Matcher(BaseMatcher):
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

    encoder: Encoder
    info: dict[str, Any]
    word_table: WordTable | None = None
    unseen_words: UnseenWords | None = None
    _language_said = False

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
        self._prepare(
            model.output_shape[-1],
            encoder,
            label_names,
            task,
            threshold,
            temperature,
            abstain_below,
        )
        self.info = dict(info or {})
        self.word_table = word_table
        self.learned = learned
        self._use_keras(model)

    def _prepare(
        self,
        outputs: int,
        encoder: Encoder,
        label_names: Sequence[str] | None,
        task: str,
        threshold: float | None,
        temperature: float,
        abstain_below: Sequence[float] | None,
    ) -> None:
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
        self.encoder = encoder
        self._explainer: keras.Model | None = None
        self._compiled: CompiledModel | None = None
        self._model: keras.Model | None = None
        self._onnx: OnnxModel | None = None
        self._folder: Path | None = None  # which has the Keras model, as long as it is not loaded

    @property
    def engine(self) -> str:
        """What runs the model: `"onnx"` or `"keras"`."""
        return "keras" if self._onnx is None else "onnx"

    @property
    def model(self) -> "keras.Model":
        """The Keras model. From the first use on it makes the predictions, as it may be changed."""
        if self._model is None:
            assert self._folder is not None
            self._load_keras(self._folder)
        assert self._model is not None
        if self._onnx is not None:  # it has just been trained
            self._use_keras(self._model)
        return self._model

    def use_onnx(self, model: OnnxModel) -> None:
        """Let an ONNX model predict until the Keras model is used."""
        self._check_inputs(model.inputs)
        model.check_rows(self.encoder.vocabulary_size)
        self._onnx = model
        self._lend(model.spare_rows, model.write_rows)

    def _use_keras(self, model: "keras.Model") -> None:
        self._check_inputs(list(model.input))
        self._model, self._onnx = model, None
        self._lend(spare_rows(model, self.encoder), partial(write_rows, model))

    def _check_inputs(self, names: Sequence[str]) -> None:
        made = self.encoder.input_names
        if missing := sorted(set(names) - set(made)):
            raise InputError(
                f"The model needs {', '.join(missing)}, but this encoder makes {', '.join(made)}. "
                "Use the encoder that the model was trained with."
            )

    def _lend(self, rows: int, write: WriteRows) -> None:
        """Let unseen words take the spare rows of the model."""
        if self.unseen_words is not None:
            self.unseen_words.forget()
        if self.word_table is not None and rows and isinstance(self.encoder, PairEncoder):
            self.unseen_words = UnseenWords(self.word_table, self.encoder, rows, write)

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        name = self._folder.name if self._model is None and self._folder else self.model.name
        return f"<Matcher {name}: {self.task}, {answers:.200}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the files of the run folder, and the calibration as it is now."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if self._onnx is None or self._folder is None:
                self.save(folder)
                own = folder
            else:
                own = self._folder
            found = [own / "model.keras", own / "matcher.json", own / FILE]
            found += [*(own / "encoder").rglob("*"), *(own / ONNX).rglob("*")]
            files = {p.relative_to(own).as_posix(): p.read_bytes() for p in found if p.is_file()}
        return _from_files, (files, self.engine, {n: vars(self)[n] for n in CALIBRATION})

    def uncalibrated(self) -> "Matcher":
        """Return a matcher of the same model and compiled programs, with an encoder of its own.

        It is not calibrated, so its predictions are the outputs of the model.
        """
        encoder = type(self.encoder)(**self.encoder.get_config())
        options: Any = {"task": self.task, "word_table": self.word_table}
        other = Matcher(self.model, encoder, self.label_names, **options)
        other._compiled = self._compiled
        return other

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

        It is RE2 with 75 units on the built-in word vectors, with flags for words that the other
        sentence has, or whose antonym it has. It was taught the cosines that all-MiniLM-L6-v2 gives
        to pairs of sentences of SNLI, MultiNLI, PAWS, QNLI and BoolQ, without their labels, and that
        a negation, an antonym, another number or a swapped role lowers the score. It sees nearly all
        negations and numbers, and four in five antonyms and swapped roles. Scores are from 0 for
        unrelated sentences to 1 for the same meaning. The order of the two sentences changes nothing.
        Equal sentences score 1, and an empty one scores 0 next to any other.
        `training.init = "similarity"` starts training from its weights.

        Example:

        ```python
        from keras_sentmatch import Matcher

        matcher = Matcher.similarity()
        close = matcher.predict(sentence1="A dog runs.", sentence2="A puppy is running.")
        far = matcher.predict(sentence1="A dog runs.", sentence2="A dog does not run.")
        close["score"] > far["score"]  # True
        ```
        """
        check_keras("The built-in matcher")
        from keras_sentmatch.applications import RE2

        content = _similarity_content()
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            weights = {name: arrays[name].astype(np.float32) for name in arrays.files}
        table = load_word_table()
        encoder = PairEncoder(
            table.words,
            (),
            features=("word", "antonym"),
            antonyms=english_antonyms(),
            max_length=_SIMILARITY_LENGTH,
        )
        model = RE2(
            vocabulary_size=encoder.vocabulary_size + BLOCK,
            num_classes=1,
            embedding_dim=table.dim,
            units=len(weights["hidden/bias"]),
            prediction="exchangeable",
            exact_match=True,
            antonym=True,
            name=SIMILARITY,
        )
        model.set_word_vectors(np.pad(table.matrix(), [(2, BLOCK), (0, 0)]))
        for variable in model.weights:
            if variable.path in weights:
                variable.assign(weights[variable.path])
        info = {"taught_by": "all-MiniLM-L6-v2", "weights": _digest(content)}
        return cls(model, encoder, None, task="regression", info=info, word_table=table)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], engine: str | None = None) -> "Matcher":
        """Load a matcher that `save` wrote, on any backend, in Keras's safe mode.

        Args:
            folder: A run folder. `"similarity"` names the built-in matcher (see `similarity`)
                unless there is a folder of this name. It is kept as a run folder in
                `$XDG_CACHE_HOME/keras_sentmatch` or `~/.cache/keras_sentmatch`.
            engine: What runs the model: `"keras"`, or `"onnx"` for onnxruntime, the fastest on a
                CPU, which uses the ONNX model in the run folder and imports neither Keras nor a
                backend. Defaults to `None`: onnxruntime on a CPU if that model belongs to the
                present weights, otherwise Keras.

        Raises:
            InputError: Not a run folder, a missing or damaged file, or another format; or
                `engine="onnx"` without onnxruntime or without an ONNX model of the present weights.

        Example:

        ```python
        from keras_sentmatch import Matcher

        Matcher.load("runs/drcn-embedded").label_names
        # ("entailment", "neutral", "contradiction")
        ```
        """
        check_engine(engine)
        folder = run_folder(Path(folder))
        card = read_card(folder)
        encoder = load_run_encoder(folder / "encoder")
        if encoder.vocabulary_size != card["vocabulary_size"]:
            raise InputError(
                f"{folder} mixes files of two runs: matcher.json says {card['vocabulary_size']} "
                f"words, encoder/ has {encoder.vocabulary_size}. Copy the whole run folder again."
            )
        onnx = OnnxModel.load(folder) if may_use(folder, engine) else None
        model: Any = None if onnx else load_model(folder / "model.keras", card)
        matcher = cls.__new__(cls)
        limits: Any = {name: card.get(name) for name in CALIBRATION}
        outputs = onnx.outputs if onnx else model.output_shape[-1]
        matcher._prepare(outputs, encoder, card["label_names"], card["task"], **limits)
        matcher.info, matcher._folder = card["info"], folder
        matcher.word_table = WordTable.load(folder / "encoder")
        matcher.learned = LearnedPairs.read(folder, outputs)
        if onnx:
            matcher.use_onnx(onnx)
        else:
            check_fit(model, encoder, folder)
            matcher._use_keras(model)
        return matcher

    def _load_keras(self, folder: Path) -> None:
        model = load_model(folder / "model.keras", read_card(folder))
        check_fit(model, self.encoder, folder)
        self._use_keras(model)

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

    def _batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """Yield the row numbers of each batch, and the number of rows and length to pad it to."""
        if self._onnx is None:
            yield from prediction_batches(lengths, batch_size, self.encoder.max_length)
            return
        order = np.argsort(lengths, kind="stable")  # nothing is compiled for a shape
        while len(order):
            length = max(int(lengths[order[0]]), self.encoder.shortest)
            similar = int(np.searchsorted(lengths[order], length + 2 + length // 8, side="right"))
            rows = order[: max(1, min(similar, batch_size, _TOKENS // length))]
            yield rows, len(rows), max(int(lengths[rows[-1]]), self.encoder.shortest)
            order = order[len(rows) :]

    def warm_up(self, batch_size: int) -> None:
        """Let Keras compile all shapes of predictions now; onnxruntime compiles none."""
        if self._onnx is not None:
            return
        compiled, limit = self._programs(), self.encoder.max_length
        compiled.patient = False
        for length in prediction_lengths(limit, limit):
            for rows in sorted({1, 8, batch_size}):
                texts = ["a"] * rows
                compiled(self.encoder.encode(texts, texts, length=length))
        compiled.patient = True

    def _programs(self) -> "CompiledModel":
        if self._compiled is None:
            from keras_sentmatch.inference.compiled import CompiledModel

            self._compiled = CompiledModel(self.model)
        return self._compiled

    def _outputs(self, arrays: Mapping[str, Array]) -> Array:
        """Return the outputs `[rows, outputs]` of the model for encoded pairs."""
        if self._onnx is not None:
            return self._onnx(arrays)
        return self._programs()(arrays)

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
        if "taught_by" in self.info and not self._language_said:
            self._say_language([*first[:_SAMPLE], *second[:_SAMPLE]])
        tags = pairs.tags if "pos" in self.encoder.features else None
        scores = np.zeros((len(pairs), len(self.label_names or ("score",))), "float32")
        with self.lending(first, second) as parts:
            for part in parts:
                some = None if tags is None else (tags[0][part], tags[1][part])
                encoded = self.encoder.encode_pairs(first[part], second[part], tags=some)
                scores[part] = self._score(encoded, batch_size)
        self._check(scores)
        return scores[:, 0] if self.label_names is None else scores

    def _say_language(self, texts: Sequence[str]) -> None:
        """Warn once of text whose words the built-in table mostly lacks."""
        words = Counter(word for text in texts for word in self.encoder.tokens(text))
        if words.total() >= _ENOUGH and (share := english_share(words)) < _ENGLISH:
            self._language_said = True
            log.warning(
                f"The built-in matcher reads English, but only {share:.0%} of these words are English. "
                "Nothing was measured on other languages: train on pairs of your own."
            )

    def _score(self, encoded: Any, batch_size: int) -> Array:
        scores = np.zeros((len(encoded), len(self.label_names or ("score",))), "float32")

        def score(batch: tuple[Array, int, int]) -> None:
            rows, size, length = batch
            if size > len(rows):  # copies of the last row
                filled = np.pad(rows, (0, size - len(rows)), mode="edge")
            else:
                filled = rows
            scores[rows] = self._outputs(encoded.arrays(filled, length))[: len(rows)]

        batches = list(self._batches(encoded.lengths.max(axis=1), batch_size))
        if self._onnx is None or len(encoded) < _LARGE:
            list(map(score, batches))
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(score, batches[::-1]))  # the longest first
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


def run_folder(folder: Path) -> Path:
    """Return `folder`, or the run folder of the built-in matcher if `folder` names it."""
    if not is_packaged(folder):
        return folder
    version = f"{__version__} {load_word_table().digest}".encode()
    kept = cache_folder() / f"{SIMILARITY}-{_digest(_similarity_content() + version)}"
    if not (kept / "matcher.json").is_file():
        Matcher.similarity().save(kept)
    return kept


def _from_files(files: dict[str, bytes], engine: str, calibration: dict[str, Any]) -> Matcher:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        matcher = Matcher.load(folder, engine)
        vars(matcher).update(calibration)
        return matcher


def _similarity_content() -> bytes:
    folder = importlib.resources.files("keras_sentmatch.vectors") / "tables"
    return (folder / _SIMILARITY_FILE).read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
