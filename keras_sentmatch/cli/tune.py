"""`tune`: from data and a model to the best recipe that a search finds, and a run of it."""

import logging
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

log = logging.getLogger(__name__)
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
            help="Search these only: T,d_k; with some values only: T=2:6,d_k=2/2+3. Default: all "
            "there is.",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Give a parameter of the space this one value."),
    ] = None,
    tuner: Annotated[Tuner, typer.Option(help="How the next trial is chosen.")] = Tuner.BAYESIAN,
    trials: Annotated[
        int | None,
        typer.Option(help="Most trials. Default: 20; grid and hyperband end by themselves."),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="The validation figure that decides: accuracy, macro_f1, f1, map, mrr, pearson, "
            "spearman or loss. Default: the recipe's monitor."
        ),
    ] = "auto",
    seeds: Annotated[
        int,
        typer.Option(
            help="Number of seeds to train each configuration with; its score is their mean. With "
            "hyperband in each of its rounds."
        ),
    ] = 1,
    keep: Annotated[int, typer.Option(help="Number of best trials whose models are kept.")] = 1,
    retrain: Annotated[
        int, typer.Option(help="Number of further seeds to retrain the best recipe with; 0: none.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search. Default: searches/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the search in --out; all else as it was begun, or more --trials.",
        ),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            help="Number of worker processes on this machine that train trials in parallel."
        ),
    ] = 0,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Searches a model's hyper-parameters with KerasTuner, and retrains the best recipe."""
    if resume and out is None:
        raise InputError("--resume needs --out: the folder of the search to go on with.")
    names = None if space is None else parse_names(space)
    fixed = parse_fixed(fix or [])
    use_backend(backend)
    from keras_sentmatch.tuning import search, space_of
    from keras_sentmatch.tuning.workers import role

    # Wrong ones stop here, before any reading.
    draft = recipe.draft(model)
    wanted = space_of(draft.for_data(None)).fixed(fixed)
    if names is not None:
        wanted.narrowed(names)
    splits, name, facts = source.read()
    out = out or default_folder("searches", model, name)
    found = search(
        draft.for_data(name),
        splits,
        out,
        space=names,
        fix=fixed,
        tuner=tuner.value,
        trials=trials,
        objective=objective,
        seeds=seeds,
        keep=keep,
        retrain=retrain,
        resume=resume,
        workers=workers,
        info=facts,
    )
    if role() == "worker":
        log.info("The search has ended; its chief has the results. Best: %.4f", found.score)
        return
    if as_json:
        print_json(_report(found, model, name))
    else:
        _show(found, f"{model} on {name}")
    if found.interrupted:
        raise typer.Exit(130)
    if found.retrained is not None and not as_json:
        next_step("evaluate", out / "best", why="measure the best recipe's run on test pairs")
    elif not as_json:
        reading = (part for pair in source.given_reading().items() for part in pair)
        again = "--recipe", out / "best_recipe.toml", "--data", source.data, *reading
        next_step("train", model, *again, why="train the best recipe")


def parse_names(text: str) -> dict[str, str | None]:
    """`--space T=1:8,d_k` as a mapping for `Space.narrowed`."""
    found: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, values = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not values):
            raise InputError(
                f"--space {text!r}: expected names separated by commas, each alone or as "
                "NAME=LOW:HIGH or NAME=A/B/C."
            )
        found[name] = values or None
    return found


def parse_fixed(settings: list[str]) -> dict[str, str]:
    """`--fix NAME=VALUE`, any number of times, as a mapping for `Space.fixed`."""
    found = {}
    for setting in settings:
        name, _, value = (piece.strip() for piece in setting.partition("="))
        if not (name and value):
            raise InputError(f"--fix {setting!r}: expected NAME=VALUE.")
        found[name] = value
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


def search_report(
    folder: Annotated[Path, typer.Argument(help="Folder of a search: what `tune --out` named.")],
    as_json: options.Json = False,
) -> None:
    """Writes report.md and its pictures into the folder of a search that is over, or still runs."""
    from keras_sentmatch.tuning import write_report

    report = write_report(folder)
    if as_json:
        print_json(report)
        return
    counts = ", ".join(
        f"{number} {status}" for status, number in report["status"].items() if number
    )
    best = report["best"]
    say(f"{counts}; the best: trial {best['trial']}, {report['objective']} {best['score']:.4f}")
    for path in report["files"]:
        say(path)
    if (folder / "best" / "metrics.json").exists():
        next_step("evaluate", folder / "best", why="measure the best recipe's run on test pairs")
