"""Predictions, ranking, evaluation and calibration, which all matchers share."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.frames import column_names, is_frame, with_columns
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.inference._cross_encoder import AsCrossEncoder
from keras_sentmatch.inference._encodings import EncodedCorpus
from keras_sentmatch.inference.learned import LearnedPairs
from keras_sentmatch.inference.pairs import as_dataset, check_count
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.metrics.calibration import apply_temperature, decide, log_odds
from keras_sentmatch.metrics.decisions import (
    Goal,
    calibrate_predictions,
    check_calibration,
    sure_answers,
)

Array = NDArray[Any]
log = logging.getLogger(__name__)
UNSEEN, LEARNED = -1, -2  # instead of the fold of a pair
OUT_OF_FOLD = "%s pairs: out-of-fold predictions, because the model learned from these pairs"


class Prediction(dict[str, Any]):
    """One prediction: `{"label": name, "probabilities": {name: p, …}}`, or `{"score": x}`.

    A plain dict, as JSON needs it, whose keys can also be read as attributes.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"This prediction has no {name!r}. It has {', '.join(self)}."
            ) from None


class BaseMatcher(ABC):
    """Predicts labels or scores from the scores that a subclass computes.

    Raises:
        InputError: The temperature or the threshold is out of range, or does not fit the labels.
    """

    learned: LearnedPairs | None = None  # what the run learned from

    def __init__(
        self,
        label_names: tuple[str, ...] | None,
        task: str,
        temperature: float,
        threshold: float | None,
        abstain_below: Sequence[float] | None = None,
    ) -> None:
        check_calibration(temperature, threshold, abstain_below, label_names)
        self.label_names = label_names
        self.task = task
        self.temperature = temperature
        self.threshold = threshold
        self.abstain_below = None if abstain_below is None else tuple(abstain_below)

    @property
    def engine(self) -> str:
        """What runs the model: `"onnx"` or `"keras"`."""
        return "keras"

    @abstractmethod
    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        """Return scores before the temperature: `[pairs, classes]`, or `[pairs]` without classes."""

    def tempered(self, raw: Array) -> Array:
        """Return the array of `predict_proba` for raw scores.

        With a temperature it is float64, so that confident predictions do not all become 1.
        """
        if self.label_names is None or self.temperature == 1:
            return raw
        return apply_temperature(raw.astype("float64"), self.temperature)

    def predict(
        self,
        pairs: Any = None,
        sentence2: str | Sequence[str] | None = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Any:
        """Predict labels or scores for one pair or many pairs, in the order given.

        Args:
            pairs: One pair as `{"sentence1": …, "sentence2": …}`; many pairs as a list of such dicts
                or of tuples `(sentence1, sentence2)`, as a `PairDataset`, or as a table of pandas,
                polars, Arrow or Hugging Face's `datasets`. Or the first sentence (or sentences).
            sentence2: The second sentence (or sentences). For a table, the name of its column.
            sentence1: The first sentence (or sentences), instead of `pairs`. For a table, the name
                of its column.
            batch_size: Maximum number of pairs per batch. Defaults to `64`.

        Returns:
            A `Prediction` for one pair, a list of them for many pairs. For a table, the table with
            additional columns: `label`, `abstained` (if the matcher can abstain) and one
            `probability_NAME` per label, or `score`. If the table has a column of such a name
            already, the new one is called `predicted_NAME`.

        Raises:
            InputError: A sentence is not a string, or the pairs can be read in two ways (two bare
                lists or tuples of strings).

        Example:

        ```python
        matcher.predict({"sentence1": "A dog runs.", "sentence2": "Nobody runs."})
        # {"label": "contradiction", "probabilities": {"entailment": 0.02, …}}
        matcher.predict(sentence1=["a", "b"], sentence2=["c", "d"])  # a list of two
        ```
        """
        dataset, single = as_dataset(pairs, sentence1, sentence2)
        scores = self.tempered(self.raw_scores(dataset, batch_size))
        if is_frame(pairs):
            return with_columns(pairs, self.answer_columns(scores, column_names(pairs)))
        answers = self.answers(scores)
        return answers[0] if single else answers

    def predict_proba(
        self,
        pairs: Any = None,
        sentence2: str | Sequence[str] | None = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Array:
        """Return probabilities `[pairs, classes]`, or the scores `[pairs]` of a scoring model.

        The arguments are those of `predict`; the columns are in the order of `label_names`. The
        array is float32, or float64 if the matcher has a temperature.
        """
        dataset, _ = as_dataset(pairs, sentence1, sentence2)
        return self.tempered(self.raw_scores(dataset, batch_size))

    def answer_columns(self, scores: Array, taken: Collection[str] = ()) -> dict[str, Array]:
        """Return predictions as columns, from the array of `predict_proba`.

        The columns of a table that already has the columns `taken` are called `predicted_NAME`.
        """
        if self.label_names is None:
            found = {"score": scores}
        else:
            answers = self.answers(scores)
            found = {"label": np.array([answer["label"] for answer in answers], dtype=object)}
            if self.abstain_below is not None:
                found["abstained"] = np.array([a["abstained"] for a in answers], dtype=bool)
            for name, column in zip(self.label_names, scores.T):
                found[f"probability_{name}"] = column.astype("float32")
        return {_free_name(name, taken): column for name, column in found.items()}

    def answers(self, scores: Array, *, abstain: bool = True) -> list[Prediction]:
        """Turn the array of `predict_proba` into predictions.

        Args:
            scores: The array.
            abstain: Whether the matcher may abstain, if it can. Defaults to `True`.
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
        candidates: Sequence[str] | EncodedCorpus,
        *,
        top_k: int | None = None,
        label: str | None = None,
        batch_size: int = 64,
    ) -> list[Prediction]:
        """Order candidates by how well they match one query, the best first.

        Args:
            query: The first sentence of every pair.
            candidates: The second sentences, or their encodings made by `Matcher.encode`, which is
                many times as fast for many queries.
            top_k: Number of candidates to return. Defaults to all.
            label: Label whose probability is the score. Defaults to the second one of two; required
                for more than two labels.
            batch_size: Maximum number of pairs per batch. Defaults to `64`.

        Returns:
            One `Prediction` per candidate: `index` (in `candidates`), `sentence` and `score`. Equal
            candidates keep their order.

        Raises:
            InputError: The label is missing or unknown, or another matcher encoded the candidates.

        Example:

        ```python
        sentences = ["It rains.", "A dog runs."]
        matcher.rank("An animal moves.", sentences, top_k=1, label="entailment")
        # [{"index": 1, "sentence": "A dog runs.", "score": 0.97}]
        ```
        """
        if not isinstance(query, str):
            raise InputError(f"The query is {query!r:.60}. Expected one string.")
        if isinstance(candidates, str):
            raise InputError("The candidates are one string. Expected a list of strings.")
        self.score_column(label)
        if not isinstance(candidates, EncodedCorpus):
            sentences = list(candidates)
            raw = self.raw_scores(PairDataset([query] * len(sentences), sentences), batch_size)
        elif candidates.matcher is self:
            sentences, raw = candidates.sentences, candidates.raw_scores(query)
        else:
            raise InputError(
                "Another matcher encoded these candidates. Encode them with this matcher."
            )
        return self.best_first(raw, sentences, label=label, top_k=top_k)

    def best_first(
        self, raw: Array, sentences: Sequence[str], *, label: str | None, top_k: int | None
    ) -> list[Prediction]:
        """Order sentences by their raw scores, and return the `top_k` best as `rank` does."""
        if top_k is not None:
            check_count("top_k", top_k)
        column, scores = self.score_column(label), self.tempered(raw)
        scores = scores if column is None else scores[:, column]
        order = np.argsort(-self.order(raw, column), kind="stable")[:top_k]
        return [
            Prediction(index=int(i), sentence=sentences[i], score=float(scores[i])) for i in order
        ]

    def order(self, raw: Array, column: int | None) -> Array:
        """Return the log odds of a label, or the scores, for raw scores: they order pairs."""
        return raw if column is None else log_odds(raw, column, self.temperature)

    def as_cross_encoder(self, label: str | None = None) -> AsCrossEncoder:
        """Return an adapter that the `CrossEncoder…Evaluator` of sentence-transformers accept.

        Args:
            label: Label whose log odds are the score of a pair. Defaults to the second one of two;
                with more labels, the adapter returns all probabilities.

        Example:

        ```python
        from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

        CrossEncoderRerankingEvaluator(samples)(matcher.as_cross_encoder())
        ```
        """
        many = label is None and len(self.label_names or ()) > 2
        return AsCrossEncoder(self, None if many else self.score_column(label))

    def score_column(self, label: str | None) -> int | None:
        """Return the column of `predict_proba` to rank by, or `None` for a scoring model."""
        return score_column(self.label_names, label)

    def evaluate(
        self, dataset: PairDataset | None = None, *, batch_size: int = 64
    ) -> dict[str, Any]:
        """Return the metrics of `keras_sentmatch.metrics.evaluate_predictions` on labeled pairs.

        A run trained with folds has learned from its training and validation pairs. Their
        out-of-fold predictions are measured instead of its own; without `dataset`, all of them.

        Labels are matched by name, whatever their order. If the matcher can abstain, the metrics
        cover all pairs, and `coverage` (the share of answered pairs) and `answered_accuracy` are
        added.

        Raises:
            InputError: The pairs have no labels, or labels that the matcher does not know.
        """
        labeled, raw, folds = self._held_out(dataset, batch_size)
        learned = folds == LEARNED
        if learned.any():
            log.warning(_of_learned(learned) + ", so these metrics are too good. Use other pairs.")
        figures = evaluate_predictions(
            labeled, raw, threshold=self.threshold, temperature=self.temperature
        )
        if self.abstain_below is not None:
            scores = self.tempered(raw)
            sure = sure_answers(scores, self.threshold, self.abstain_below)
            right = decide(scores, self.threshold) == labeled.labels
            figures["coverage"] = float(sure.mean())
            figures["answered_accuracy"] = float(right[sure].mean()) if sure.any() else None
        return figures

    def calibrate(
        self,
        dataset: PairDataset | None = None,
        *,
        temperature: bool = True,
        threshold: str | None = None,
        precision: float | None = None,
        recall: float | None = None,
        label: str | None = None,
        confidence: float = 0.95,
        batch_size: int = 64,
    ) -> dict[str, Any]:
        """Find the temperature, and optionally the threshold, that fit labeled pairs best.

        Earlier values are replaced: without `temperature` it becomes 1; without `threshold`,
        `precision` and `recall` the most probable class is the answer. A temperature changes
        the probabilities only, not the answers. `save` keeps all values.

        Args:
            dataset: Labeled validation pairs. Pairs that the model learned from are left out; those
                of a run trained with folds count by their out-of-fold predictions. Defaults to all
                out-of-fold predictions. Metrics on these pairs are optimistic; evaluate on others.
            temperature: Whether to find a temperature. Defaults to `True`.
            threshold: For two classes, the metric that the threshold maximizes: `"accuracy"` or
                `"f1"`.
            precision: Precision that every label must reach. If no label is probable enough, the
                matcher abstains, and the label is `None`. With `label` (of two), only this label must
                reach it; the other one is the answer otherwise.
            recall: For two classes, the share of the pairs with `label` that must be found.
            label: Label of `precision` or `recall`. For a recall it defaults to the one called yes,
                match, … or else the rarer one.
            confidence: Confidence of the Clopper-Pearson lower bound that must reach the precision
                or recall. Defaults to `0.95`.
            batch_size: Maximum number of pairs per batch. Defaults to `64`.

        Returns:
            The fitted `temperature` and `threshold`; the metrics of the bare model (`before`) and now
            (`after`); `abstain_below`, one probability per label or `None`; `labels`, with threshold,
            number of answers, precision and bound; `coverage`, the share of answered pairs; and
            `answered_accuracy`.

        Raises:
            InputError: A scoring model, pairs that all have one label, a threshold for other than
                two classes, a precision that no threshold reaches (the message says the best one),
                or the model learned from all pairs.

        Example:

        ```python
        report = matcher.calibrate(load_pairs("pairs.tsv")["validation"])
        report["temperature"], report["before"]["ece"], report["after"]["ece"]
        ```
        """
        if self.label_names is None:
            raise InputError(
                "This matcher returns a score. Only matchers that return probabilities can be calibrated."
            )
        goal = Goal(threshold, precision, recall, label, confidence)
        goal.check(self.label_names)
        labeled, raw, folds = self._held_out(dataset, batch_size)
        learned = folds == LEARNED
        by_fold = (folds >= 0).any()
        if by_fold and (precision is not None or recall is not None):
            log.warning(
                "The models of the folds made the out-of-fold predictions, so the goal must be reached in "
                "each fold. The model that learned from all pairs may still be more or less confident. "
                "Check the goal on pairs that no model has seen."
            )
        if learned.any():
            text = f"{_of_learned(learned)}, so its probabilities for them are too high"
            if learned.all():
                raise InputError(f"{text}. Calibrate on pairs that it has not seen.")
            log.warning(f"{text}. They are left out.")
        y, raw = np.asarray(labeled.labels)[~learned], raw[~learned]
        report = calibrate_predictions(
            y,
            raw,
            self.label_names,
            goal,
            temperature=temperature,
            folds=folds[~learned] if by_fold else None,
        )
        self.temperature, self.threshold = report["temperature"], report["threshold"]
        self.abstain_below = report["abstain_below"]
        return report

    def warn_of_learned(self, pairs: PairDataset) -> int:
        """Return the number of pairs that the model learned from, and warn if there are any."""
        if self.learned is None:
            return 0
        learned = self.learned.rows(pairs) >= 0
        if learned.any():
            log.warning(
                _of_learned(learned) + ", so metrics on them are too good. Use other pairs."
            )
        return int(learned.sum())

    def _held_out(self, dataset: PairDataset | None, batch_size: int) -> tuple[Any, Array, Array]:
        """Return labeled pairs, their raw scores, and the fold of each pair, `UNSEEN` or `LEARNED`."""
        learned = self.learned
        if dataset is None:
            if learned is None or learned.scores is None:
                raise InputError(
                    f"{self!r} has no out-of-fold predictions, because it was not trained with folds. "
                    "Pass labeled pairs."
                )
            log.info(OUT_OF_FOLD, f"{len(learned.scores):,}")
            pairs = learned.out_of_fold(self.label_names, self.task)
            return pairs, learned.scores, np.asarray(learned.folds)
        labeled = self.relabel(dataset)
        raw = self.raw_scores(labeled, batch_size)
        if learned is None:
            return labeled, raw, np.full(len(raw), UNSEEN)
        rows = learned.rows(labeled)
        folds = np.where(rows >= 0, LEARNED, UNSEEN)
        if learned.scores is not None and learned.folds is not None:
            held_out = (rows >= 0) & (rows < len(learned.scores))
            if held_out.any():
                log.info(OUT_OF_FOLD, f"{held_out.sum():,} of {len(raw):,}")
            raw[held_out] = learned.scores[rows[held_out]]
            folds[held_out] = learned.folds[rows[held_out]]
        return labeled, raw, folds

    def relabel(self, dataset: PairDataset) -> PairDataset:
        """Return the pairs with the label indices of this matcher; refuse unknown names."""
        where = " ".join(part for part in (dataset.name, dataset.split) if part) or "this data"
        theirs, ours = dataset.label_names or (), self.label_names
        if not len(dataset):
            raise InputError(f"{where} has no pairs. Use data with at least one pair.")
        if dataset.labels is None:
            raise InputError(
                f"{where} has no labels, so nothing can be measured. Use predict, or labeled data."
            )
        if dataset.task == "regression" and ours is not None:
            raise InputError(
                f"The labels of {where} are numbers, but those of this matcher are "
                f"{', '.join(ours)}. Use data with these labels."
            )
        if ours is None and dataset.task == "classification":
            raise InputError(
                f"{where} has classes ({', '.join(theirs)}), but this matcher returns a score. Use "
                "data with scores or with groups of candidates."
            )
        if ours is None or theirs == ours:
            return dataset
        spelled = {name.casefold(): name for name in ours}
        theirs = tuple(
            name if name in ours else spelled.get(name.casefold(), name) for name in theirs
        )
        if unknown := sorted(set(theirs) - set(ours)):
            how = wording('label_names={"THEIRS": "OURS", …}', "--labels THEIRS=OURS,…")
            raise InputError(
                f"{where} has the labels {', '.join(theirs)}, but those of this matcher are "
                f"{', '.join(ours)} (unknown: {', '.join(unknown)}). Rename the labels of the data, "
                f"or map each of them when the data is read, with {how}."
            )
        names = [theirs[label] for label in dataset.labels]
        return PairDataset.from_dict(dataset.to_dict() | {"labels": names, "label_names": ours})


def _of_learned(learned: Array) -> str:
    return f"The model learned from {learned.sum():,} of these {len(learned):,} pairs"


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"predicted_{name}"
    return name


def score_column(names: Sequence[str] | None, label: str | None) -> int | None:
    """Return the column of the label to rank by, or `None` for a model without labels."""
    if names is None and label is not None:
        raise InputError(
            f"{argument('label', label)} is not possible: this matcher returns a score and has no "
            "labels. Leave the label out."
        )
    if names is None:
        return None
    if label is None and len(names) == 2:
        return 1
    if label is None:
        raise InputError(
            f"A label to rank by is missing. Name one of {', '.join(names)} with "
            f"{argument('label')}."
        )
    if label not in names:
        raise InputError(f"{label!r} is not a label. Expected one of {', '.join(names)}.")
    return names.index(label)
