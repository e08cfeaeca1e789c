"""Explains a prediction by the model's attention and by the importance of each word."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.rendering import render_page
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations._erasure import Erasure, Run, erase_words, summarize
from keras_sentmatch.explanations._page import make_bar, make_groups, make_words, pack_links
from keras_sentmatch.explanations._panels import Picture, make_pictures
from keras_sentmatch.explanations._words import ShownWord, find_links, find_starts, shown_words
from keras_sentmatch.inference.pairs import as_dataset
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    from keras_sentmatch.inference import EnsembleMatcher, Matcher


@dataclass
class Explanation:
    """The prediction for one pair, and what it is based on.

    Attributes:
        sentence1: The first sentence.
        sentence2: The second sentence.
        tokens_1: The tokens of the first sentence that the model reads, after truncation.
        tokens_2: The tokens of the second sentence.
        tokens: The tokens of both sentences if the model reads them as one sequence.
        unknown: Words that are not in the vocabulary; empty for word pieces, which show `[UNK]`.
        probabilities: The probability of each label by name; empty for scores.
        label: The predicted label, or the most probable label if the matcher abstains; `None` for
            scores.
        score: The score of a scoring model, or `None`.
        abstained: Whether the matcher abstains because no label is probable enough.
        gold: The label (or score) in the data, if there is one.
        values: The arrays of the model's `explainer()` by name, in float64 and without padding: an
            axis of tokens is as long as `tokens_1`, `tokens_2` or `tokens`.
        pictures: The pictures of the page, in order.
        erasure: The importance of each word, measured by leaving it out, or `None`.
        facts: Model, data, backend and versions for the head of the page. You may add to them.
        notes: What is not shown, and why.
        starts: The positions at which the tokens of sentence 1 and 2 begin.

    Example:

    ```python
    explanation = explain(matcher, "A dog runs.", "An animal moves.")
    explanation.save("page.html")
    explanation.values["attention_1"].shape  # (4, 4) for ESIM: tokens_1 x tokens_2
    ```
    """

    sentence1: str
    sentence2: str
    tokens_1: tuple[str, ...]
    tokens_2: tuple[str, ...]
    tokens: tuple[str, ...]
    probabilities: dict[str, float]
    label: str | None
    score: float | None
    gold: str | float | None = None
    values: dict[str, np.ndarray] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    erasure: Erasure | None = None
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unknown: tuple[str, ...] = ()
    abstained: bool = False
    starts: dict[int, list[int]] = field(default_factory=dict)

    @property
    def html(self) -> str:
        """The page as one HTML document that needs no other file and no network."""
        return self._render(whole=True)

    @property
    def fragment(self) -> str:
        """The part of the page below the prediction, for a page that shows the prediction itself."""
        return self._render(whole=False)

    def _render(self, whole: bool) -> str:
        sides = self.words(1), self.words(2)
        links = find_links(self.pictures, sides)
        return render_page(
            "explanation.html",
            f"{self.label or self.score}: {self.sentence1} / {self.sentence2}",
            whole=whole,
            script_file="explanation.js" if links else "",
            explanation=self,
            summary=self._lines(),
            answers=[
                make_bar(name, share, 1.0, "chosen" * (name == self.label))
                for name, share in self.probabilities.items()
            ],
            sides=make_words(sides, self.label is None),
            links=pack_links(links),
            unknown=list(dict.fromkeys(w.text for side in sides for w in side if w.unknown)),
            groups=make_groups(self.pictures),
        )

    def _lines(self) -> list[list[Run]]:
        probability = None if self.label is None else self.probabilities[self.label]
        return summarize(
            self.label, self.score, probability, self.gold, self.erasure, self.abstained
        )

    def summary(self) -> str:
        """Return the prediction and the words that decided it, as lines of text."""
        return "\n".join("".join(text for text, _ in line) for line in self._lines())

    def words(self, side: int) -> list[ShownWord]:
        """Return the words of sentence 1 or 2 with their tokens and importance."""
        text, tokens = ((self.sentence1, self.tokens_1), (self.sentence2, self.tokens_2))[side - 1]
        effects = [e for e in (self.erasure.effects if self.erasure else ()) if e.side == side]
        return shown_words(text, tokens, self.unknown, effects, self.starts.get(side, ()))

    def _repr_html_(self) -> str:
        """Return the page in a frame, so that it does not change the style of a notebook."""
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return (
            f'<iframe sandbox=allow-scripts srcdoc="{escape(self.html)}" style="{style}"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the page and return its path."""
        return _write_page(path, self.html)

    def rereads(self) -> list[tuple[str, Picture]]:
        """Return the pictures of re-read words (see `Picture.steps`), each with its sentence."""
        sides = {"1": self.sentence1, "2": self.sentence2}
        both = f"{self.sentence1} {self.sentence2}"
        return [(sides.get(p.axes[1], both), p) for p in self.pictures if p.reread]


def save_overview(path: str | Path, pages: Sequence[tuple[str, Explanation]], title: str) -> Path:
    """Write a page that links to the pages of many pairs, given as addresses and explanations."""
    return _write_page(path, render_page("explanation_index.html", title, rows=pages))


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

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.explanations import explain

    explanation = explain(Matcher.load("runs/mine"), "A dog runs.", "An animal moves.")
    explanation.save("page.html")
    ```
    """
    for member in getattr(matcher, "members", [matcher]):
        if not hasattr(member, "model"):
            raise InputError(
                f"{member!r} has no Keras model, so nothing inside it can be shown. Load the run as a "
                "Matcher to explain it."
            )
    dataset, single = as_dataset(pairs, sentence1, sentence2)
    scores = matcher.predict_proba(dataset, batch_size=batch_size)
    found = []
    abstained = [bool(answer.get("abstained")) for answer in matcher.answers(scores)]
    for row, answer in enumerate(matcher.answers(scores, abstain=False)):
        pair, gold = dataset.select([row]), None
        if pair.labels is not None:
            label = pair.labels[0]
            gold = pair.label_names[label] if pair.label_names else float(label)
        explanation = Explanation(
            sentence1=pair.sentence1[0],
            sentence2=pair.sentence2[0],
            tokens_1=(),
            tokens_2=(),
            tokens=(),
            probabilities=dict(answer.get("probabilities", {})),
            label=answer.get("label"),
            score=answer.get("score"),
            gold=gold,
            abstained=abstained[row],
            facts=_facts(matcher),
        )
        if hasattr(matcher, "members"):
            explanation.notes.append(
                f"This prediction is the mean of {len(matcher.members)} matchers, so there is no "
                "single attention to draw. Explain one of the matchers to see its attention."
            )
        else:
            with matcher.lending(pair.sentence1, pair.sentence2) as parts:
                next(parts)  # the unseen words of the pair have their vectors
                _look_inside(explanation, matcher, pair)
        if erasure:
            _erase(explanation, matcher, scores[row], batch_size)
        found.append(explanation)
    return found[0] if single else found


def _write_page(path: str | Path, html: str) -> Path:
    """Write a page and create its folder."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")  # lone surrogates
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    return path


def _look_inside(explanation: Explanation, matcher: Any, pair: PairDataset) -> None:
    """Fill in tokens, values and pictures."""
    encoder = matcher.encoder
    truncated_before = encoder.report.truncated
    tags = pair.tags if "pos" in encoder.features else None
    encoded = encoder.encode_pairs(pair.sentence1, pair.sentence2, tags=tags)
    if encoder.report.truncated > truncated_before:
        explanation.notes.append(
            "The pair is too long for the model, which has read only the tokens shown."
        )
    tokens = encoder.pair_tokens(explanation.sentence1, explanation.sentence2)
    explanation.tokens_1, explanation.tokens_2 = tuple(tokens["1"]), tuple(tokens["2"])
    explanation.tokens = tuple(tokens.get("joint", ()))
    if isinstance(encoder, SubwordPairEncoder):
        texts = explanation.sentence1, explanation.sentence2
        explanation.starts = {
            side: encoder.places(text) or find_starts(text, tokens[str(side)])
            for side, text in enumerate(texts, 1)
        }
    if isinstance(encoder, PairEncoder):
        words = dict.fromkeys([*explanation.tokens_1, *explanation.tokens_2])
        explanation.unknown = tuple(word for word in words if not encoder.knows(word))
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
        arrays, shapes, tokens, matcher.label_names, matcher.model
    )
    explanation.notes += notes


def _erase(explanation: Explanation, matcher: Any, scores: Any, batch_size: int) -> None:
    """Fill in the importance of words."""
    members = getattr(matcher, "members", [matcher])
    if any("pos" in m.encoder.features and not m.encoder.tagger for m in members):
        explanation.notes.append(
            "The importance of words was not measured: the model needs part-of-speech tags, and a "
            "sentence without one of its words has none."
        )
        return
    pair = explanation.sentence1, explanation.sentence2
    explanation.erasure = erase_words(
        matcher, *pair, scores, batch_size=batch_size, starts=explanation.starts
    )


def _facts(matcher: Any) -> dict[str, str]:
    first = getattr(matcher, "members", [matcher])[0]
    info = {name: first.info[name] for name in ("model", "data", "seed") if name in first.info}
    return {
        "model": first.model.name,
        **{name: str(value) for name, value in info.items()},
        "backend": keras.config.backend(),
        "keras": keras.__version__,
        "keras_sentmatch": __version__,
    }
