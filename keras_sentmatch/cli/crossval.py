"""`crossval`: the figures of a model over the folds of the pairs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.recipes import RecipeOptions, default_folder
from keras_sentmatch.cli.sources import Reading, Source
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset


@dataclass
class WholeData(Reading):
    """The options that name the pairs to cut into folds."""

    data: Annotated[
        str,
        typer.Option(
            help="A file of pairs; or a folder or a name from `keras-sentmatch datasets`, of which "
            "the training and validation pairs are taken."
        ),
    ] = "embedded"
    weight: options.Weight = None
    limit: options.ClassLimit = None

    def __post_init__(self) -> None:
        options.check_at_least(1, limit=self.limit)

    def read(self) -> "PairDataset":
        from keras_sentmatch.training.training_data import joined

        source = Source(self.data, weight=self.weight, **self.reading())
        if Path(source.data).is_file():
            pairs = source.rows(weighted=True)
        else:
            splits = source.splits()
            if not {"train", "validation"} <= splits.keys():
                raise InputError(f"{source.data} has no training pairs to cut into folds.")
            pairs = joined(splits["train"], splits["validation"])
        return pairs if self.limit is None else pairs.limit(self.limit)


def crossval(
    recipe: RecipeOptions,
    source: WholeData,
    model: options.Model = "hybrid",
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs per batch. Default: the recipe's.")
    ] = None,
    folds: Annotated[int, typer.Option(help="How many folds.")] = 5,
    group_by_sentence: Annotated[
        bool,
        typer.Option("--group-by-sentence", help="Keep pairs that share a sentence in one fold."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. Default: crossval/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the finished folds in --out, and go on.")
    ] = False,
    as_json: options.Json = False,
    backend: options.Backend = None,
) -> None:
    """Cross-validates a model: trains it without each fold, and measures it on that fold."""
    if resume and out is None:
        raise InputError("--resume needs --out: the folder of the cross-validation to continue.")
    use_backend(backend)
    from keras_sentmatch.training import cross_validate

    draft = recipe.draft(model, batch_size)
    pairs = source.read()
    name = pairs.name or "pairs"
    out = out or default_folder("crossval", draft.model, name)
    further: dict[str, Any] = {"group_by_sentence": group_by_sentence, "resume": resume}
    report = cross_validate(draft.for_data(name), pairs, out, folds=folds, **further)
    if as_json:
        print_json(report)
        return
    test, baseline = report["test"], report.get("baseline", {}).get("mean", {})
    rows = [
        [name, mean, test["sd"][name], test["standard_error"][name], baseline.get(name)]
        for name, mean in test["mean"].items()
    ]
    columns = ["metric", "mean", "sd", "standard error", "bag of words"]
    print_table(columns, rows, f"{draft.model} on {name}, {folds} folds ({report['backend']})")
    say(f"written: {out / 'crossval.json'}")
    next_step("train", model, *_given(source), why="train on all of them")


def _given(source: WholeData) -> list[str]:
    given = {"--data": source.data, **source.given_reading()}
    given |= {"--weight": source.weight} if source.weight else {}
    return [part for pair in given.items() for part in pair]
