"""Further training pairs, made by rule from those that there are (`training.augment`)."""

from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.folds import joined
from keras_sentmatch.transformations import Lexicon, transform
from keras_sentmatch.transformations.transform import get_transformation

SHARE = 0.3  # pairs made at most, as a share of the training pairs
ROUNDS = 10  # changes of a pair that are tried, each with another seed


def made_pairs(
    train: PairDataset, settings: TrainingConfig
) -> tuple[PairDataset | None, dict[str, int]]:
    """Pairs made from the training pairs, and how many by each transformation.

    Raises:
        InputError: An unknown transformation, one that changes no pair, or labels that do not fit.
    """
    pairs, made = None, {}
    rules = [get_transformation(name) for name in settings.augment]
    words = any(rule.needs in ("antonyms", "synonyms") for rule in rules)
    lexicon = Lexicon.read(*settings.lexicon) if words else None
    wanted = max(1, round(SHARE * len(train) / max(1, len(rules))))
    for rule in rules:
        new = _changed(train, rule.name, wanted, lexicon, settings)
        made[rule.name] = len(new)
        if not len(new):
            where = f" with the words of {', '.join(settings.lexicon)}" if rule.needs else ""
            raise InputError(
                f"training.augment: {rule.name} can change none of the {len(train):,} training "
                f"pairs{where}. Leave it out{', or name another lexicon' if where else ''}."
            )
        pairs = new if pairs is None else joined(pairs, new)
    return pairs, made


def _changed(
    train: PairDataset, name: str, wanted: int, lexicon: Lexicon | None, settings: TrainingConfig
) -> PairDataset:
    """At most `wanted` pairs changed by a rule, all different."""
    rng = np.random.default_rng(settings.seed)
    options: dict[str, Any] = {
        "lexicon": lexicon,
        "opposite": settings.augment_labels or None,
        "entries": "train",
    }
    seen, found = set(zip(train.sentence1, train.sentence2)), train.select([])
    for seed in range(ROUNDS):
        after = transform(train, name, seed=seed, **options).after
        fresh = []
        for row in rng.permutation(len(after)):
            pair = after.sentence1[row], after.sentence2[row]
            if pair not in seen:
                seen.add(pair)
                fresh.append(row)
        if not fresh:
            break
        new = after.select(fresh[: wanted - len(found)])
        found = joined(found, new) if len(found) else new
        if len(found) >= wanted:
            break
    return found
