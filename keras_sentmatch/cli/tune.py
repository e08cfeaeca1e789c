"""`tune`: from data and a model to the best recipe that a search finds, and a run of it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.catalog import check_model
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.recipes import RecipeOptions, default_folder
from keras_sentmatch.cli.sources import TrainingData
from keras_sentmatch.errors import InputError

SHOWN = 10  # trials in the table
Tuner = StrEnum("Tuner", ["BAYESIAN", "RANDOM", "HYPERBAND", "GRID"])


def tune(
    model: options.Model,
    recipe: RecipeOptions,
    source: TrainingData,
    space: Annotated[
        str | None,
        option(
            "Parameters to search: T,d_k or T=2:6,d_k=2/2+3. Default: all of the model.",
            metavar="NAMES",
        ),
    ] = None,
    tuner: Annotated[Tuner, option("How the next trial is chosen.")] = Tuner.BAYESIAN,
    trials: Annotated[
        int | None,
        option("Maximum number of trials. Default: 20; grid and hyperband end by themselves."),
    ] = None,
    retrain: Annotated[int, option("Number of further seeds to retrain the best recipe with.")] = 1,
    out: Annotated[
        Path | None, option("Folder of the search. Default: searches/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        option("Continue the search in --out with the same options or more --trials.", "--resume"),
    ] = False,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Search a model's hyperparameters with KerasTuner, and retrain the best recipe."""
    if resume and out is None:
        raise InputError("--resume needs --out, the folder of the search to continue.")
    names = None if space is None else parse_names(space)
    check_model(model, recipe.recipe)
    splits, name = source.read()
    use_backend(backend)
    from keras_sentmatch.tuning import search

    draft = recipe.draft(model)
    model = draft.model
    out = out or default_folder("searches", model, name)
    found: Any = search(
        draft.for_data(name),
        splits,
        out,
        space=names,
        tuner=tuner.value,
        trials=trials,
        retrain=retrain,
        resume=resume,
        info={"source": source.source.facts()},
    )
    if as_json:
        facts: dict[str, Any] = {"model": model, "data": name, "folder": str(out)}
        for key in ("objective", "score", "configuration", "trials", "retrained", "interrupted"):
            facts[key] = getattr(found, key)
        print_json(facts)
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
