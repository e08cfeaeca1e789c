"""`mine` and `groups`: matching pairs among the lines of files, and groups of them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table
from keras_sentmatch.cli.predict import SUFFIXES, as_text, read_lines, write_atomically
from keras_sentmatch.cli.runs import Run, Scoring, suggest_explain
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.corpus import Miner

log = logging.getLogger(__name__)
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
    _check_out(out, as_json)
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


def _check_out(out: Path | None, as_json: bool) -> None:
    if out is not None and (as_json or out.suffix not in SUFFIXES):
        raise InputError(
            f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}, and no --json."
        )


def groups(
    run: options.Run,
    corpus: Corpus,
    mining: Mining,
    scoring: Scoring,
    largest: Annotated[int, typer.Option(help="Most different sentences of a group.")] = 200,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the groups: a row for each sentence (.tsv, .csv), or an object for each "
            "group (.jsonl). Default: the largest are shown."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A page (.html) to look through the groups.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Finds the groups of sentences in a file that match each other."""
    _check_out(out, as_json)
    if page is not None and page.suffix not in (".html", ".htm"):
        raise InputError(f"--page {page}: expected a name that ends in .html.")
    loaded = scoring.load(run)
    from keras_sentmatch.corpus import group, save_page

    miner, (numbers,) = mining.miner(scoring, loaded, corpus)
    mining.print_recall(miner)
    found = group(miner, threshold=mining.threshold, label=mining.label, largest=largest)
    for one in found:
        one["members"] = [{"line": numbers[m.pop("index")], **m} for m in one["members"]]
        if held := one["held_by"]:
            lines = {f"line{side}": numbers[held.pop(f"index{side}")] for side in "12"}
            one["held_by"] = lines | held
    loaded.log_encoding()
    if as_json:
        print_json(found)
    elif out is not None:
        rows = found if out.suffix == ".jsonl" else [r for one in found for r in _member_rows(one)]
        write_atomically(out, as_text(rows, out.suffix))
        log.info("%d groups in %s", len(found), out)
    elif found:
        shown = [(one["size"], one["representative"]) for one in found[:SHOWN]]
        print_table(["size", "representative"], shown)
    if page is not None:
        save_page(page, found, f"Groups of {corpus.name}", len(numbers))
        log.info("next: open %s in a browser", page)
    elif found:
        next_step("groups", run, corpus, "--page", "groups.html", why="look through them")
    else:
        log.info("no sentences match")


def _member_rows(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each sentence of a group."""
    facts = {name: one[name] for name in ("group", "size", "representative")}
    held = one["held_by"]["score"] if one["held_by"] else ""
    for member in one["members"]:
        score = "" if member["score"] is None else member["score"]
        yield {**facts, "held_by": held, **member, "score": score}
