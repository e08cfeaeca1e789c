"""What --data names, as datasets; what reading cost is said on stderr."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.console import say
from keras_sentmatch.errors import InputError


class OnError(StrEnum):
    """What to do with a bad row."""

    RAISE = "raise"
    SKIP = "skip"


FormatOption = Annotated[
    str | None,
    typer.Option(help="Layout of the data: a name of `keras-sentmatch datasets`. Default: seen."),
]
OnErrorOption = Annotated[
    OnError, typer.Option(help="A bad row stops everything, or is skipped and counted.")
]


ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B[,LABEL[,GROUP]]",
        help="Columns of the two sentences, of the label and of the question's id, where they have "
        "unusual names; numbers count from 0 in a file without header.",
    ),
]


FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Pairs as TSV, CSV or JSONL.")
]
Sentence1Option = Annotated[str | None, typer.Option(help="The first sentence of one pair.")]
Sentence2Option = Annotated[str | None, typer.Option(help="The second sentence of it.")]


def check_one_or_file(file: Path | None, sentence1: str | None, sentence2: str | None) -> None:
    """Refuses anything but a file, or both sentences of one pair."""
    one = sentence1 is not None and sentence2 is not None
    if one == (file is not None) or (sentence1 is None) != (sentence2 is None):
        raise InputError("give either a FILE of pairs, or both --sentence1 and --sentence2.")


@dataclass
class Source:
    """Where pairs come from and how to read them.

    Attributes:
        data: A folder or a file, `FORMAT:` and one of these, `tfds:NAME` or `embedded`.
        format: What `--format` said.
        columns: What `--columns` said.
        on_error: What `--on-error` said.
    """

    data: str
    format: str | None = None
    columns: str | None = None
    on_error: OnError = OnError.RAISE

    def __post_init__(self) -> None:
        from keras_sentmatch.data.readers import format_and_path

        self.on_error = OnError(self.on_error)
        format, data = format_and_path(self.data)
        if format and self.format is None:
            self.format, self.data = format, str(data)

    def splits(self) -> dict[str, Any]:
        """The parts by name, said on stderr.

        Splitting has a seed of its own (0): every run and every `evaluate` sees the same test part.
        """
        from keras_sentmatch.data import load_pairs

        name = f"{self.format}:{self.data}" if self.format else self.data
        splits = load_pairs(name, on_error=self.on_error.value, **self._columns())
        for part in splits.values():
            describe(part)
        return splits

    def split(self, name: str) -> Any:
        """One of the parts."""
        splits = self.splits()
        if name not in splits:
            raise InputError(f"{self.data} has no {name} part; it has {', '.join(splits)}.")
        return splits[name]

    def rows(self) -> Any:
        """All rows of a single file."""
        from keras_sentmatch.data import read_pairs

        options: dict[str, Any] = {"format": self.format, "on_error": self.on_error.value}
        pairs = read_pairs(self.data, **options | self._columns())
        describe(pairs)
        return pairs

    def facts(self) -> dict[str, Any]:
        """What to note with a run, so that `evaluate` finds its data again."""
        path = Path(self.data)
        data = str(path.resolve()) if path.exists() else self.data
        how = {"format": self.format, "columns": self.columns, "on_error": self.on_error.value}
        return {"data": data, **how}

    def _columns(self) -> dict[str, Any]:
        if self.columns is None:
            return {}
        names = [name.strip() for name in self.columns.split(",")]
        if not 2 <= len(names) <= 4 or not all(names):
            raise InputError(
                f"--columns {self.columns!r}: expected two to four names separated by commas: "
                "of sentence 1, sentence 2, the label, the question's id."
            )
        return dict(zip(("sentence1", "sentence2", "label", "group"), names))


def describe(pairs: Any) -> None:
    """One line on what was read: rows, labels, and what was left out."""
    labels = ", ".join(f"{name} {count:,}" for name, count in pairs.label_counts().items())
    parts = [f"{pairs.split or pairs.name}: {len(pairs):,} pairs", labels]
    if pairs.report is not None and pairs.report.skipped:
        parts.append(str(pairs.report))
    say("; ".join(part for part in parts if part))
