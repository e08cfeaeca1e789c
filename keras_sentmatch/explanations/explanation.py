"""What a matcher looked at to answer a pair, and what each word does for the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations.erasure import Erasure, erase_words
from keras_sentmatch.explanations.page import (
    make_bar,
    make_groups,
    make_words,
    pack_links,
    render_page,
)
from keras_sentmatch.explanations.pictures import Picture, make_pictures
from keras_sentmatch.explanations.png import draw_all
from keras_sentmatch.explanations.summary import Run, summarize
from keras_sentmatch.explanations.words import ShownWord, find_links, find_starts, shown_words
from keras_sentmatch.inference.pairs import as_dataset, batches

if TYPE_CHECKING:
    from keras_sentmatch.inference import EnsembleMatcher, Matcher


@dataclass
class Explanation:
    """A matcher's answer to one pair, and what it looked at.

    Attributes:
        sentence1: The first sentence.
        sentence2: The second sentence.
        tokens_1: The tokens of the first sentence as the model sees them, after truncation.
        tokens_2: The tokens of the second sentence.
        tokens: The tokens of both in one sequence, if the model reads them so.
        unknown: Words that are not in the vocabulary; empty for word pieces, which show `[UNK]`.
        probabilities: Probability of each label by name; empty for scores.
        label: The answer, or the likeliest label if the matcher abstains; `None` for scores.
        score: The score of a scoring model; else `None`.
        abstained: Whether no label is sure enough for the matcher to answer it.
        gold: The label (or score) in the data, if there is one.
        values: The arrays of the model's `explainer()` by name, in float64 and without padding: an
            axis of tokens is as long as `tokens_1`, `tokens_2` or `tokens`.
        pictures: What is drawn, in order.
        erasure: The importance of each word by leaving it out, if available.
        facts: Model, data, backend and versions for the head of the page. You may add to them.
        notes: What is not shown, and why.
        starts: Where each token of sentence 1 and 2 begins in it.

    Example:

    ```python
    explanation = matcher.explain(sentence1="A dog runs.", sentence2="An animal moves.")
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
        """The page: one HTML document that needs no other file and no network."""
        return self._render(whole=True)

    @property
    def fragment(self) -> str:
        """What the page shows under the answer, for a page that shows the answer itself."""
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
        """The answer, and the words that decided it, as lines of text."""
        return "\n".join("".join(text for text, _ in line) for line in self._lines())

    def words(self, side: int) -> list[ShownWord]:
        """The words of sentence 1 or 2, with the tokens and the importance of each."""
        text, tokens = ((self.sentence1, self.tokens_1), (self.sentence2, self.tokens_2))[side - 1]
        effects = [e for e in (self.erasure.effects if self.erasure else ()) if e.side == side]
        return shown_words(text, tokens, self.unknown, effects, self.starts.get(side, ()))

    def _repr_html_(self) -> str:
        """The page in a frame, so that it does not change the style of a notebook."""
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return (
            f'<iframe sandbox=allow-scripts srcdoc="{escape(self.html)}" style="{style}"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Writes the page; returns its path."""
        return _write_page(path, self.html)

    def save_pngs(self, folder: str | Path) -> list[Path]:
        """Draws each picture with matplotlib into a file `NN-title.png`; returns the paths."""
        return draw_all(self.pictures, self.erasure, Path(folder))

    def rereads(self) -> list[tuple[str, Picture]]:
        """The pictures of words read again (see `Picture.steps`), each with what was read."""
        sides = {"1": self.sentence1, "2": self.sentence2}
        both = f"{self.sentence1} {self.sentence2}"
        return [(sides.get(p.axes[1], both), p) for p in self.pictures if p.reread]


def save_index(path: str | Path, pages: Sequence[tuple[str, Explanation]], title: str) -> Path:
    """Writes a page that links to the pages of many pairs, given by address and explanation."""
    return _write_page(path, render_page("explanation_index.html", title, rows=pages))


def explain(
    matcher: "Matcher | EnsembleMatcher",
    pairs: Any = None,
    *,
    sentence1: str | Sequence[str] | None = None,
    sentence2: str | Sequence[str] | None = None,
    erasure: bool = True,
    batch_size: int = 64,
) -> Explanation | list[Explanation]:
    """Explains the answers of a `Matcher` or an `EnsembleMatcher`, whose `explain` this is.

    Args:
        matcher: The matcher to explain.
        pairs: As for `Matcher.predict`.
        sentence1: As for `Matcher.predict`.
        sentence2: As for `Matcher.predict`.
        erasure: Whether to answer each pair again without each of its words.
        batch_size: Number of pairs scored at once.

    Returns:
        An `Explanation` for one pair, a list of them for many.
    """
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
        _look_inside(explanation, matcher, pair)
        if erasure:
            _erase(explanation, matcher, scores[row], batch_size)
        found.append(explanation)
    return found[0] if single else found


def _write_page(path: str | Path, html: str) -> Path:
    """Writes a page, and makes the folders above it."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")  # for lone surrogates
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from error
    return path


def _look_inside(explanation: Explanation, matcher: Any, pair: PairDataset) -> None:
    """Fills in tokens, values and pictures."""
    if hasattr(matcher, "members"):
        explanation.notes.append(
            f"This answer is the mean of {len(matcher.members)} matchers, which look at different "
            "words, so there is nothing to draw. Explain one of them."
        )
        return
    encoder = matcher.encoder
    truncated_before = encoder.report.truncated
    tags = pair.tags if "pos" in encoder.features else None
    encoded = encoder.encode_pairs(pair.sentence1, pair.sentence2, tags=tags)
    if encoder.report.truncated > truncated_before:
        explanation.notes.append(
            "The pair was too long for the model, which saw only these tokens."
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
        explanation.unknown = tuple(word for word in words if word not in encoder.vocabulary)
    explainer = matcher.explainer()
    if explainer is None:
        explanation.notes.append(f"{type(matcher.model).__name__} has no attention to draw.")
        return
    ((_, _, length),) = batches(encoded.lengths.max(axis=1), 1, encoder.max_length)
    features = encoded.arrays(np.zeros(1, int), length)
    outputs = explainer.predict_on_batch({name: features[name] for name in explainer.input})
    arrays = {name: array[0] for name, array in outputs.items() if name != "probabilities"}
    shapes = {name: tuple(explainer.output[name].shape[1:]) for name in arrays}
    explanation.values, explanation.pictures, notes = make_pictures(
        arrays, shapes, tokens, matcher.label_names, matcher.model
    )
    explanation.notes += notes


def _erase(explanation: Explanation, matcher: Any, scores: Any, batch_size: int) -> None:
    """Fills in the importance of words."""
    members = getattr(matcher, "members", [matcher])
    if any("pos" in m.encoder.features and not m.encoder.tagger for m in members):
        explanation.notes.append(
            "Words were not left out: the model needs part-of-speech tags, which a changed "
            "sentence does not have."
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
