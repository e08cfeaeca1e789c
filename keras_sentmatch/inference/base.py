"""What `Matcher` and `EnsembleMatcher` share: answers, ranking, evaluation and calibration."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.frames import is_frame, with_columns
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.inference._encodings import Corpus
from keras_sentmatch.inference.pairs import as_columns, as_dataset, check_count
from keras_sentmatch.metrics import (
    apply_temperature,
    calibrate_predictions,
    evaluate_predictions,
)
from keras_sentmatch.metrics.calibration import check_calibration, decide
from keras_sentmatch.metrics.decisions import (
    Goal,
    check_abstention,
    coverage_curve,
    sure_answers,
)

Array = NDArray[Any]


class Prediction(dict[str, Any]):
    """One answer: `{"label": name, "probabilities": {name: p, …}}`, or `{"score": x}`.

    A plain dict (so JSON takes it) whose keys can also be read as attributes.

    Example:

    ```python
    from keras_sentmatch.inference import Prediction

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


class BaseMatcher(ABC):
    """Answers pairs of sentences by the scores that a subclass computes.

    Raises:
        InputError: A temperature or a threshold that does not fit.
    """

    def __init__(
        self,
        label_names: tuple[str, ...] | None,
        task: str,
        temperature: float,
        threshold: float | None,
        abstain_below: Sequence[float] | None = None,
    ) -> None:
        check_calibration(temperature, threshold, len(label_names or ("score",)))
        check_abstention(abstain_below, label_names)
        self.label_names = label_names
        self.task = task
        self.temperature = temperature
        self.threshold = threshold
        self.abstain_below = None if abstain_below is None else tuple(abstain_below)

    @abstractmethod
    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        """The scores before the temperature: `[pairs, classes]`, or `[pairs]` without classes."""

    def predict(
        self,
        pairs: Any = None,
        sentence2: str | Sequence[str] | None = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Any:
        """Answers one pair, or many in the order given.

        Args:
            pairs: One pair as `{"sentence1": …, "sentence2": …}`; several as a list of such dicts
                or of tuples `(sentence1, sentence2)`, as a `PairDataset`, or as a table of pandas,
                polars, Arrow or Hugging Face's `datasets`. Or the first sentence (or sentences),
                before the second.
            sentence2: The second sentence (or as many as there are first ones). Of a table, the
                name of its column, if that is unusual.
            sentence1: The first sentence (or sentences), in place of `pairs`. Of a table, the name
                of its column.
            batch_size: Most pairs scored at once.

        Returns:
            A `Prediction` for one pair, a list of them for many. For a table, a table with the columns
            it had and those of the answers beside them: `label`, `abstained` (of a matcher that
            can abstain) and a `probability_NAME` for each label, or `score`.

        Raises:
            InputError: The pairs can be read two ways (two bare lists or tuples of strings), or are
                not strings.

        Example:

        ```python
        matcher.predict({"sentence1": "A dog runs.", "sentence2": "Nobody runs."})
        # {"label": "contradiction", "probabilities": {"entailment": 0.02, …}}
        matcher.predict(sentence1=["a", "b"], sentence2=["c", "d"])  # a list of two
        ```
        """
        dataset, single = as_dataset(pairs, sentence1, sentence2)
        scores = self._tempered(self.raw_scores(dataset, batch_size))
        if is_frame(pairs):
            return with_columns(pairs, self.answer_columns(scores))
        answers = self.answers(scores)
        return answers[0] if single else answers

    def answer_columns(self, scores: Array) -> dict[str, Array]:
        """The columns that a table of pairs gets: the array of `predict_proba`, and its labels."""
        if self.label_names is None:
            return {"score": scores}
        answers = self.answers(scores)
        found = {"label": np.array([answer["label"] for answer in answers], dtype=object)}
        if self.abstain_below is not None:
            found["abstained"] = np.array([a["abstained"] for a in answers], dtype=bool)
        shares = {f"probability_{name}": scores[:, i] for i, name in enumerate(self.label_names)}
        return {**found, **shares}

    def predict_stream(
        self, pairs: Iterable[Any], *, batch_size: int = 64, window: int = 4096
    ) -> Iterator[Prediction]:
        """Answers any number of pairs in the order given, reading only `window` of them at a time.

        Within a window, pairs of like length are scored together. Only one window of pairs and
        answers is in memory, whatever the number of pairs.

        Args:
            pairs: An iterable of dicts `{"sentence1": …, "sentence2": …}` or of tuples
                `(sentence1, sentence2)`.
            batch_size: Most pairs scored at once.
            window: How many pairs are read before any of them is answered.

        Returns:
            An iterator of one `Prediction` a pair.

        Raises:
            InputError: `pairs` are no iterable of pairs, or a pair is none when its turn comes.

        Example:

        ```python
        rows = ({"sentence1": line, "sentence2": "A dog runs."} for line in open("lines.txt"))
        for answer in matcher.predict_stream(rows):
            print(answer["label"])
        ```
        """
        check_count("batch_size", batch_size)
        check_count("window", window)
        if isinstance(pairs, str | Mapping) or not isinstance(pairs, Iterable):
            raise InputError(
                f"predict_stream got {pairs!r:.60}; expected an iterable of pairs, such as a list "
                "or a generator of dicts with sentence1 and sentence2. For one pair, use predict."
            )
        return self._stream(iter(pairs), batch_size, window)

    def _stream(self, rows: Iterator[Any], batch_size: int, window: int) -> Iterator[Prediction]:
        start = 0
        while block := list(islice(rows, window)):
            dataset, _ = as_dataset(block, None, None, start=start)
            yield from self.answers(self._tempered(self.raw_scores(dataset, batch_size)))
            start += len(block)

    def predict_proba(
        self,
        pairs: Any = None,
        sentence2: str | Sequence[str] | None = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Array:
        """The probabilities, float32 `[pairs, classes]`, or the scores `[pairs]` of a scoring model.

        Takes what `predict` takes. Columns are in the order of `label_names`.
        """
        dataset, _ = as_dataset(pairs, sentence1, sentence2)
        return self._tempered(self.raw_scores(dataset, batch_size))

    def answers(self, scores: Array, *, abstain: bool = True) -> list[Prediction]:
        """Turns the array of `predict_proba` into named answers.

        Args:
            scores: The array.
            abstain: Whether a matcher that can abstain does so; otherwise it answers every pair.
        """
        names = self.label_names
        if names is None:
            return [Prediction(score=float(score)) for score in scores]
        found = [
            Prediction(label=names[index], probabilities=dict(zip(names, map(float, row))))
            for index, row in zip(decide(scores, self.threshold), scores)
        ]
        if abstain and self.abstain_below is not None:
            sure = sure_answers(scores, self.threshold, self.abstain_below)
            for answer, given in zip(found, sure.tolist()):
                answer.update(label=answer["label"] if given else None, abstained=not given)
        return found

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
    ) -> Array:
        """The scores that `rank` orders by, `[candidates]`, in the order of the candidates."""
        if isinstance(candidates, Corpus):
            raise InputError("An ensemble keeps no encodings: give the candidates as strings.")
        column = self.score_column(label)
        first, second = as_columns(query, candidates)
        scores = self.predict_proba(sentence1=first, sentence2=second, batch_size=batch_size)
        return scores if column is None else scores[:, column]

    def score_column(self, label: str | None) -> int | None:
        """The column of `predict_proba` to rank by; None for scores, which have no columns."""
        names = self.label_names
        if names is None:
            if label is None:
                return None
            raise InputError(
                f"{argument('label', label)}: this matcher gives one score and has no labels."
            )
        if label is None and len(names) != 2:
            raise InputError(
                f"Which label should candidates be ranked by? Name one of "
                f"{', '.join(names)} with {argument('label')}."
            )
        if label is not None and label not in names:
            raise InputError(f"There is no label {label!r}; there are {', '.join(names)}.")
        return 1 if label is None else names.index(label)

    def evaluate(self, dataset: PairDataset, *, batch_size: int = 64) -> dict[str, Any]:
        """The metrics of `keras_sentmatch.metrics.evaluate_predictions` on labeled pairs.

        The labels of the data are matched to the matcher's by name, whatever their order. If the
        matcher can abstain, the metrics are those of answers to all pairs; `coverage`, the share
        that it answers, and `answered_accuracy` join them.

        Raises:
            InputError: The pairs have no labels, or labels that the matcher does not know.
        """
        labeled = self.relabel(dataset)
        scores = self.predict_proba(labeled, batch_size=batch_size)
        figures = evaluate_predictions(labeled, scores, threshold=self.threshold)
        if self.abstain_below is not None:
            sure = sure_answers(scores, self.threshold, self.abstain_below)
            right = decide(scores, self.threshold) == labeled.labels
            figures["coverage"] = float(sure.mean())
            figures["answered_accuracy"] = float(right[sure].mean()) if sure.any() else None
        return figures

    def calibrate(
        self,
        dataset: PairDataset,
        *,
        temperature: bool = True,
        threshold: str | None = None,
        precision: float | None = None,
        recall: float | None = None,
        costs: Mapping[str, float] | None = None,
        label: str | None = None,
        confidence: float = 0.95,
        batch_size: int = 64,
    ) -> dict[str, Any]:
        """Finds the temperature, and optionally the threshold, that fit labeled pairs best.

        Both replace what was set before: without `temperature` it becomes 1, without one of
        `threshold`, `precision`, `recall` and `costs` the most probable class is answered. A
        temperature changes no answer, only how sure it is. `save` keeps all of it.

        Args:
            dataset: Labeled pairs that the model was not trained on: validation pairs. Figures on
                them flatter; measure on others.
            temperature: Whether to find a temperature.
            threshold: For two classes, `"accuracy"` or `"f1"`: what the threshold maximizes.
            precision: The precision that every label must have: where no label is sure enough, the
                matcher abstains, and the label of its answer is `None`. With `label` (of two) only
                that label must have it; the other one is answered otherwise, and nothing is
                abstained from.
            recall: The share of the pairs with `label` that must be found, of two labels.
            costs: Of two labels, what it costs to answer each of them wrongly, by name; and under
                `"abstain"`, if that is allowed, what it costs to give no answer.
            label: The label of `precision` or `recall`; of a recall, by default the second.
            confidence: How sure precision or recall must be: the Clopper-Pearson lower bound on
                these pairs reaches the wanted value.
            batch_size: Most pairs scored at once.

        Returns:
            What `keras_sentmatch.metrics.calibrate_predictions` gives, of the bare model (`before`)
            and now (`after`); `abstain_below`, a probability for each label or `None`; `labels`,
            for each label that was decided on its threshold, answers, precision and bound;
            `coverage`, the share of pairs that are answered, `answered_accuracy`, and `curve`, the
            accuracy of the surest answers by their share.

        Raises:
            InputError: A scoring model, a threshold for other than two classes, a precision that no
                threshold reaches (the message says the best one), or what `evaluate` refuses.

        Example:

        ```python
        report = matcher.calibrate(load_pairs("pairs.tsv")["validation"])
        report["temperature"], report["before"]["ece"], report["after"]["ece"]
        ```
        """
        if self.label_names is None:
            raise InputError("This matcher gives a score; only probabilities can be calibrated.")
        goal = Goal(threshold, precision, recall, costs, label, confidence)
        goal.check(self.label_names)
        labeled = self.relabel(dataset)
        y, raw = np.asarray(labeled.labels), self.raw_scores(labeled, batch_size)
        report = calibrate_predictions(y, raw, temperature=temperature, threshold=threshold)
        p = apply_temperature(raw, report["temperature"])
        found = goal.fit(y, p, self.label_names)
        report["threshold"] = report["threshold"] if threshold else found["threshold"]
        abstain_below = found["abstain_below"]
        self.temperature, self.threshold = report["temperature"], report["threshold"]
        self.abstain_below = abstain_below
        sure = sure_answers(p, self.threshold, abstain_below)
        answered = decide(p, self.threshold) == y
        return {
            **report,
            **{name: found[name] for name in ("goal", "abstain_below", "labels")},
            "coverage": float(sure.mean()),
            "answered_accuracy": float(answered[sure].mean()) if sure.any() else None,
            "curve": coverage_curve(y, p),
        }

    def relabel(self, dataset: PairDataset) -> PairDataset:
        """The same pairs with the label indices of this matcher; refuses names it does not know."""
        where = " ".join(part for part in (dataset.name, dataset.split) if part) or "this data"
        theirs = dataset.label_names or ()
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
                f"{where} has classes ({', '.join(theirs)}), but this matcher gives one score: "
                "evaluate it on data with scores or with groups of candidates."
            )
        if self.label_names is None or theirs == self.label_names:
            return dataset
        if unknown := sorted(set(theirs) - set(self.label_names)):
            pairs = list(zip(unknown, self.label_names))
            how = wording(
                f"label_names={dict(pairs)!r:.60}",
                f"--labels {','.join(f'{a}={b}' for a, b in pairs):.60}",
            )
            raise InputError(
                f"{where} has the labels {', '.join(theirs)}, but this matcher answers "
                f"{', '.join(self.label_names)}: rename the labels of the data (unknown: "
                f"{', '.join(unknown)}), or say what each means when it is read, as in {how}."
            )
        names = [theirs[label] for label in dataset.labels]
        changed = dataset.to_dict() | {"labels": names, "label_names": self.label_names}
        return PairDataset.from_dict(changed)

    def _tempered(self, scores: Array) -> Array:
        """Scores at the temperature, as every answer shows them."""
        return scores if self.label_names is None else apply_temperature(scores, self.temperature)


def best_first(
    scores: Array, candidates: Sequence[str] | Corpus, top_k: int | None
) -> list[dict[str, Any]]:
    """Return `index`, `sentence` and `score` of the `top_k` highest scores, in a stable order."""
    if top_k is not None:
        check_count("top_k", top_k)
    sentences = candidates.sentences if isinstance(candidates, Corpus) else list(candidates)
    order = np.argsort(-scores, kind="stable")[:top_k]
    return [{"index": int(i), "sentence": sentences[i], "score": float(scores[i])} for i in order]
