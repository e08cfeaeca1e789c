"""Write docs/errors.md: each message that the tests provoke, by what one was doing.

python docs/tools/errors.py
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
sys.path.insert(0, str(ROOT))  # for the tests

from keras_sentmatch.data import PairDataset, read_pairs  # noqa: E402
from keras_sentmatch.errors import InputError  # noqa: E402
from keras_sentmatch.training import Recipe, load_recipe  # noqa: E402
from tests.data import test_dataset, test_readers  # noqa: E402
from tests.inference import test_messages as inference  # noqa: E402
from tests.training import test_messages as training  # noqa: E402
from tests.vectors import test_files as vectors  # noqa: E402

INTRO = """# Errors and what to do

Bad input raises one `InputError`, on the command line a line that begins with `error:`. It says what came, what was
expected, and what to do. This page lists the messages that the tests provoke, so that a search finds them; names
and numbers are those of the tests. Any other exception is a fault of the library.
"""


def reading(folder: Path) -> Iterator[Callable[[], Any]]:
    for name, text, options, _ in [(n, t, {}, m) for n, t, m, _ in test_readers.BAD] + list(
        test_readers.BAD_FILES
    ):
        path = folder / name
        yield lambda path=path, text=text, options=options: read_file(path, text, options)


def read_file(path: Path, text: str | bytes, options: dict[str, Any]) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    read_pairs(path, **options)


def making(folder: Path) -> Iterator[Callable[[], Any]]:
    for options, _ in test_dataset.BAD:
        given = {"sentence1": ["a"], "sentence2": ["c"], **options}
        yield lambda given=given: PairDataset(**given)


def word_vectors(folder: Path) -> Iterator[Callable[[], Any]]:
    for name, data, _ in vectors.BAD:
        yield lambda name=name, data=data: read_vectors(folder / name, data)


def read_vectors(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    vectors.read_vectors(path, ["a", "the", "nato"])


def recipes(folder: Path) -> Iterator[Callable[[], Any]]:
    for text in training.FILES:
        yield lambda text=text: load_text(folder / "mine.toml", text)
    for override in training.OVERRIDES:
        yield lambda override=override: load_recipe("re2", overrides=[override])
    for tables, _ in training.TABLES:
        yield lambda tables=tables: Recipe.from_tables("tiny", **tables)


def load_text(path: Path, text: str) -> None:
    path.write_text(text)
    load_recipe("drcn", file=path)


def predicting(folder: Path) -> Iterator[Callable[[], Any]]:
    many = inference.Many()
    for given, _ in inference.PAIRS:
        yield lambda given=given: many.three.predict(**given)
    for call, _ in inference.CALLS:
        yield lambda call=call: call(many)


SECTIONS = {
    "Reading pairs": reading,
    "Pairs in memory": making,
    "Word vectors": word_vectors,
    "Recipes and settings": recipes,
    "Predicting, ranking, evaluating": predicting,
}


def messages(calls: Iterator[Callable[[], Any]], folder: Path) -> list[str]:
    """Return the messages in the order of the tests, one of each form."""
    found: dict[str, str] = {}
    for call in calls:
        try:
            call()
        except InputError as error:
            text = " ".join(str(error).replace(f"{folder}/", "").split())
            form = re.sub(r"'[^']*'|[\d,.]+|\S+\.\w+:\d+", "", text)
            found.setdefault(" ".join(form.split()[:6]), shortened(text))
    return list(found.values())


def shortened(text: str) -> str:
    """Return a message without the middle of a long list."""
    begin, end = text[:110].rsplit(" ", 1)[0], text[-50:].split(" ", 1)[1]
    return text if len(text) < 180 else f"{begin} … {end}"


def page() -> str:
    text = [INTRO]
    for title, calls in SECTIONS.items():
        with tempfile.TemporaryDirectory() as name:
            lines = messages(calls(Path(name)), Path(name))
        text += [f"## {title}\n", "```text", *lines, "```\n"]
    return "\n".join(text)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
