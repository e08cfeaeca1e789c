"""How the arrays of a model's explainer are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keras_sentmatch.layers.hybrid import FEATURES


@dataclass(frozen=True)
class PictureSpec:
    """How one array of `explainer()`, or one for each sentence or layer, is drawn.

    Args:
        key: Name of the array. `{side}` stands for `1` or `2`, `{layer}` for a number counted from
            0. `title`, `caption` and `axes` may use them too, and `{other}` for the other sentence;
            there `{layer}` counts from 1.
        axes: The axes after the batch. `1`, `2` and `joint` are tokens of sentence 1, of sentence
            2, and of both in one sequence; other names are free. An axis with a question mark may
            be missing. The spec is used only if the axes fit the array.
        title: Title of the picture. Single rows with the same title become one picture.
        caption: What the picture shows.
        row: Name of the row of a one-dimensional array.
        top: Value of the darkest color. Defaults to the largest value.
        reread: Whether each row is a step at which the token with the largest weight was read.
        names: Names of the entries of an axis, where a number is not enough.
    """

    key: str
    axes: str
    title: str
    caption: str = ""
    row: str = ""
    top: float | None = None
    reread: bool = False
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def joined_rows(axes: str, title: str, caption: str = "", **rows: str) -> list[PictureSpec]:
    """The specs of one-dimensional arrays, by key, that become the rows of one picture."""
    return [PictureSpec(key, axes, title, caption, row, top=1) for key, row in rows.items()]


HEADS = "From each piece (row) to the others: the mean of the heads. Rows sum to 1."
READ = "A row for each step. The outlined token is the one read, or the middle of the phrase read."
WITHIN = "How much each word (row) attends to each word of its own sentence; rows sum to 1."

ATTENTION = PictureSpec(
    "attention_{side}",
    "layer? {side} {other}",
    "Attention, sentence {side}",
    "How much each word (row) attends to each word of sentence {other}; rows sum to 1.",
)
BACKBONE_ATTENTION = PictureSpec(
    "attention_{layer}", "head joint joint", "Attention, layer {layer}", HEADS
)
POOL_RATES = PictureSpec(
    "pool_rates_{side}",
    "{side}",
    "Max-pool rates, sentence {side}",
    "The share of the max-pooled features that come from each word; sums to 1.",
    row="rate",
)

_MAP = "Feature-averaged dot product"
_PRODUCTS = "The mean over the features of the product of two words' vectors."
_COLUMNS = (
    "A column for each feature; a row for each branch of SFA (or for each autoencoder, with FA)."
)
FEATURE_PICTURES: tuple[PictureSpec, ...] = (
    PictureSpec("feature_map_before", "autoencoder? 1 2", f"{_MAP}, before the blocks", _PRODUCTS),
    PictureSpec("feature_map", "autoencoder? 1 2", f"{_MAP}, after the blocks", _PRODUCTS),
    PictureSpec(
        "gates_{side}",
        "autoencoder? part? feature",
        "Gates of the features, sentence {side}",
        _COLUMNS,
        row="gate",
        top=1,
    ),
    PictureSpec(
        "selection_{side}",
        "autoencoder? part feature",
        "Weights of the branches, sentence {side}",
        _COLUMNS,
        top=1,
    ),
    PictureSpec("feature_map_base", "autoencoder? 1 2", _MAP, _PRODUCTS),
)
WEIGHTS = (
    PictureSpec(
        "weights_{side}",
        "{side} class",
        "Weights of the words, sentence {side}",
        "What each word adds to the logit of each class in the linear part. What a word adds by being "
        "in both sentences is counted in sentence 1.",
    ),
    PictureSpec(
        "weights_of_features",
        "feature class",
        "Weights of the matching features",
        "What each feature adds to the logit of each class in the linear part; a product of two features "
        "counts half for each.",
        names={"feature": FEATURES},
    ),
)
