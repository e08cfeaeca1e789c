"""The options that name pairs, and what they read."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import print_table
from keras_sentmatch.cli.options import OnError
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset, PairStream

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Reading:
    """The options that say how pairs are read."""

    format: options.Format = None
    columns: options.Columns = None
    delimiter: options.Delimiter = None
    encoding: options.Encoding = None
    labels: options.Labels = None
    on_error: options.OnBadRow = OnError.RAISE

    def reading(self) -> dict[str, Any]:
        """The values of these options, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Reading)}

    def given_reading(self) -> dict[str, str]:
        """Those of these options that were given: `--on-error` -> `skip`."""
        default = Reading().reading()
        given = {name: value for name, value in self.reading().items() if value != default[name]}
        return {f"--{name.replace('_', '-')}": str(value) for name, value in given.items()}


@dataclass
class Source(Reading):
    """Where pairs come from and how to read them: the values of `--data`, `--format`, and so on.

    `data` is a folder or a file, either of them after `FORMAT:`, `tfds:NAME`, or `embedded`.
    `shares` are those of the parts that a single file is split into, such as `70/15/15`.
    """

    data: str
    shares: str | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        from keras_sentmatch.data.load import format_and_path

        self.on_error = OnError(self.on_error)
        format, data = format_and_path(self.data)
        if format and self.format is None:
            self.format, self.data = format, str(data)

    @property
    def name(self) -> str:
        """What `load_pairs` takes."""
        return f"{self.format}:{self.data}" if self.format else self.data

    def splits(self) -> "dict[str, PairDataset]":
        """The parts by name. The seed of the split is fixed: all runs share their test part."""
        from keras_sentmatch.data import load_pairs

        splits = load_pairs(
            self.name, fractions=self.fractions(), weight=self.weight, **self._how()
        )
        for part in splits.values():
            log_summary(part)
        return splits

    def split(self, name: str) -> "PairDataset":
        splits = self.splits()
        if name not in splits:
            raise InputError(f"{self.data} has no {name} part; it has {', '.join(splits)}.")
        return splits[name]

    def rows(self, weighted: bool = False) -> "PairDataset":
        """All rows of a single file; with their weights if they are to train on."""
        from keras_sentmatch.data import read_pairs

        pairs = read_pairs(
            self.data, format=self.format, weight=self.weight if weighted else False, **self._how()
        )
        log_summary(pairs)
        return pairs

    def stream(self) -> "PairStream":
        """The rows of a single file, or a part of them, as they are asked for."""
        from keras_sentmatch.data import PairStream

        return PairStream(self.data, format=self.format, **self._how())

    def facts(self) -> dict[str, Any]:
        """What to record with a run, so that `evaluate` finds its data again."""
        path = Path(self.data)
        data = str(path.resolve()) if path.exists() else self.data
        how = self.reading() | {"on_error": self.on_error.value}
        return {"data": data, "shares": self.shares, "weight": self.weight, **how}

    def _how(self) -> dict[str, Any]:
        """Arguments of `read_pairs` and `load_pairs`."""
        how: dict[str, Any] = {"delimiter": self.delimiter, "encoding": self.encoding}
        how |= {"on_error": self.on_error.value, "label_names": parse_labels(self.labels)}
        if self.columns is None:
            return how
        names = [name.strip() for name in self.columns.split(",")]
        if not 2 <= len(names) <= 4 or not all(names):
            raise InputError(
                f"--columns {self.columns!r}: expected two to four names, separated by commas: "
                "sentence 1, sentence 2, the label, and the question's id."
            )
        return how | dict(zip(("sentence1", "sentence2", "label", "group"), names))

    def fractions(self) -> list[float] | None:
        """What `--split` says, as shares."""
        if self.shares is None:
            return None
        try:
            parts = [float(part) for part in self.shares.split("/")]
        except ValueError:
            parts = []
        whole = 100 if sum(parts) > 1.5 else 1
        if len(parts) not in (2, 3) or min(parts) <= 0 or abs(sum(parts) / whole - 1) > 1e-6:
            raise InputError(
                f"--split {self.shares}: expected the shares of the training, validation and test "
                "pairs in percent, such as 70/15/15, or of the first two, such as 80/20."
            )
        return [part / whole for part in parts]


def parse_labels(text: str | None) -> list[str] | dict[str, str] | None:
    """`--labels no,yes` as a list, `--labels 0=no,1=yes` as a mapping."""
    if text is None:
        return None
    parts = [[piece.strip() for piece in part.split("=")] for part in text.split(",")]
    sizes = {len(part) for part in parts}
    if len(sizes) > 1 or not sizes <= {1, 2} or not all(map(all, parts)):
        raise InputError(
            f"--labels {text!r}: expected names separated by commas, each alone, or each after the "
            "label that the data has for it, such as 0=no,1=yes."
        )
    return dict(parts) if sizes == {2} else [name for (name,) in parts]


@dataclass
class TrainingData(Reading):
    """The options that name what `train` and `tune` learn from."""

    data: Annotated[
        str,
        typer.Option(help="A name from `keras-sentmatch datasets`, a folder, or a file of pairs."),
    ] = "embedded"
    positives: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pairs that all match, instead of --data: pairs that do not match are made from their "
            "sentences.",
        ),
    ] = None
    negatives: Annotated[
        float, typer.Option(help="With --positives: how many to make for each matching pair.")
    ] = 1.0
    hard: Annotated[
        float,
        typer.Option(
            help="With --positives: share of them whose sentences have rare words in common (BM25); "
            "the others are drawn at random."
        ),
    ] = 0.5
    weight: options.Weight = None
    limit: Annotated[int | None, typer.Option(help="Use only this many training pairs.")] = None
    split: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN/VALIDATION[/TEST]",
            help="Shares of the parts that a single file is split into, in percent, such as "
            "70/15/15. Default: 85/5/10.",
        ),
    ] = None

    def __post_init__(self) -> None:
        options.check_at_least(1, limit=self.limit)
        if self.positives is not None and (self.data != "embedded" or self.weight is not None):
            other = "--data" if self.weight is None else "--weight"
            raise InputError(f"--positives {self.positives}: cannot be combined with {other}.")
        if self.positives is None and (self.negatives, self.hard) != (1.0, 0.5):
            raise InputError("--negatives and --hard need --positives FILE.")

    def read(self) -> "tuple[dict[str, PairDataset], str, dict[str, Any]]":
        """The parts, the name of the data, and the facts to record with a run."""
        source = Source(self.positives or self.data, self.split, self.weight, **self.reading())
        splits = source.splits() if self.positives is None else self._from_positives(source)
        if "train" not in splits:
            raise InputError(
                f"{source.data} has no train part to learn from; it has {', '.join(splits)}."
            )
        if self.limit is not None:
            splits["train"] = splits["train"].limit(self.limit)
            log.info("limited to %s training pairs", f"{len(splits['train']):,}")
        # Negatives that were made cannot be read again.
        facts = {"source": source.facts()} if self.positives is None else {}
        return splits, splits["train"].name or "pairs", facts

    def _from_positives(self, source: Source) -> "dict[str, PairDataset]":
        from keras_sentmatch.corpus._positives import from_positives, table

        given: Any = {} if (shares := source.fractions()) is None else {"fractions": shares}
        pairs = source.rows()
        several = sum(count > 0 for count in pairs.label_counts().values()) > 1
        if several or pairs.task == "regression":
            raise InputError(
                f"--positives {self.positives}: its pairs have labels "
                f"({', '.join(pairs.label_names or ('scores',))}), but all must match. Use "
                "--data instead, or remove the other pairs and the label column."
            )
        splits, counts = from_positives(pairs, negatives=self.negatives, hard=self.hard, **given)
        print_table(*table(counts), "matching pairs, negatives, and candidates that were rejected")
        for part in splits.values():
            log_summary(part)
        return splits


@dataclass
class AskedPairs(Reading):
    """The options that name what `predict` and `explain` answer: one pair, or those of a file."""

    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Pairs as TSV, CSV, JSONL, Parquet, Arrow or Excel. predict also takes -, standard "
            "input.",
        ),
    ] = None
    sentence1: Annotated[str | None, typer.Option(help="The first sentence of a single pair.")] = (
        None
    )
    sentence2: Annotated[str | None, typer.Option(help="The second sentence of it.")] = None

    def __post_init__(self) -> None:
        given = [sentence is not None for sentence in (self.sentence1, self.sentence2)]
        if given != [self.file is None] * 2:
            raise InputError("give either a FILE of pairs, or both --sentence1 and --sentence2.")

    def arguments(self) -> list[str]:
        """FILE and how to read it, as they were given."""
        return [str(self.file), *(part for pair in self.given_reading().items() for part in pair)]

    @property
    def standard_input(self) -> bool:
        """Whether the pairs come through standard input."""
        return str(self.file) == "-"

    def stream(self) -> "PairStream":
        """The pairs of FILE, as they are asked for."""
        return Source(str(self.file), **self.reading()).stream()

    def read(self) -> "PairDataset":
        from keras_sentmatch.data import PairDataset

        if self.file is not None:
            return Source(str(self.file), **self.reading()).rows()
        return PairDataset([self.sentence1 or ""], [self.sentence2 or ""])


def log_summary(pairs: "PairDataset") -> None:
    """Logs one line on what was read: rows, labels, and what was left out."""
    labels = ", ".join(f"{name} {count:,}" for name, count in pairs.label_counts().items())
    parts = [f"{pairs.split or pairs.name}: {len(pairs):,} pairs", labels]
    if pairs.report is not None and pairs.report.skipped:
        parts.append(str(pairs.report))
    log.info("; ".join(part for part in parts if part))
