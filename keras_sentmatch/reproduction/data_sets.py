"""The data sets of a table, in the folders of one folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from keras_sentmatch.data import PairDataset, load_pairs, read_pairs, split_pairs
from keras_sentmatch.data.formats import FORMATS, SPLITS, file_names, recognize_folder
from keras_sentmatch.errors import InputError

SHARES = (0.75, 0.05, 0.2)  # of the parts that are split off a single one


class Parts(NamedTuple):
    """The labeled pairs of a data set by part, and what differs from its official parts."""

    pairs: Mapping[str, PairDataset]
    note: str = ""
    annotations: Path | None = None  # people's linguistic categories of the pairs


def find_data(root: Path, name: str) -> str:
    """Return the source of a data set for `load_pairs`: `FORMAT:FOLDER`."""
    folders = dict.fromkeys((name, name.replace("-", "_"), name.split("-")[0]))
    for folder in folders:
        if name in FORMATS and (root / folder).is_dir():
            return f"{name}:{root / folder}"
    raise InputError(what_is_needed(root, [name]))


def what_is_needed(root: Path, names: list[str]) -> str:
    """Return which data sets are missing, what they are, and where their files belong."""
    lines = [
        f"{FORMATS[name].description} ({file_names(FORMATS[name])}) in {root / name.split('-')[0]}"
        for name in names
        if name in FORMATS
    ]
    return (
        f"none of its data is there: {', '.join(names)}. Get the official files and put them into a "
        f"folder for each data set: {'; '.join(lines)}."
    )


def load_parts(root: Path, name: str, limit: int | None = None, *, train: bool = True) -> Parts:
    """Load a data set. A missing test part is split off the training pairs, or off the only part.

    Args:
        root: The folder with a folder for each data set.
        name: Name of the data set.
        limit: Maximum number of pairs of each part.
        train: Whether something is trained on it; else its parts stay as they are.
    """
    source = find_data(root, name)
    own = recognize_folder(Path(source.partition(":")[2]), name)[1]
    if train:
        found = load_pairs(source)
    else:  # whole: nothing is split off
        found = {part: read_pairs(file, format=name, split=part) for part, (file, _) in own.items()}
    labeled = {part: pairs for part, pairs in found.items() if pairs.labels is not None}
    if not labeled:
        raise InputError(f"{name} in {root} has no labeled pairs.")
    note = ""
    if train and "train" not in labeled:
        only = max(labeled, key=lambda part: len(labeled[part]))
        labeled = dict(zip(SPLITS, split_pairs(labeled[only], SHARES, seed=0)))
        note = f"only the {only} part was there, split 75/5/20"
    elif train and "test" not in labeled and "validation" in own:
        rest, validation = split_pairs(labeled["train"], (0.95, 0.05), seed=0)
        labeled = {"train": rest, "validation": validation, "test": labeled["validation"]}
        note = "no labeled test part was there: measured on the validation part, chosen on 5% of the training pairs"
    elif train and "test" not in labeled:
        rest, test = split_pairs(labeled["train"], (0.8, 0.2), seed=0)
        labeled |= {"train": rest, "test": test}
        note = "no labeled test part was there: measured on a fifth of the training pairs"
    if limit is not None:
        labeled = {part: pairs.limit(limit) for part, pairs in labeled.items()}
    named = {p: pairs.select(range(len(pairs)), split=p) for p, pairs in labeled.items()}
    notes = [path for path in Path(source.partition(":")[2]).iterdir() if "annotation" in path.name]
    other = "mismatched" in name  # MultiNLI's two validation parts lie in one folder
    notes = [path for path in notes if ("mismatched" in path.name) == other]
    return Parts(named, note, min(notes, default=None))
