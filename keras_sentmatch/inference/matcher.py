"""Matcher: a trained model, its encoder and its label names; sentences in, named answers out."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import keras
import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.data import (
    PairDataset,
    PairEncoder,
    SubwordPairEncoder,
    VectorExtractor,
    WordEncoder,
)
from keras_sentmatch.data.dataset import Task
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.corpus import Corpus, best_first, encode_blocks, score_blocks
from keras_sentmatch.inference.new_words import NewWords
from keras_sentmatch.inference.pairs import as_columns, as_dataset, batches
from keras_sentmatch.inference.run_folder import (
    FORMAT,
    check_fit,
    load_model,
    load_run_encoder,
    read_card,
)
from keras_sentmatch.metrics import (
    apply_temperature,
    calibrate_predictions,
    evaluate_predictions,
)
from keras_sentmatch.metrics.calibration import check_calibration, decide

if TYPE_CHECKING:
    from keras_sentmatch.explain import Explanation


class Prediction(dict):
    """One answer: `{"label": name, "probabilities": {name: p, …}}`, or `{"score": x}`.

    A plain dict (so JSON takes it) whose keys can also be read as attributes.

    Example:

    ```python
    from keras_sentmatch.inference.matcher import Prediction

    answer = Prediction(label="yes", probabilities={"no": 0.1, "yes": 0.9})
    answer.label, answer["probabilities"]["yes"]  # ("yes", 0.9)
    ```
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"This prediction has {', '.join(self)}; it has no {name!r}."
            ) from None


def named_answers(
    scores: np.ndarray, label_names: Sequence[str] | None, threshold: float | None
) -> list[Prediction]:
    """A `Prediction` for each row of probabilities, or for each score where there are no names."""
    if label_names is None:
        return [Prediction(score=float(score)) for score in scores]
    return [
        Prediction(label=label_names[index], probabilities=dict(zip(label_names, map(float, row))))
        for index, row in zip(decide(scores, threshold), scores)
    ]


class Matcher:
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
        info: Facts to keep with the matcher (data, seed, …): anything JSON can hold.
        vector_extractor: What made the word vectors, if they were extracted: for `learn_words`.

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
        model: keras.Model,
        encoder: PairEncoder | SubwordPairEncoder,
        label_names: Sequence[str] | None,
        *,
        task: str,
        threshold: float | None = None,
        temperature: float = 1.0,
        info: Mapping[str, Any] | None = None,
        vector_extractor: VectorExtractor | None = None,
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
        check_calibration(temperature, threshold, outputs)
        made = encoder.input_names
        if missing := sorted(set(model.input) - set(made)):
            raise InputError(
                f"The model wants {', '.join(missing)}, but this encoder makes {', '.join(made)}: "
                "use the encoder that the model was trained with."
            )
        self.model = model
        self.encoder = encoder
        self.label_names = names
        self.task = task
        self.threshold = threshold
        self.temperature = temperature
        self.info = dict(info or {})
        self.vector_extractor = vector_extractor
        self._new_words: NewWords | None = None
        self._halves: tuple[keras.Model, keras.Model, keras.Model] | None = None
        self._explainer: keras.Model | None = None

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<Matcher {self.model.name}: {self.task}, {answers}>"

    def predict(
        self,
        pairs: Any = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        sentence2: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Prediction | list[Prediction]:
        """Answers one pair, or many in the order given.

        Args:
            pairs: One pair as `{"sentence1": …, "sentence2": …}`, a list of such dicts, or a
                `PairDataset`.
            sentence1: The first sentence (or sentences), in place of `pairs`.
            sentence2: The second sentence (or as many).
            batch_size: Most pairs scored at once.

        Returns:
            A `Prediction` for one pair, a list of them for many.

        Raises:
            InputError: The pairs can be read two ways (a bare tuple or list of strings), or are
                not strings.

        Example:

        ```python
        matcher.predict({"sentence1": "A dog runs.", "sentence2": "Nobody runs."})
        # {"label": "contradiction", "probabilities": {"entailment": 0.02, …}}
        matcher.predict(sentence1=["a", "b"], sentence2=["c", "d"])  # a list of two
        ```
        """
        dataset, single = as_dataset(pairs, sentence1, sentence2)
        answers = self.answers(self._tempered(self._scores(dataset, batch_size)))
        return answers[0] if single else answers

    def predict_proba(
        self,
        pairs: Any = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        sentence2: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> np.ndarray:
        """The probabilities, float32 `[pairs, classes]`, or the scores `[pairs]` of a scoring model.

        The model's outputs at the matcher's `temperature`. Takes what `predict` takes; columns are in the order
        of `label_names`.
        """
        dataset, _ = as_dataset(pairs, sentence1, sentence2)
        return self._tempered(self._scores(dataset, batch_size))

    def answers(self, scores: np.ndarray) -> list[Prediction]:
        """Turns the array of `predict_proba` into named answers."""
        return named_answers(scores, self.label_names, self.threshold)

    def explain(
        self,
        pairs: Any = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        sentence2: str | Sequence[str] | None = None,
        erasure: bool = True,
        batch_size: int = 64,
    ) -> "Explanation | list[Explanation]":
        """Shows what an answer rests on: the model's attention and the like, and each word left out in turn.

        Args:
            pairs: As for `predict`.
            sentence1: As for `predict`.
            sentence2: As for `predict`.
            erasure: Whether to answer each pair again without each of its words.
            batch_size: Most pairs scored at once.

        Returns:
            An `Explanation` for one pair, a list of them for many. In a notebook it shows itself.

        Example:

        ```python
        explanation = matcher.explain(sentence1="A dog runs.", sentence2="An animal moves.")
        explanation.save("page.html")
        ```
        """
        from keras_sentmatch.explain import explain

        return explain(
            self, pairs, sentence1=sentence1, sentence2=sentence2, erasure=erasure, batch_size=batch_size
        )  # fmt: skip

    def explainer(self) -> keras.Model | None:
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
        """Encodes candidates once, for any number of `rank` calls.

        Args:
            sentences: Candidates: the second sentences of the pairs to come.
            batch_size: Most sentences encoded, and later ranked, at once.

        Raises:
            InputError: The model looks at both sentences from the start (`can_cache_encodings`).
        """
        if batch_size < 1:
            raise InputError(f"batch_size={batch_size}: at least 1 is needed.")
        if not isinstance(sentences, str):
            sentences = list(sentences)
            self._meet(sentences)
        _, second, _ = self._split()
        return Corpus(
            sentences, encode_blocks(second, self.encoder, sentences, batch_size), owner=self
        )

    def rank(
        self,
        query: str,
        candidates: Sequence[str] | Corpus,
        *,
        top_k: int | None = None,
        label: str | None = None,
        batch_size: int = 64,
    ) -> list[Prediction]:
        """Orders candidates by how well they match one query, the best first.

        Args:
            query: The first sentence of every pair.
            candidates: The second sentences, or what `encode` made of them: then only the
                interaction runs.
            top_k: How many to return. All by default.
            label: The label whose probability is the score. By default the second of two; needed
                with more.
            batch_size: Most pairs scored at once, where `candidates` are sentences.

        Returns:
            A `Prediction` each: `index` (in `candidates`), `sentence` and `score`. Equal scores keep
            the order of the candidates.

        Raises:
            InputError: No label to score by, an unknown one, or a corpus of another matcher.

        Example:

        ```python
        corpus = matcher.encode(["It rains.", "A dog runs."])
        matcher.rank("An animal moves.", corpus, top_k=1, label="entailment")
        # [{"index": 1, "sentence": "A dog runs.", "score": 0.97}]
        ```
        """
        if not isinstance(candidates, str | Corpus):
            candidates = list(candidates)
        scores = self.rank_scores(query, candidates, label=label, batch_size=batch_size)
        return [Prediction(row) for row in best_first(scores, candidates, top_k)]

    def rank_scores(
        self,
        query: str,
        candidates: Sequence[str] | Corpus,
        *,
        label: str | None = None,
        batch_size: int = 64,
    ) -> np.ndarray:
        """The scores that `rank` orders by, `[candidates]`, in the order of the candidates."""
        corpus = candidates if isinstance(candidates, Corpus) else None
        first, second = as_columns(query, candidates if corpus is None else corpus.sentences)
        column = self.score_column(label)
        if corpus is not None:
            if corpus.owner is not self:
                raise InputError("This corpus was encoded by another matcher: encode it with this.")
            self._meet([query])
            encode, _, interaction = self._split()
            ((_, asked),) = encode_blocks(encode, self.encoder, [query], 1)
            scores = self._tempered(score_blocks(interaction, asked, corpus))
            return scores[:, column or 0]
        scores = self.predict_proba(sentence1=first, sentence2=second, batch_size=batch_size)
        return scores if column is None else scores[:, column]

    def score_column(self, label: str | None) -> int | None:
        """The column of `predict_proba` to rank by; None for scores, which have no columns."""
        names = self.label_names
        if names is None:
            if label is not None:
                raise InputError(
                    f"label={label!r}: this matcher gives one score and has no labels."
                )
            return None
        if label is None and len(names) != 2:
            raise InputError(
                f"Which label should candidates be ranked by? Pass label= one of {', '.join(names)}."
            )
        if label is not None and label not in names:
            raise InputError(f"There is no label {label!r}; pass one of {', '.join(names)}.")
        return 1 if label is None else names.index(label)

    def _split(self) -> tuple[keras.Model, keras.Model, keras.Model]:
        if self._halves is None:
            if not hasattr(self.model, "split"):
                raise InputError(f"A {type(self.model).__name__} can't encode a sentence alone.")
            self._halves = self.model.split()
            for half in self._halves:
                half.jit_compile = self.model.jit_compile
        return self._halves

    def evaluate(self, dataset: PairDataset, *, batch_size: int = 64) -> dict[str, Any]:
        """Scores labeled pairs and measures what is usual for their task.

        The label names of the data are matched to the matcher's by name, whatever their order.

        Args:
            dataset: Labeled pairs.
            batch_size: Most pairs scored at once.

        Returns:
            Metrics by name, as `keras_sentmatch.metrics.evaluate_predictions` gives them.

        Raises:
            InputError: The pairs have no labels, or labels that the matcher does not know.
        """
        labeled = self.relabel(dataset)
        scores = self.predict_proba(labeled, batch_size=batch_size)
        return evaluate_predictions(labeled, scores, threshold=self.threshold)

    def calibrate(
        self,
        dataset: PairDataset,
        *,
        temperature: bool = True,
        threshold: str | None = None,
        batch_size: int = 64,
    ) -> dict[str, Any]:
        """Finds the temperature, and on wish the threshold, that fit labeled pairs best, and sets both.

        What was set before is replaced: without `temperature` it becomes 1, without `threshold` the
        most probable class is answered. A temperature changes no answer, only how sure it is; a
        threshold changes answers. `save` keeps them.

        Args:
            dataset: Labeled pairs that the model was not trained on: validation pairs. Figures on
                them flatter; measure on others.
            temperature: Whether to find a temperature.
            threshold: `"accuracy"` or `"f1"` (of the second of two classes): what the threshold is
                to score best in.
            batch_size: Most pairs scored at once.

        Returns:
            What `keras_sentmatch.metrics.calibrate_predictions` gives: `temperature`, `threshold`,
            `rows`, and `nll`, `ece` and `accuracy` of the bare model (`before`) and now (`after`).

        Raises:
            InputError: A scoring model, a threshold for other than two classes, or what `evaluate`
                refuses.

        Example:

        ```python
        report = matcher.calibrate(load_pairs("pairs.tsv")["validation"])
        report["temperature"], report["before"]["ece"], report["after"]["ece"]
        ```
        """
        labeled = self.labelled_classes(dataset)
        report = calibrate_predictions(
            np.asarray(labeled.labels),
            self._scores(labeled, batch_size),
            temperature=temperature,
            threshold=threshold,
        )
        self.temperature, self.threshold = report["temperature"], report["threshold"]
        return report

    def labelled_classes(self, dataset: PairDataset) -> PairDataset:
        """As `relabel`; refuses where there are scores in place of classes."""
        if self.label_names is None:
            raise InputError("This matcher gives a score; only probabilities can be calibrated.")
        return self.relabel(dataset)

    def relabel(self, dataset: PairDataset) -> PairDataset:
        """The same pairs with the label indices of this matcher; refuses names it does not know."""
        where = " ".join(part for part in (dataset.name, dataset.split) if part) or "this data"
        if not len(dataset):
            raise InputError(f"{where} holds no pairs: there is nothing to measure.")
        if dataset.labels is None:
            raise InputError(
                f"{where} has no labels, so nothing can be measured: use predict, or labeled data."
            )
        if dataset.task == "regression" and self.label_names is not None:
            raise InputError(
                f"The labels of {where} are numbers, but this matcher answers "
                f"{', '.join(self.label_names)}: evaluate it on data with those labels."
            )
        if self.label_names is None and dataset.task == "classification":
            raise InputError(
                f"{where} has classes ({', '.join(dataset.label_names or ())}), but this matcher "
                "gives one score: "
                "evaluate it on data with scores or with groups of candidates."
            )
        if self.label_names is None or dataset.label_names == self.label_names:
            return dataset
        unknown = sorted(set(dataset.label_names or ()) - set(self.label_names))
        if unknown:
            raise InputError(
                f"{where} has the labels {', '.join(dataset.label_names or ())}, but this matcher "
                "answers "
                f"{', '.join(self.label_names)}: rename the labels of the data (unknown: "
                f"{', '.join(unknown)})."
            )
        names = [(dataset.label_names or ())[label] for label in dataset.labels]
        changed = dataset.to_dict() | {"labels": names, "label_names": self.label_names}
        return PairDataset.from_dict(changed)

    def learn_words(
        self, sentences: Sequence[str], encoder: str | Path | WordEncoder | None = None
    ) -> list[str]:
        """Gives words that training never met their vectors: then they are unknown no more.

        Every table of word vectors gets the vector that is extracted from the encoder, as for the
        words of the training data before training. Answers on known words stay what they are.
        `save` keeps the new words. `Matcher.load(folder, word_encoder=…)` does this by itself.

        Args:
            sentences: Words, or sentences whose words to learn.
            encoder: The encoder that the word vectors were extracted from: a folder or a KerasHub
                preset. By default where it was then.

        Returns:
            The words learnt: those that were unknown, but not to the encoder's tokenizer.

        Raises:
            InputError: The word vectors were not extracted, or from another encoder.

        Example:

        ```python
        matcher.learn_words(["zebra", "okapi"], encoder="path/to/encoder")  # ["zebra", "okapi"]
        ```
        """
        if isinstance(sentences, str):
            raise InputError("learn_words got one string; give a list of words or sentences.")
        learner = self._new_words if encoder is None else None
        return (learner or NewWords(self, encoder)).learn(sentences)

    def replace_model(self, model: keras.Model) -> None:
        """Answers with another model from now on, such as a copy with more words."""
        if model is not self.model:
            self.model, self._halves, self._explainer = model, None, None

    def _meet(self, *columns: Sequence[str]) -> None:
        if self._new_words is not None:
            self._new_words.learn([sentence for column in columns for sentence in column])

    def save(self, folder: str | os.PathLike) -> None:
        """Writes model.keras, encoder/ and matcher.json into `folder`; other files there stay.

        Everything is written beside the folder first and moved in when it is whole, `matcher.json`
        last: a folder that has it is complete. No optimizer state is saved.

        Args:
            folder: Folder to create or to renew.
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

    def export(
        self, folder: str | os.PathLike, format: str = "saved_model", **options: Any
    ) -> dict[str, Any]:
        """Writes an artifact that answers without this library, as this matcher does.

        See `keras_sentmatch.export.export` for the arguments, what is returned and the errors.

        Example:

        ```python
        from keras_sentmatch import Matcher

        Matcher.load("runs/mine").export("exported/mine")["signatures"]
        ```
        """
        from keras_sentmatch.export import export

        return export(self, folder, format, **options)

    @classmethod
    def load(
        cls, folder: str | os.PathLike, *, word_encoder: str | Path | WordEncoder | None = None
    ) -> "Matcher":
        """Loads what `save` wrote, on any backend, in Keras's safe mode.

        Args:
            folder: A run folder.
            word_encoder: The encoder that the word vectors were extracted from (a folder or a
                KerasHub preset). With it no word stays unknown: those that training never met get
                their vectors when they are met, as by `learn_words`.

        Raises:
            InputError: Not a run folder, a missing or damaged file, or another format; a
                `word_encoder` for vectors that were not extracted.

        Example:

        ```python
        from keras_sentmatch import Matcher

        Matcher.load("runs/drcn-embedded").label_names
        # ("entailment", "neutral", "contradiction")
        ```
        """
        folder = Path(folder)
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
            info=card["info"],
            vector_extractor=VectorExtractor.load(folder / "encoder"),
        )
        if word_encoder is not None:
            matcher._new_words = NewWords(matcher, word_encoder)
        return matcher

    def _card(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "label_names": None if self.label_names is None else list(self.label_names),
            "task": self.task,
            "threshold": self.threshold,
            "temperature": self.temperature,
            "vocabulary_size": self.encoder.vocabulary_size,
            "versions": {
                "keras_sentmatch": __version__,
                "keras": keras.__version__,
                "backend": keras.config.backend(),
            },
            "seed": self.info.get("seed"),
            "info": self.info,
        }

    def _tempered(self, scores: np.ndarray) -> np.ndarray:
        """What the model gave, as every answer shows it."""
        return scores if self.label_names is None else apply_temperature(scores, self.temperature)

    def _scores(self, pairs: PairDataset, batch_size: int) -> np.ndarray:
        """What the model gives."""
        if batch_size < 1:
            raise InputError(f"batch_size={batch_size}: at least 1 is needed.")
        self._meet(pairs.sentence1, pairs.sentence2)
        tags = pairs.tags if "pos" in self.encoder.features else None
        encoded = self.encoder.encode_pairs(pairs.sentence1, pairs.sentence2, tags=tags)
        scores = np.zeros((len(pairs), self.model.output_shape[-1]), "float32")
        longest = encoded.lengths.max(axis=1)
        for rows, size, length in batches(longest, batch_size, self.encoder.max_length):
            filled = np.pad(rows, (0, size - len(rows)), mode="edge")  # copies of the last row
            features = encoded.arrays(filled, length)
            inputs = {name: features[name] for name in self.model.input}
            scores[rows] = self.model.predict_on_batch(inputs)[: len(rows)]
        if not (good := np.isfinite(scores).all(1)).all():
            row = int(np.argmin(good))
            raise InputError(
                f"{self!r} answers {scores[row].tolist()} for pair {row} (of {len(pairs)}), expected finite numbers: its "
                "weights are damaged, or its training diverged. Copy the run folder again, or train anew with a lower "
                "learning rate."
            )
        return scores[:, 0] if self.label_names is None else scores
