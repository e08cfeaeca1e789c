"""Training pairs from pairs that all match: negatives are drawn from their sentences."""

import logging
from collections.abc import Sequence

import numpy as np

from keras_sentmatch.corpus._retrieval import Bm25
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers, sentence_groups
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.text import Tokenizer

LABELS = ("no_match", "match")
CANDIDATES = 30  # candidates per sentence
NEAR_COPY = 0.8  # near-duplicates share at least this part of all their words
TRIES = 20  # random draws for one negative
PARTS = ("train", "validation", "test")
log = logging.getLogger(__name__)
Counts = dict[str, dict[str, int]]


def from_positives(
    positives: PairDataset,
    *,
    fractions: Sequence[float] = (0.85, 0.05, 0.1),
    negatives: float = 1.0,
    hard: float = 0.5,
    seed: int = 0,
) -> tuple[dict[str, PairDataset], Counts]:
    """Make training, validation and test pairs from pairs that all match.

    A negative pairs a first sentence with the second sentence of another pair. *Hard* negatives
    share rare words (BM25), *easy* negatives are drawn at random. A negative is never a known match,
    not even an indirect one (if a matches b, and b matches c, then a and c are no negative), and
    never a near-duplicate of a sentence that the first one matches. Hard negatives may be matches
    that the pairs do not contain. Pairs that share sentences stay in one part, and the negatives of
    a part come from its own sentences.

    Args:
        positives: Pairs that match; their labels are ignored.
        fractions: Shares of the training, validation and, optionally, test pairs.
        negatives: Number of negatives per matching pair. Defaults to `1.0`.
        hard: Share of hard negatives. If too few are found, easy negatives replace them. Defaults
            to `0.5`.
        seed: Random seed of the parts and the draws.

    Returns:
        The parts by name, with the labels `no_match` and `match`, and the counts of each part: pairs
        (`match`, `hard`, `easy`) and rejected candidates (`known` matches, near-duplicate `copies`).

    Raises:
        InputError: If shared sentences connect all pairs, an argument is out of range, or bm25s is
            not installed.

    Example:

    ```python
    from keras_sentmatch.corpus import from_positives
    from keras_sentmatch.data import read_pairs

    parts, counts = from_positives(read_pairs("matches.tsv"), negatives=2)
    counts["train"]  # {"match": 850, "hard": 850, "easy": 850, "known": 112, "copies": 9}
    ```
    """
    if not 0 < negatives <= CANDIDATES:
        raise InputError(
            f"{argument('negatives', negatives)} is out of range. Expected a number above 0 and at "
            f"most {CANDIDATES}."
        )
    if not 0 <= hard <= 1:
        raise InputError(f"{argument('hard', hard)} is out of range. Expected a share from 0 to 1.")
    groups = sentence_groups(positives)
    if len(set(groups.tolist())) < 2:
        raise InputError(
            f"Shared sentences connect all {len(positives):,} matching pairs"
            f"{f' of {positives.name}' if positives.name else ''}, so there are no negatives. Add pairs "
            "of other sentences."
        )
    part = part_numbers(positives, fractions, seed=seed, groups=groups)
    parts, counts = {}, {}
    for number, name in enumerate(PARTS[: len(fractions)]):
        rows = np.flatnonzero(part == number)
        rng = np.random.default_rng((seed, number))
        parts[name], counts[name] = _with_negatives(
            positives.select(rows), groups[rows], negatives, hard, rng, name
        )
    return parts, counts


def _with_negatives(
    positives: PairDataset,
    groups: np.ndarray,
    negatives: float,
    hard: float,
    rng: np.random.Generator,
    name: str,
) -> tuple[PairDataset, dict[str, int]]:
    if len(set(groups.tolist())) < 2:
        raise InputError(
            f"Shared sentences connect all {len(positives):,} matching pairs of the {name} part, so "
            "there are no negatives. Add pairs, or make the part larger."
        )
    draw = _Draw(positives, groups, rng)
    wanted = round(negatives * len(positives))
    turns = np.concatenate([rng.permutation(len(positives)) for _ in range(int(negatives) + 1)])
    asked = rng.permutation(wanted) < round(hard * wanted)
    for row, is_hard in zip(turns[:wanted].tolist(), asked.tolist()):
        if not (is_hard and draw.hard(row)):
            draw.easy(row)
    found = draw.found
    if missing := wanted - len(found):
        log.warning(f"{name}: {missing:,} of {wanted:,} negatives were not found")
    pairs = PairDataset(
        [*positives.sentence1, *(one for one, _ in found)],
        [*positives.sentence2, *(two for _, two in found)],
        [1] * len(positives) + [0] * len(found),
        label_names=LABELS,
        name=positives.name,
        split=name,
    )
    return pairs, {"match": len(positives), **draw.counts}


class _Draw:
    """Draws second sentences that do not match a given first sentence."""

    def __init__(self, positives: PairDataset, groups: np.ndarray, rng: np.random.Generator):
        self.positives, self.groups, self.rng = positives, groups, rng
        self.found: dict[tuple[str, str], None] = {}
        self.counts = dict.fromkeys(("hard", "easy", "known", "copies"), 0)
        self.group_of = dict(zip(positives.sentence2, groups.tolist()))
        self.second = list(self.group_of)
        tokenize = Tokenizer()
        self.words: dict[str, frozenset[str]] = {
            text: frozenset(tokenize(text)) for text in (*positives.sentence1, *self.second)
        }
        first = list(dict.fromkeys(positives.sentence1))
        ranking = Bm25(self.second).search(first, CANDIDATES)
        self.candidates = {
            text: [number for number in row if number >= 0]
            for text, row in zip(first, ranking.tolist())
        }
        self.members: dict[int, dict[frozenset[str], None]] = {}
        for row, group in enumerate(groups.tolist()):
            pair = positives.sentence1[row], positives.sentence2[row]
            self.members.setdefault(group, {}).update((self.words[text], None) for text in pair)

    def hard(self, row: int) -> bool:
        """Take the best remaining candidate; return whether there is one."""
        candidates = self.candidates[self.positives.sentence1[row]]
        while candidates:
            if self._take(row, candidates.pop(0), "hard"):
                return True
        return False

    def easy(self, row: int) -> None:
        for number in self.rng.integers(0, len(self.second), TRIES).tolist():
            if self._take(row, number, "easy"):
                return

    def _take(self, row: int, number: int, kind: str) -> bool:
        one, two = self.positives.sentence1[row], self.second[number]
        group = int(self.groups[row])
        if self.group_of[two] == group:
            self.counts["known"] += 1
        elif any(_alike(self.words[two], words) for words in self.members[group]):
            self.counts["copies"] += 1
        elif (one, two) not in self.found:
            self.found[one, two] = None
            self.counts[kind] += 1
            return True
        return False


def _alike(one: frozenset[str], two: frozenset[str]) -> bool:
    return len(one & two) >= NEAR_COPY * len(one | two)
