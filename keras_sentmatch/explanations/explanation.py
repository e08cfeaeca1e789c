"""Explains a prediction by the model's attention and by the importance of each word."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.colors import Scale
from keras_sentmatch.display.rendering import render_page
from keras_sentmatch.display.tables import write_text
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations._occlusion import (
    Effect,
    Run,
    deciding,
    describe,
    erasable,
    occlude,
)
from keras_sentmatch.explanations.pictures import Picture, format_short, make_pictures
from keras_sentmatch.inference.pairs import as_dataset
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

LEAST_CHANGE = 0.05  # the darkest color means at least this change of a probability
LABELED = 0.25  # a word's change is always shown from this share of the largest change


class ShownWord(NamedTuple):
    """A word of a sentence, the text before it, and the effect of leaving it out, if measured."""

    text: str
    before: str
    effect: Effect | None


@dataclass
class Explanation:
    """The prediction for one pair, and what it is based on.

    Attributes:
        sentence1: The first sentence.
        sentence2: The second sentence.
        probabilities: The probability of each label by name; empty for scores.
        label: The predicted label, or the most probable label if the matcher abstains; `None` for
            scores.
        score: The score of a scoring model, or `None`.
        abstained: Whether the matcher abstains because no label is probable enough.
        gold: The label (or score) in the data, if there is one.
        tokens: The tokens that the model reads, after truncation: of `"1"` and `"2"`, and of
            `"joint"` if it reads both sentences as one sequence.
        values: The arrays of the model's `explainer()` by name, in float64 and without padding.
        pictures: The pictures of the page, in order.
        effects: The effect of leaving out each word, or `None` if it was not measured.
        facts: Model, data, backend and versions for the head of the page. You may add to them.
        notes: What is not shown, and why.

    Example:

    ```python
    explanation = explain(matcher, "A dog runs.", "An animal moves.")
    explanation.save("page.html")
    explanation.values["attention_1"].shape  # (4, 4) for ESIM: tokens of 1 x tokens of 2
    ```
    """

    sentence1: str
    sentence2: str
    probabilities: dict[str, float]
    label: str | None
    score: float | None
    abstained: bool = False
    gold: str | float | None = None
    tokens: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    effects: list[Effect] | None = None
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def html(self) -> str:
        """The page as one HTML document that needs no other file and no network."""
        return self._render(whole=True)

    @property
    def fragment(self) -> str:
        """The part of the page below the prediction, for a page that shows the prediction itself."""
        return self._render(whole=False)

    def _render(self, whole: bool) -> str:
        title = f"{self.label or self.score}: {self.sentence1} / {self.sentence2}"
        return render_page(
            "explanation.html", title, whole=whole, explanation=self, summary=self._lines(),
            sides=[self._styled(side) for side in (1, 2)],
        )  # fmt: skip

    def _lines(self) -> list[list[Run]]:
        if self.label is None:
            first: list[Run] = [("The score is ", False), (f"{self.score:.4f}", True), (".", False)]
        else:
            share = f", with a probability of {self.probabilities[self.label]:.1%}."
            start = "The prediction is "
            if self.abstained:
                start = "The matcher abstains; the most probable label is "
            first = [(start, False), (self.label, True), (share, False)]
        lines = [first]
        if self.gold is not None:
            lines.append([("The data says ", False), (str(self.gold), True), (".", False)])
        if self.effects is not None:
            lines += describe(self.effects, self.label is None)
        return lines

    def summary(self) -> str:
        """Return the prediction and the words that decided it, as lines of text.

        A small number after a word names its sentence.
        """
        return "\n".join("".join(text for text, _ in line) for line in self._lines())

    def deciding(self) -> list[Effect]:
        """Return the effects of the most important words, the largest first."""
        return deciding(self.effects or [], self.label is None)

    def words(self, side: int) -> list[ShownWord]:
        """Return the words of sentence 1 or 2 with their effects."""
        text = (self.sentence1, self.sentence2)[side - 1]
        effects = {effect.start: effect for effect in self.effects or () if effect.side == side}
        found, end = [], 0
        for word in erasable(text):
            found.append(ShownWord(word.text, text[end : word.start], effects.get(word.start)))
            end = word.end
        return [*found, ShownWord("", text[end:], None)]

    def _styled(self, side: int) -> list[tuple[ShownWord, str, str]]:
        """Return the words of a sentence with their styles and numbers."""
        greatest = max((abs(effect.change) for effect in self.effects or ()), default=0.0)
        high = (greatest if self.label is None else max(greatest, LEAST_CHANGE)) or 1.0
        places = 2 if greatest >= 0.1 else 3 if greatest >= 0.01 else 4
        found = []
        for word in self.words(side):
            style, number = "", ""
            if word.effect:
                change = word.effect.change
                level = Scale(-high, high).levels(np.array([change]))[0]
                large = abs(change) >= max(LABELED * greatest, 10**-places)
                style = f"d{level}{' flip' * bool(word.effect.answer)}{' labeled' * large}"
                number = ("+" if change > 0 else "") + format_short(change, places)
            found.append((word, style, number))
        return found

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that it does not change the style of a notebook."""
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return f'<iframe sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page and return its path."""
        write_text(Path(path), self.html)
        return Path(path)


def save_overview(path: Path, pages: Sequence[tuple[str, Explanation]], title: str) -> None:
    """Write a page that links to the pages of many pairs, given as addresses and explanations."""
    write_text(path, render_page("explanation_index.html", title, rows=pages))


def explain(
    matcher: "Matcher | EnsembleMatcher",
    pairs: Any = None,
    sentence2: str | Sequence[str] | None = None,
    *,
    sentence1: str | Sequence[str] | None = None,
    erasure: bool = True,
    batch_size: int = 64,
) -> Explanation | list[Explanation]:
    """Show what a prediction is based on: the model's attention and the importance of each word.

    Args:
        matcher: The matcher to explain. An ensemble shows the importance of words only.
        pairs: One pair or many, as for `Matcher.predict`.
        sentence2: The second sentence or sentences, as for `Matcher.predict`.
        sentence1: The first sentence or sentences, as for `Matcher.predict`.
        erasure: Whether to measure the importance of words by scoring each pair without each word.
        batch_size: Maximum number of pairs per batch.

    Returns:
        An `Explanation` for one pair, which a notebook displays, or a list for many pairs.

    Raises:
        InputError: If the matcher has no Keras model.

    Example:

    ```python
    from keras_sentmatch import Matcher, explain

    explanation = explain(Matcher.load("runs/mine"), "A dog runs.", "An animal moves.")
    explanation.save("page.html")
    ```
    """
    members: Any = getattr(matcher, "members", [matcher])
    for member in members:
        if not hasattr(member, "model"):
            raise InputError(
                f"{member!r} has no Keras model, so nothing inside it can be shown. Load the run as a "
                "Matcher to explain it."
            )
    dataset, single = as_dataset(pairs, sentence1, sentence2)
    scores = matcher.predict_proba(dataset, batch_size=batch_size)
    abstained = [bool(answer.get("abstained")) for answer in matcher.answers(scores)]
    found = []
    for row, answer in enumerate(matcher.answers(scores, abstain=False)):
        pair, gold = dataset.select([row]), None
        if pair.labels is not None:
            gold = pair.labels[0]
            gold = pair.label_names[gold] if pair.label_names else float(gold)
        explanation = Explanation(
            pair.sentence1[0], pair.sentence2[0], dict(answer.get("probabilities", {})),
            answer.get("label"), answer.get("score"), abstained[row], gold,
            facts=_facts(members[0]),
        )  # fmt: skip
        if len(members) > 1:
            explanation.notes.append(
                f"This prediction is the mean of {len(members)} matchers, so there is no single "
                "attention to draw. Explain one of the matchers to see its attention."
            )
        else:
            with members[0].lending(pair.sentence1, pair.sentence2) as parts:
                next(parts)  # the unseen words of the pair have their vectors
                _look_inside(explanation, members[0], pair)
        if erasure and any("pos" in m.encoder.features and not m.encoder.tagger for m in members):
            explanation.notes.append(
                "The importance of words was not measured: the model needs part-of-speech tags, and "
                "a sentence without one of its words has none."
            )
        elif erasure:
            both = explanation.sentence1, explanation.sentence2
            explanation.effects = occlude(matcher, *both, scores[row], batch_size)
        found.append(explanation)
    return found[0] if single else found


def _look_inside(explanation: Explanation, matcher: Any, pair: PairDataset) -> None:
    """Fill in tokens, values and pictures."""
    encoder = matcher.encoder
    truncated_before = encoder.report.truncated
    tags = pair.tags if "pos" in encoder.features else None
    encoded = encoder.encode_pairs(pair.sentence1, pair.sentence2, tags=tags)
    if encoder.report.truncated > truncated_before:
        explanation.notes.append(
            "The pair is too long for the model, which has read only its first tokens."
        )
    explanation.tokens = encoder.pair_tokens(explanation.sentence1, explanation.sentence2)
    if isinstance(encoder, PairEncoder):
        words = dict.fromkeys([*explanation.tokens["1"], *explanation.tokens["2"]])
        if unknown := [word for word in words if not encoder.knows(word)]:
            explanation.notes.append(f"Not in the vocabulary: {', '.join(unknown)}.")
    explainer = matcher.explainer()
    if explainer is None:
        explanation.notes.append(f"{type(matcher.model).__name__} has no attention to draw.")
        return
    ((_, _, length),) = prediction_batches(encoded.lengths.max(axis=1), 1, encoder.max_length)
    features = encoded.arrays(np.zeros(1, int), length)
    outputs = explainer.predict_on_batch({name: features[name] for name in explainer.input})
    arrays = {name: array[0] for name, array in outputs.items() if name != "probabilities"}
    shapes = {name: tuple(explainer.output[name].shape[1:]) for name in arrays}
    explanation.values, explanation.pictures, notes = make_pictures(
        arrays, shapes, explanation.tokens, matcher.label_names, matcher.model
    )
    explanation.notes += notes


def _facts(matcher: Any) -> dict[str, str]:
    info = {name: matcher.info[name] for name in ("model", "data", "seed") if name in matcher.info}
    return {
        "model": matcher.model.name,
        **{name: str(value) for name, value in info.items()},
        "backend": keras.config.backend(),
        "keras": keras.__version__,
        "keras_sentmatch": __version__,
    }
