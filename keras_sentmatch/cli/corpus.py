"""`mine`: matching pairs among the lines of files."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import print_json, print_table
from keras_sentmatch.cli.predict import as_text, read_lines, write_atomically
from keras_sentmatch.cli.runs import Run, Scoring, suggest_explain
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.corpus import Miner

log = logging.getLogger(__name__)
PAIR_SUFFIXES = (".tsv", ".csv", ".jsonl")
SHOWN = 20
Corpus = Annotated[Path, typer.Argument(metavar="CORPUS.txt", help="The sentences, one per line.")]


@dataclass
class Mining:
    """The options that say how pairs are found, and which of them match."""

    threshold: Annotated[
        float | None,
        typer.Option(
            help="The score from which on a pair matches. Default: the run's threshold, or 0.5."
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(help="The label whose probability is the score; required for more than two."),
    ] = None
    retriever: Annotated[
        str,
        typer.Option(
            help="What finds candidates. bm25: the words they share; dense: vectors; both: the two, "
            "joined by reciprocal rank."
        ),
    ] = "both"
    vectors: Annotated[
        str | None,
        typer.Option(
            help="What vectors are made of. table: the package's word vectors (English); words: the "
            "run's word vectors; encodings: the model's own; or the folder of a KerasHub encoder. "
            "Default: table, if the run's word vectors come from there, otherwise words."
        ),
    ] = None
    candidates: Annotated[int, typer.Option(help="How many sentences each one is paired with.")] = (
        10
    )
    recall_sample: Annotated[
        int | None,
        typer.Option(
            help="Score so many sentences with all others, and print the share of the matching "
            "pairs that each retriever finds."
        ),
    ] = None

    def miner(self, scoring: Scoring, run: Run, *files: Path) -> "tuple[Miner, list[list[int]]]":
        """What finds the pairs of one file or of two, and the line numbers of each."""
        from keras_sentmatch.corpus import Miner

        texts = [read_lines(file) for file in files]
        found = Miner(
            run.matcher,
            *(list(lines.values()) for lines in texts),
            retriever=self.retriever,
            vectors=self.vectors,
            candidates=self.candidates,
            batch_size=scoring.batch_size,
        )
        return found, [list(lines) for lines in texts]

    def print_recall(self, miner: "Miner") -> None:
        """Measures the retrievers, and shows their recall."""
        if self.recall_sample is None:
            return
        options.check_at_least(1, recall_sample=self.recall_sample)
        found = miner.recall(self.recall_sample, threshold=self.threshold, label=self.label)
        pairs = found.pop("pairs")
        log.info(
            "recall of the %s matching pairs of %s sentences: %s",
            f"{pairs:,}",
            f"{self.recall_sample:,}",
            ", ".join(f"{name} {share:.3f}" for name, share in found.items()),
        )


def mine(
    run: options.Run,
    corpus: Corpus,
    mining: Mining,
    scoring: Scoring,
    against: Annotated[
        Path | None,
        typer.Option(help="Pair each sentence with those of this file, one per line."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the pairs (.tsv, .csv, .jsonl). Default: the first are shown."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Finds the pairs of sentences in a file that match, the best first."""
    if out is not None and (as_json or out.suffix not in PAIR_SUFFIXES):
        raise InputError(
            f"--out {out}: expected a name that ends in {', '.join(PAIR_SUFFIXES)}, and no --json."
        )
    loaded = scoring.load(run)
    files = (corpus,) if against is None else (corpus, against)
    miner, numbers = mining.miner(scoring, loaded, *files)
    mining.print_recall(miner)
    found: list[dict[str, Any]] = []
    for pair in miner.pairs(threshold=mining.threshold, label=mining.label):
        lines = {
            "line1": numbers[0][pair.pop("index1")],
            "line2": numbers[-1][pair.pop("index2")],
        }
        found.append({**lines, **pair})
    loaded.log_encoding()
    if as_json:
        print_json(found)
    elif out is not None:
        write_atomically(out, as_text(found, out.suffix))
        log.info("%d pairs in %s", len(found), out)
    elif found:
        print_table(list(found[0]), [list(row.values()) for row in found[:SHOWN]])
    if len(found) > SHOWN and out is None and not as_json:
        log.info("%d more pairs: write all of them with --out", len(found) - SHOWN)
    if found:
        suggest_explain(run, found[0]["sentence1"], found[0]["sentence2"])
    else:
        log.info("no pairs match")
