"""Test suites: pairs made to find a matcher's weaknesses, read from their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_sentmatch.data import PairDataset, load_pairs, read_pairs
from keras_sentmatch.data.formats import FORMATS
from keras_sentmatch.data.load import format_and_path
from keras_sentmatch.errors import InputError


@dataclass(frozen=True)
class Suite:
    """Pairs to test on.

    Attributes:
        name: Name of the data.
        pairs: Labeled pairs.
        rows: The rows that have an original, if the suite was made by changing pairs.
        originals: The originals.
    """

    name: str
    pairs: PairDataset
    rows: tuple[int, ...] = ()
    originals: PairDataset | None = None

    @property
    def categories(self) -> tuple[str, ...]:
        """The category of each pair (empty if it has none), if the file has categories."""
        found = self.pairs.columns.get("category", ())
        return found if any(found) else ()


def read_suite(source: str | Path) -> list[Suite]:
    """Reads the labeled pairs of a file or folder as a suite.

    Formats such as AdvGLUE are recognized by their files (`list_formats()`). Of a folder, the test
    part is read, or the validation part if there is no labeled test part.

    Args:
        source: A file or folder, or `"FORMAT:path"`.

    Returns:
        One suite; for an AdvGLUE file, one for each of its tasks on pairs.

    Raises:
        InputError: If the pairs cannot be read or have no class labels.

    Example:

    ```python
    [suite.name for suite in read_suite("advglue/dev.json")]  # ["advglue-mnli", …]
    ```
    """
    format, path = format_and_path(source)
    first = _labeled_part(source) if Path(path).is_dir() else read_pairs(path, format=format)
    parts = [first]
    if format is None and first.name.startswith("advglue-"):
        file = Path(first.report.source) if first.report else Path(path)
        tasks = [name for name in FORMATS if name.startswith("advglue-")]
        parts = [read_pairs(file, format=name) for name in tasks]
    return [_suite(pairs, source) for pairs in parts]


def _labeled_part(source: str | Path) -> PairDataset:
    parts = load_pairs(source)
    for name in ("test", "validation", "train"):
        if name in parts and parts[name].labels is not None:
            return parts[name]
    raise InputError(f"{source}: no part of this data is labeled, so there is nothing to test on.")


def _suite(pairs: PairDataset, source: str | Path) -> Suite:
    if pairs.labels is None or not pairs.label_names:
        raise InputError(f"{source}: a test suite needs pairs labeled with classes.")
    columns = [pairs.columns.get(f"original_{side}", ()) for side in "12"]
    rows = [row for row, old in enumerate(zip(*columns)) if any(old)]
    if not rows:
        return Suite(pairs.name or str(source), pairs)
    chosen = pairs.select(rows)
    originals = chosen.to_dict() | {
        "sentence1": [columns[0][row] for row in rows],
        "sentence2": [columns[1][row] for row in rows],
    }
    return Suite(pairs.name, pairs, tuple(rows), PairDataset.from_dict(originals))


def common_names(
    answers: Sequence[str], labels: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]] | None:
    """What each of a matcher's answers and a suite's labels counts as, to compare them.

    The name itself; `paraphrase` for `duplicate`; or, if only one side distinguishes neutral from
    contradiction, `not_entailment` for both. `None` if the names mean different things.
    """
    one, other = set(answers), set(labels)
    if one == other:
        return {name: name for name in answers}, {name: name for name in labels}
    for table in (_SAME_MEANING, _TWO_WAY):
        if one and one | other <= table.keys():
            return {name: table[name] for name in answers}, {name: table[name] for name in labels}
    return None


_SAME_MEANING = {
    **{name: "paraphrase" for name in ("paraphrase", "duplicate")},
    **{f"not_{name}": "not_paraphrase" for name in ("paraphrase", "duplicate")},
}
_TWO_WAY = {
    "entailment": "entailment",
    **dict.fromkeys(("neutral", "contradiction", "not_entailment"), "not_entailment"),
}
