"""`tune`: from data and a model to the best recipe that a search finds, and a run of it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.recipes import RecipeOptions, default_folder
from keras_sentmatch.cli.sources import TrainingData
from keras_sentmatch.errors import InputError

SHOWN = 10  # trials in the table


class Tuner(StrEnum):
    """How the next trial is chosen."""

    BAYESIAN = "bayesian"
    RANDOM = "random"
    HYPERBAND = "hyperband"
    GRID = "grid"


def tune(
    model: options.Model,
    recipe: RecipeOptions,
    source: TrainingData,
    space: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Parameters to search, with or without values: T,d_k or T=2:6,d_k=2/2+3. Default: "
            "all that the model declares.",
        ),
    ] = None,
    tuner: Annotated[Tuner, typer.Option(help="How the next trial is chosen.")] = Tuner.BAYESIAN,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of trials. Default: 20; grid and hyperband end by themselves."
        ),
    ] = None,
    retrain: Annotated[
        int, typer.Option(help="Number of further seeds to retrain the best recipe with.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the search. Default: searches/MODEL-DATA-TIME."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the search in --out with the same options or more --trials."
        ),
    ] = False,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Search a model's hyperparameters with KerasTuner, and retrain the best recipe."""
    if resume and out is None:
        raise InputError("--resume needs --out, the folder of the search to continue.")
    names = None if space is None else parse_names(space)
    use_backend(backend)
    from keras_sentmatch.tuning import SearchSpace, search

    # Unknown names stop here, before the data is read.
    draft = recipe.draft(model)
    wanted = SearchSpace(draft.for_data(None))
    if names is not None:
        wanted.narrowed(names)
    splits, name, facts = source.read()
    out = out or default_folder("searches", model, name)
    found = search(
        draft.for_data(name),
        splits,
        out,
        space=names,
        tuner=tuner.value,
        trials=trials,
        retrain=retrain,
        resume=resume,
        info=facts,
    )
    if as_json:
        print_json(_report(found, model, name))
    else:
        _show(found, f"{model} on {name}")
    if found.interrupted:
        raise typer.Exit(130)
    if found.retrained is not None and not as_json:
        next_step("evaluate", out / "best", why="measure the retrained recipe on test pairs")


def parse_names(text: str) -> dict[str, str | None]:
    """Return `--space T=1:8,d_k` as a mapping for `SearchSpace.narrowed`."""
    found: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, values = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not values):
            raise InputError(
                f"--space is {text!r}. Expected names separated by commas, each alone, as "
                "NAME=LOW:HIGH or as NAME=A/B/C."
            )
        found[name] = values or None
    return found


def _report(found: Any, model: str, data: str) -> dict[str, Any]:
    names = ("objective", "score", "configuration", "trials", "retrained", "interrupted")
    where = {"folder": str(found.folder), "recipe": str(found.folder / "best_recipe.toml")}
    return {"model": model, "data": data, **where, **{n: getattr(found, n) for n in names}}


def _show(found: Any, title: str) -> None:
    """The best trials, and the metrics of the retrained best recipe."""
    sign = -1 if found.objective == "val_loss" else 1
    over = [row for row in found.trials if row["score"] is not None]
    best = sorted(over, key=lambda row: -sign * row["score"])[:SHOWN]
    searched = list(found.space.parameters)
    facts = ("trial", "score", "parameters", "seconds", *searched)
    title = f"{title}: the best of {len(over)} trials"
    if more := len(found.trials) - len(over):
        title += f" ({more} more did not finish)"
    columns = ["trial", found.objective, "parameters", "seconds", *map(found.space.short, searched)]
    print_table(columns, [[row[name] for name in facts] for row in best], title)
    if found.retrained is not None:
        rows = _metrics(found.retrained)
        print_table(["metric", "mean", "sd"], rows, "the best recipe, retrained")
        say(f"run folder: {found.folder / 'best'}")
    say(f"recipe: {found.folder / 'best_recipe.toml'}")
    say(f"report: {found.folder / 'report.md'}")


def _metrics(retrained: dict[str, Any]) -> list[list[Any]]:
    rows = []
    for split in ("validation", "test"):
        part = retrained.get(split, {})
        mean, sd = part.get("mean", part), part.get("sd", {})
        rows += [
            [f"{split} {name}", value, sd.get(name)]
            for name, value in mean.items()
            if isinstance(value, float)
        ]
    return rows
