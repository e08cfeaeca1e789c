"""The options that name pairs, and what they read."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.options import OnError
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset

log = logging.getLogger(__name__)


@dataclass
class Source:
    """Where pairs come from and how to read them: the values of `--data`, `--format`, and so on.

    `data` is a folder or a file, either of them after `FORMAT:`, `tfds:NAME`, or `embedded`.
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

    def splits(self) -> "dict[str, PairDataset]":
        """The parts by name. The seed of the split is fixed: all runs share their test part."""
        from keras_sentmatch.data import load_pairs

        name = f"{self.format}:{self.data}" if self.format else self.data
        splits = load_pairs(name, on_error=self.on_error.value, **self._columns())
        for part in splits.values():
            log_summary(part)
        return splits

    def split(self, name: str) -> "PairDataset":
        splits = self.splits()
        if name not in splits:
            raise InputError(f"{self.data} has no {name} part; it has {', '.join(splits)}.")
        return splits[name]

    def rows(self) -> "PairDataset":
        """All rows of a single file."""
        from keras_sentmatch.data import read_pairs

        how: dict[str, Any] = {"format": self.format, "on_error": self.on_error.value}
        pairs = read_pairs(self.data, **how, **self._columns())
        log_summary(pairs)
        return pairs

    def facts(self) -> dict[str, Any]:
        """What to record with a run, so that `evaluate` finds its data again."""
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
                f"--columns {self.columns!r}: expected two to four names, separated by commas: "
                "sentence 1, sentence 2, the label, and the question's id."
            )
        return dict(zip(("sentence1", "sentence2", "label", "group"), names))


@dataclass
class TrainingData:
    """The options that name what `train` and `tune` learn from."""

    data: Annotated[
        str,
        typer.Option(help="A name from `keras-sentmatch datasets`, a folder, or a file of pairs."),
    ] = "embedded"
    limit: Annotated[int | None, typer.Option(help="Use only this many training pairs.")] = None
    format: options.Format = None
    columns: options.Columns = None
    on_error: options.OnBadRow = OnError.RAISE

    def __post_init__(self) -> None:
        options.check_at_least(1, limit=self.limit)

    def read(self) -> "tuple[dict[str, PairDataset], str, dict[str, Any]]":
        """The parts, the name of the data, and the facts to record with a run."""
        source = Source(self.data, self.format, self.columns, self.on_error)
        splits = source.splits()
        if "train" not in splits:
            raise InputError(
                f"{source.data} has no train part to learn from; it has {', '.join(splits)}."
            )
        if self.limit is not None:
            splits["train"] = splits["train"].limit(self.limit)
            log.info("limited to %s training pairs", f"{len(splits['train']):,}")
        return splits, splits["train"].name or "pairs", {"source": source.facts()}


@dataclass
class AskedPairs:
    """The options that name what `predict` and `explain` answer: one pair, or those of a file."""

    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Pairs as TSV, CSV or JSONL.")
    ] = None
    sentence1: Annotated[str | None, typer.Option(help="The first sentence of a single pair.")] = (
        None
    )
    sentence2: Annotated[str | None, typer.Option(help="The second sentence of it.")] = None
    format: options.Format = None
    columns: options.Columns = None
    on_error: options.OnBadRow = OnError.RAISE

    def __post_init__(self) -> None:
        given = [sentence is not None for sentence in (self.sentence1, self.sentence2)]
        if given != [self.file is None] * 2:
            raise InputError("give either a FILE of pairs, or both --sentence1 and --sentence2.")

    def read(self) -> "PairDataset":
        from keras_sentmatch.data import PairDataset

        if self.file is not None:
            return Source(str(self.file), self.format, self.columns, self.on_error).rows()
        return PairDataset([self.sentence1 or ""], [self.sentence2 or ""])


def log_summary(pairs: "PairDataset") -> None:
    """Logs one line on what was read: rows, labels, and what was left out."""
    labels = ", ".join(f"{name} {count:,}" for name, count in pairs.label_counts().items())
    parts = [f"{pairs.split or pairs.name}: {len(pairs):,} pairs", labels]
    if pairs.report is not None and pairs.report.skipped:
        parts.append(str(pairs.report))
    log.info("; ".join(part for part in parts if part))
