"""The options that name pairs, and how the pairs are read."""

import contextlib
import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.options import option
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset, PairStream

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Reading:
    """The options on how pairs are read, shared by all commands that read pairs."""

    format: options.Format = None
    columns: options.Columns = None
    delimiter: options.Delimiter = None
    encoding: options.Encoding = None
    labels: options.Labels = None
    on_error: options.OnError = options.BadRow.RAISE

    def reading(self) -> dict[str, Any]:
        """Return the values of these options by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Reading)}

    def given(self) -> list[str]:
        """Return the options that were given, such as `--on-error`, `skip`."""
        default, found = Reading().reading(), list[str]()
        for name, value in self.reading().items():
            if value != default[name]:
                found += f"--{name.replace('_', '-')}", str(value)
        return found


@dataclass
class Source(Reading):
    """Where pairs come from, and how to read them.

    Attributes:
        data: A file or folder, optionally after `FORMAT:`; `tfds:NAME`; or `embedded`.
        shares: The shares into which a single file is split, such as `70/15/15`.
    """

    data: str
    shares: str | None = None

    def __post_init__(self) -> None:
        from keras_sentmatch.data.load import format_and_path

        format, data = format_and_path(self.data)
        if format and self.format is None:
            self.format, self.data = format, str(data)

    @property
    def name(self) -> str:
        """The name that `load_pairs` accepts."""
        return f"{self.format}:{self.data}" if self.format else self.data

    @property
    def is_file(self) -> bool:
        return Path(self.data).is_file()

    def splits(self) -> "dict[str, PairDataset]":
        """Return the splits by name. The seed is fixed, so all runs share their test pairs."""
        from keras_sentmatch.data import load_pairs

        splits = load_pairs(self.name, fractions=self._fractions(), **self._how())
        for part in splits.values():
            log_summary(part)
        return splits

    def part(self, splits: "dict[str, PairDataset]", name: str) -> "PairDataset":
        if name not in splits:
            raise InputError(f"{self.data} has no {name} part. It has {', '.join(splits)}.")
        return splits[name]

    def rows(self, weighted: bool = False) -> "PairDataset":
        """Return all rows of a single file, with their weights if they are trained on."""
        from keras_sentmatch.data import read_pairs

        weight = None if weighted else False
        pairs = read_pairs(self.data, format=self.format, weight=weight, **self._how())
        log_summary(pairs)
        return pairs

    def stream(self) -> "PairStream":
        """Return the rows of a single file as a stream."""
        from keras_sentmatch.data import PairStream

        return PairStream(self.data, format=self.format, **self._how())

    def as_in(self, known: "Source | None") -> "Source":
        """Return this file read as the data of a run was, if the file has the same columns.

        Options that were given take precedence.
        """
        if known is None or known.columns is None or self.columns or not self.is_file:
            return self
        default = Reading().reading()
        given = {name: value for name, value in self.reading().items() if value != default[name]}
        for columns in (known.columns, ",".join(known.columns.split(",")[:2])):
            how = {**known.reading(), "format": self.format, **given, "columns": columns}
            found = Source(self.data, self.shares, **how)
            trial = dataclasses.replace(found, on_error=options.BadRow.SKIP)
            with contextlib.suppress(InputError):  # the file has other columns
                next(trial.stream().windows(1))
                log.info("columns as in training: %s", columns)
                return found
        return self

    def facts(self) -> dict[str, Any]:
        """Return what a run records, so that `evaluate` finds its data again."""
        path = Path(self.data)
        data = str(path.resolve()) if path.exists() else self.data
        return {"data": data, "shares": self.shares, **self.reading()}

    def _how(self) -> dict[str, Any]:
        """Return the arguments of `read_pairs` and `load_pairs`."""
        how: dict[str, Any] = {"delimiter": self.delimiter, "encoding": self.encoding}
        how |= {"on_error": self.on_error, "label_names": parse_labels(self.labels)}
        if self.columns is None:
            return how
        names = [name.strip() for name in self.columns.split(",")]
        if not 2 <= len(names) <= 4 or not all(names):
            raise InputError(
                f"--columns is {self.columns!r}. Expected two to four names, separated by commas: "
                "sentence 1, sentence 2, the label, and the question's id."
            )
        return how | dict(zip(("sentence1", "sentence2", "label", "group"), names))

    def _fractions(self) -> list[float] | None:
        """Return the shares of `--split`."""
        if self.shares is None:
            return None
        try:
            parts = [float(part) for part in self.shares.split("/")]
        except ValueError:
            parts = []
        whole = 100 if sum(parts) > 1.5 else 1
        if (
            len(parts) not in (2, 3)
            or not min(parts) > 0
            or not abs(sum(parts) / whole - 1) <= 1e-6
        ):
            raise InputError(
                f"--split is {self.shares}. Expected the shares of the training, validation and test "
                "pairs in percent, such as 70/15/15, or of the first two, such as 80/20."
            )
        return [part / whole for part in parts]


def parse_labels(text: str | None) -> list[str] | dict[str, str] | None:
    """Return `--labels no,yes` as a list, and `--labels 0=no,1=yes` as a mapping."""
    if text is None:
        return None
    parts = [[piece.strip() for piece in part.split("=")] for part in text.split(",")]
    sizes = {len(part) for part in parts}
    if len(sizes) > 1 or not sizes <= {1, 2} or not all(map(all, parts)):
        raise InputError(
            f"--labels is {text!r}. Expected names separated by commas, either alone, or each after "
            "its label in the data, such as 0=no,1=yes."
        )
    labels = [part[0] for part in parts]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"--labels names {twice[0]!r} twice. Name each label once.")
    return dict(parts) if sizes == {2} else labels


@dataclass
class TrainingData(Reading):
    """The options that name the pairs that `train` and `tune` learn from."""

    data: Annotated[
        str,
        option("A file or folder of pairs, or a name from `keras-sentmatch models --datasets`."),
    ] = "embedded"
    limit: Annotated[int | None, option("Maximum number of training pairs.", min=1)] = None
    split: options.Shares = None

    def __post_init__(self) -> None:
        self.source = Source(self.data, self.split, **self.reading())

    def read(self) -> "tuple[dict[str, PairDataset], str]":
        """Return the splits and the name of the data."""
        splits = self.source.splits()
        if "train" not in splits:
            raise InputError(
                f"{self.data} has no train part to learn from. It has {', '.join(splits)}."
            )
        splits["train"] = self.limited(splits["train"])
        return splits, splits["train"].name or "pairs"

    def read_all(self) -> "list[PairDataset]":
        """Return the parts to cut into folds: a whole file, or training and validation pairs."""
        if self.source.is_file:
            return [self.source.rows(weighted=True)]
        splits = self.source.splits()
        if not {"train", "validation"} <= splits.keys():
            raise InputError(f"{self.data} has no training pairs to cut into folds.")
        return [splits["train"], splits["validation"]]

    def limited(self, pairs: "PairDataset") -> "PairDataset":
        if self.limit is None:
            return pairs
        log.info("limited to %s training pairs", f"{min(self.limit, len(pairs)):,}")
        return pairs.limit(self.limit)


@dataclass
class AskedPairs(Reading):
    """The options that name the pairs for `predict` and `explain`: one pair, or a file."""

    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="File of pairs: TSV, CSV, JSONL, Parquet or Excel. `predict` also accepts -, standard "
            "input.",
        ),
    ] = None
    sentence1: Annotated[str | None, option("The first sentence of a single pair.")] = None
    sentence2: Annotated[str | None, option("The second sentence of the pair.")] = None

    def __post_init__(self) -> None:
        given = [sentence is not None for sentence in (self.sentence1, self.sentence2)]
        if given != [self.file is None] * 2:
            raise InputError("Give either a FILE of pairs, or both --sentence1 and --sentence2.")
        self.source = Source(str(self.file), **self.reading())

    def arguments(self) -> list[str]:
        """Return FILE and the options on how to read it, as they were given."""
        return [str(self.file), *self.given()]

    def read(self) -> "PairDataset":
        from keras_sentmatch.data import PairDataset

        if self.file is not None:
            return self.source.rows()
        return PairDataset([self.sentence1 or ""], [self.sentence2 or ""])


def log_summary(pairs: "PairDataset") -> None:
    """Log one line about the pairs: rows, labels, and skipped rows."""
    labels = ", ".join(f"{name} {count:,}" for name, count in pairs.label_counts().items())
    parts = [f"{pairs.split or pairs.name}: {len(pairs):,} pairs", labels]
    if pairs.report is not None and pairs.report.skipped:
        parts.append(str(pairs.report))
    log.info("; ".join(part for part in parts if part))


def example_of(pairs: "PairDataset") -> tuple[str, str]:
    """Return the shortest of the first pairs, for a command that can be copied."""
    first = zip(pairs.sentence1[:50], pairs.sentence2[:50])
    return min(first, key=lambda pair: len(pair[0]) + len(pair[1]))
