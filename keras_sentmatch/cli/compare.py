"""`compare`: runs next to each other on the same pairs."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import Report, next_step, print_report, print_table, say, title
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Engine, LabeledPairs, Scoring
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN…",
            help="Run folders. Runs of one recipe count as its seeds. With --train: recipes, each of "
            "which is compared with the first.",
        ),
    ],
    labeled: LabeledPairs,
    scoring: Scoring,
    train: Annotated[
        bool,
        option("Train recipes (.toml files that say `name`) on the same seeds first.", "--train"),
    ] = False,
    seeds: Annotated[int | None, option("Number of seeds for --train. Default: 5.", min=1)] = None,
    folds: Annotated[
        int | None,
        option("Number of folds for --train. Default: the test part of --data.", min=2),
    ] = None,
    out: Annotated[
        Path | None,
        option("Folder for compare.md, .csv and .json; with --train the trainings are kept there."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Test whether runs differ on the same pairs by more than chance."""
    if train:
        if scoring.engine is Engine.ONNX:
            raise InputError("--engine cannot be combined with --train, which trains with Keras.")
        use_backend(scoring.backend)
        print_report(_train(runs, labeled, seeds, folds, out), out, _save, as_json, _print)
        return
    if seeds is not None or folds is not None:
        raise InputError("--seeds and --folds need --train.")
    import numpy as np

    from keras_sentmatch.analysis import comparing

    groups = comparing.group_runs(runs)
    if len(groups) < 2:
        raise InputError(
            f"Expected runs of at least two recipes, but {', '.join(map(str, runs))} have one. Runs "
            "that differ only in their seed count as one."
        )
    pairs, facts = labeled.read(next(iter(groups.values()))[0])
    values: dict[str, list[np.ndarray]] = {name: [] for name in groups}
    for name, folders in groups.items():
        for folder in folders:
            loaded = scoring.load(folder)
            loaded.matcher.warn_of_learned(pairs)
            relabeled = loaded.first.relabel(pairs)
            with scoring.working(relabeled):
                scores = loaded.matcher.predict_proba(relabeled, batch_size=scoring.batch_size)
            metric, found = comparing.values_of(relabeled, scores, loaded.matcher.threshold)
            values[name].append(found)
            log.info("%s: %s %.4f", folder, metric, found.mean())
    report = comparing.comparison_report(metric, values)
    report = {"data": facts["data"], "split": facts["split"], **report}
    print_report(report, out, comparing.save_comparison, as_json, _print)
    if not as_json:
        best = max(groups, key=lambda name: np.mean(values[name]))
        next_step("report", groups[best][0], *labeled.arguments(), why="see where the best errs")


def _train(
    recipes: list[Path],
    labeled: LabeledPairs,
    seeds: int | None,
    folds: int | None,
    out: Path | None,
) -> Report:
    """Train recipes on the same seeds and parts, and compare each with the first."""
    if labeled.split is not None:
        raise InputError("--split cannot be combined with --train: test pairs or --folds are used.")
    if len(recipes) < 2:
        raise InputError(f"--train needs two or more recipes, but {len(recipes)} was given.")
    source = labeled.named
    if source is None or out is None:
        raise InputError("--train needs --data, the pairs to train on, and --out, a folder.")
    names = [_name_of(path) for path in recipes]
    pairs = source.rows() if folds and source.is_file else source.splits()
    from keras_sentmatch.analysis import ablate
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.training.training_data import joined

    whole = pairs if isinstance(pairs, PairDataset) else pairs["train"]
    if folds and not isinstance(pairs, PairDataset):
        pairs = joined(*(pairs[part] for part in ("train", "validation") if part in pairs))
    loaded = {
        str(path): load_recipe(name, whole.name, file=path) for name, path in zip(names, recipes)
    }
    report = ablate(loaded, pairs, out, seeds=seeds or 5, folds=folds or 0)
    return {"data": source.data, "split": f"{folds} folds" if folds else "test", **report}


def _name_of(path: Path) -> str:
    """Return the model that a recipe file names."""
    import tomllib

    from keras_sentmatch.safety import read_bytes

    try:
        name = tomllib.loads(read_bytes(path, "JSON_BYTES").decode("utf-8")).get("name")
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from error
    if not isinstance(name, str):
        raise InputError(f'{path} does not name its model. Begin with name = "esim".')
    return name


def _save(report: Report, folder: Path) -> None:
    from keras_sentmatch.analysis.comparing import save_comparison

    save_comparison(report, folder)


def _print(report: Report) -> None:
    from keras_sentmatch.analysis.comparing import tables

    for (columns, rows), heading in zip(tables(report), (title(report), "")):
        print_table(columns, rows, heading)
    for pair in report["pairs"] if "smallest_difference" in report else ():
        say(f"{pair['first']} against {pair['second']}: {pair['verdict']}")
    if "smallest_difference" in report:
        smallest = report["smallest_difference"]
        say(f"a difference of {smallest:.3f} or more can be found with these pairs and seeds")
