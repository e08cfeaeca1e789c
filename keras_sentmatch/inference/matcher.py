"""Matcher: a trained model, its encoder and its label names; sentences in, named answers out."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.data.dataset import Task
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.base import Array
from keras_sentmatch.inference.corpus import Corpus, encode_blocks, score_blocks
from keras_sentmatch.inference.new_words import NewWords, put_vectors, with_rows, word_tables
from keras_sentmatch.inference.one_model import OneModelMatcher
from keras_sentmatch.inference.pairs import as_columns, batches, check_count
from keras_sentmatch.inference.run_folder import (
    FORMAT,
    calibration_of,
    check_fit,
    is_packaged,
    load_model,
    load_run_encoder,
    read_card,
)
from keras_sentmatch.inference.similarity import similarity_folder, similarity_parts
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.vectors.extraction import VectorExtractor, WordEncoder
from keras_sentmatch.vectors.word_vectors import WordSource

if TYPE_CHECKING:
    import keras

    from keras_sentmatch.exports.engine import OnnxMatcher
    from keras_sentmatch.inference.compiled import CompiledModel

ENGINES = ("keras", "onnx")


class Matcher(OneModelMatcher):
    """Scores pairs of raw sentences with a trained model.

    Pairs are sorted by length inside, padded to few fixed shapes (so that JAX and XLA compile a
    handful of programs) and answered in the order given. Padding never changes an answer.

    Args:
        model: Keras model whose inputs are arrays that `encoder` makes and whose output is class
            probabilities `[batch, classes]` or a score `[batch, 1]`.
        encoder: `PairEncoder` or `SubwordPairEncoder` that the model was trained with.
        label_names: Names of the classes in index order; `None` for a scoring model.
        task: `"classification"`, `"ranking"` or `"regression"`.
        threshold: For two classes, the probability of the second above which it is answered.
            `None` answers the more probable one.
        temperature: What the model's probabilities are softened by (`apply_temperature`), in every
            answer; 1 leaves them. `calibrate` finds it.
        abstain_below: For each class, the probability below which it is not answered: the label is
            `None` then. `None` answers every pair. `calibrate` finds them.
        info: Facts to keep with the matcher (data, seed, …): anything JSON can hold.
        vector_extractor: What made the word vectors: for `learn_words`. With the package's table new
            words are learned when they are met.

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
        vector_extractor: WordSource | None = None,
    ):
        outputs = model.output_shape[-1]
        names = None if label_names is None else tuple(str(name) for name in label_names)
        if outputs == 1:
            names = None
        elif names is None or len(names) != outputs:
            came = "none" if names is None else f"{len(names)} ({', '.join(names)})"
            raise InputError(
                f"The model answers {outputs} classes, but the label names are {came}: "
                "pass one name a class, in index order."
            )
        elif len(set(names)) < len(names):
            raise InputError(f"The label names are {', '.join(names)}: give each class its own.")
        if task not in get_args(Task):
            raise InputError(
                f"task={task!r}: expected one of {', '.join(map(repr, get_args(Task)))}."
            )
        super().__init__(names, task, temperature, threshold, abstain_below)
        made = encoder.input_names
        if missing := sorted(set(model.input) - set(made)):
            raise InputError(
                f"The model wants {', '.join(missing)}, but this encoder makes {', '.join(made)}: "
                "use the encoder that the model was trained with."
            )
        self.model = model
        self.encoder = encoder
        self.info = dict(info or {})
        self.vector_extractor = vector_extractor
        learns = isinstance(vector_extractor, WordTable) and word_tables(model)
        self.new_words = NewWords(self) if learns else None
        self._halves: tuple[keras.Model, keras.Model, keras.Model] | None = None
        self._explainer: keras.Model | None = None
        self._compiled: CompiledModel | None = None

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<Matcher {self.model.name}: {self.task}, {answers}>"

    def explainer(self) -> "keras.Model | None":
        """The model's own explainer, made once; `None` if the model has nothing to show."""
        if self._explainer is None and hasattr(self.model, "explainer"):
            try:
                self._explainer = self.model.explainer()
            except NotImplementedError:
                return None
            self._explainer.jit_compile = self.model.jit_compile
        return self._explainer

    @property
    def can_cache_encodings(self) -> bool:
        """Whether `encode` works: the model encodes a sentence without the other one."""
        alone = bool(getattr(self.model, "can_split", False))
        return alone and "antonym" not in self.encoder.features

    def encode(self, sentences: Sequence[str], *, batch_size: int = 64) -> Corpus:
        """Encodes candidates (second sentences) once, for any number of `rank` calls.

        Works where `can_cache_encodings`: most models; not those that look at both sentences from
        the start.

        Raises:
            InputError: The model looks at both sentences from the start (`can_cache_encodings`).
        """
        check_count("batch_size", batch_size)
        if not isinstance(sentences, str):
            sentences = list(sentences)
            self.learn_from(sentences)
        _, second, _ = self._split()
        return Corpus(
            sentences, encode_blocks(second, self.encoder, sentences, batch_size), owner=self
        )

    def rank_scores(
        self,
        query: str,
        candidates: Sequence[str] | Corpus,
        *,
        label: str | None = None,
        batch_size: int = 64,
    ) -> Array:
        """The scores that `rank` orders by, `[candidates]`, in the order of the candidates."""
        if not isinstance(candidates, Corpus):
            return super().rank_scores(query, candidates, label=label, batch_size=batch_size)
        as_columns(query, ())
        column = self.score_column(label)
        if candidates.owner is not self:
            raise InputError("This corpus was encoded by another matcher: encode it with this one.")
        self.learn_from([query])
        encode, _, interaction = self._split()
        ((_, encoded),) = encode_blocks(encode, self.encoder, [query], 1)
        scores = self._tempered(score_blocks(interaction, encoded, candidates))
        return np.asarray(scores[:, column or 0])

    def _split(self) -> "tuple[keras.Model, keras.Model, keras.Model]":
        if self._halves is None:
            if not hasattr(self.model, "split"):
                raise InputError(f"A {type(self.model).__name__} can't encode a sentence alone.")
            self._halves = self.model.split()
            for half in self._halves:
                half.jit_compile = self.model.jit_compile
        return self._halves

    def replace_model(self, model: "keras.Model") -> None:
        """Answers with another model from now on, such as a copy with more words."""
        if model is not self.model:
            self.model, self._compiled = model, None
            self._halves, self._explainer = None, None

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes model.keras, encoder/ and matcher.json into `folder`; other files there stay.

        Everything is written beside the folder first and moved in when it is whole, `matcher.json`
        last: a folder that has it is complete. No optimizer state is saved.
        """
        folder = Path(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; give the name of a folder.")
        plain = type(self.model).from_config(self.model.get_config())
        plain.set_weights(self.model.get_weights())
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            plain.save(temporary / "model.keras")
            self.encoder.save(temporary / "encoder")
            if self.vector_extractor is not None:
                self.vector_extractor.save(temporary / "encoder")
            text = json.dumps(self._card(), indent=2, ensure_ascii=False)
            (temporary / "matcher.json").write_text(text + "\n", encoding="utf-8")
            folder.mkdir(exist_ok=True)
            (folder / "matcher.json").unlink(missing_ok=True)
            os.replace(temporary / "model.keras", folder / "model.keras")
            shutil.rmtree(folder / "encoder", ignore_errors=True)
            os.replace(temporary / "encoder", folder / "encoder")
            os.replace(temporary / "matcher.json", folder / "matcher.json")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @classmethod
    def similarity(cls) -> "Matcher":
        """The matcher in the package: how similar two English sentences are, without any training.

        It is RE2 with 75 units on the package's word vectors. It was taught the cosines that
        all-MiniLM-L6-v2 gives to pairs of sentences of SNLI, MultiNLI, PAWS, QNLI and BoolQ; their
        labels were not read. Scores are about 0 for sentences that have nothing to do with each
        other, and 1 for the same meaning. `training.init = "similarity"` begins with its weights.

        Example:

        ```python
        from keras_sentmatch import Matcher

        matcher = Matcher.similarity()
        close = matcher.predict(sentence1="A dog runs.", sentence2="A puppy is running.")
        far = matcher.predict(sentence1="A dog runs.", sentence2="The price of oil rose.")
        close["score"] > far["score"]  # True
        ```
        """
        return cls(**similarity_parts())

    @overload
    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        engine: Literal["keras"] = "keras",
        word_encoder: str | Path | WordEncoder | None = None,
    ) -> "Matcher": ...

    @overload
    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        engine: str,
        word_encoder: str | Path | WordEncoder | None = None,
    ) -> "Matcher | OnnxMatcher": ...

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        engine: str = "keras",
        word_encoder: str | Path | WordEncoder | None = None,
    ) -> "Matcher | OnnxMatcher":
        """Loads what `save` wrote, on any backend, in Keras's safe mode.

        Args:
            folder: A run folder; or `"similarity"`, where there is no such folder: the package's own
                matcher (see `similarity`) as a run folder in `$XDG_CACHE_HOME/keras_sentmatch` or
                `~/.cache/keras_sentmatch`.
            engine: What runs the model: `"keras"`, or `"onnx"` for onnxruntime, the fastest on a
                CPU, which imports no backend. It answers as Keras does, to 1e-5, from the folder
                `onnx` in the run folder. The first call makes that folder (this needs
                TensorFlow), and makes it again when the run has other weights.
            word_encoder: The encoder that the word vectors were extracted from (a folder or a
                KerasHub preset). With it no word stays unknown: those that training never met get
                their vectors when they are met, as by `learn_words`.

        Raises:
            InputError: Not a run folder, a missing or damaged file, or another format; a
                `word_encoder` for vectors that were not extracted; `engine="onnx"` without
                onnxruntime, or for a model that ONNX cannot express.

        Example:

        ```python
        from keras_sentmatch import Matcher

        Matcher.load("runs/drcn-embedded").label_names
        # ("entailment", "neutral", "contradiction")
        ```
        """
        if engine not in ENGINES:
            raise InputError(
                f"{argument('engine', engine)}: expected one of {', '.join(map(repr, ENGINES))}."
            )
        folder = run_folder(Path(folder))
        if engine == "onnx":
            from keras_sentmatch.exports.engine import load_onnx

            return load_onnx(folder, word_encoder)
        card = read_card(folder)
        encoder = load_run_encoder(folder / "encoder")
        if encoder.vocabulary_size != card["vocabulary_size"]:
            raise InputError(
                f"{folder}: matcher.json says {card['vocabulary_size']} words, encoder/ has "
                f"{encoder.vocabulary_size}: files of two runs are mixed; copy the whole folder "
                "again."
            )
        model = load_model(folder / "model.keras", card)
        check_fit(model, encoder, folder)
        matcher = cls(
            model,
            encoder,
            card["label_names"],
            task=card["task"],
            threshold=card["threshold"],
            temperature=card["temperature"],
            abstain_below=card.get("abstain_below"),
            info=card["info"],
            vector_extractor=VectorExtractor.load(folder / "encoder")
            or WordTable.load(folder / "encoder"),
        )
        if word_encoder is not None:
            matcher.new_words = NewWords(matcher, word_encoder)
        return matcher

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
        return batches(lengths, batch_size, self.encoder.max_length)

    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        if self._compiled is None:
            from keras_sentmatch.inference.compiled import CompiledModel

            self._compiled = CompiledModel(self.model)
        return self._compiled(arrays)

    def add_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        model = with_rows(self.model, start + len(words))
        put_vectors(model, start, vectors)
        model.set_words(start, words)
        self.replace_model(model)


def run_folder(folder: Path) -> Path:
    """`folder`; or, if it names the matcher in the package, a folder where that is written once."""
    if not is_packaged(folder):
        return folder
    kept = similarity_folder()
    if not (kept / "matcher.json").is_file():
        Matcher.similarity().save(kept)
    return kept
