"""`reproduce`: from the description of a table or figure to the trained and measured result."""

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.analysis import report
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations import explain
from keras_sentmatch.explanations.pictures import Picture
from keras_sentmatch.inference import Matcher, load
from keras_sentmatch.reproduction._tables import save_result
from keras_sentmatch.reproduction.artefact import Artefact, Column, Row, load_artefact
from keras_sentmatch.reproduction.data_sets import Parts, load_parts, what_is_needed
from keras_sentmatch.reproduction.runs import Run, RunTable, Settings, runs_of, why_not
from keras_sentmatch.safety import first_line, replace_file
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.profiling import profile_recipe
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import finished_metrics
from keras_sentmatch.training.run import train
from keras_sentmatch.transformations import Lexicon
from keras_sentmatch.transformations.transform import Translate

log = logging.getLogger(__name__)
TIMED = 30  # predictions of one pair, whose median is the latency
# A training step is timed with random pairs of this length and vocabulary. A recipe that chooses its
# number of epochs is counted with the last of these.
LENGTH, WORDS, MOST_EPOCHS = 20, 1000, 20


def reproduce(
    artefact: str | Path | Artefact,
    data: str | Path,
    out: str | Path,
    *,
    seeds: int | None = None,
    limit: int | None = None,
    epochs: int | None = None,
    on: str | None = None,
    backbones: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    translate: Translate | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Make a table or figure of a paper: train and measure each row, next to the paper's figures.

    `runs.csv` in `out` gets a row for each finished training. The same call goes on where another
    one was stopped. A run that fails is noted with its error, and the others go on.

    Args:
        artefact: A name of `list_artefacts()`, or a TOML file of the same form.
        data: Folder with a folder for each data set: `sick/`, `msrp/`, ….
        out: Folder for `table.md`, `table.csv`, `figure.png`, `runs.csv` and the run folders.
        seeds: Number of seeds. Defaults to the paper's.
        limit: Maximum number of pairs of each part. Defaults to all.
        epochs: Number of epochs. Defaults to the recipe's.
        on: A data set to train and measure on in place of the paper's.
        backbones: Folder or preset of the pretrained network, by its name in the paper (`"base"`,
            `"large"`, …). A row without its network is left out.
        overrides: Further overrides of every recipe, as after `--set`.
        translate: Function for the transformation `BackTrans`, see `transform`.
        progress: Whether to show the epochs.

    Returns:
        `artefact`, `rows` (a list of cells: `row`, `value`, `column`, `paper`, `mean`, `sd`, `best`,
        `seeds`, `p`, `note`), `runs` (`done` and `failed`), and the `caption`.

    Raises:
        InputError: There is no such artefact, or none of its data is there.

    Example:

    ```python
    from keras_sentmatch.reproduction import reproduce

    found = reproduce(
        "ladra_net/table-6", "data", "tables/ladra_net-6", seeds=1, limit=200, epochs=1
    )
    print(found["caption"])
    ```
    """
    made = artefact if isinstance(artefact, Artefact) else load_artefact(artefact)
    made = made.on(on) if on else made
    given = backbones or {}, tuple(overrides), translate
    settings = Settings(seeds or made.seeds, limit, epochs, *given)
    out, root = Path(out), Path(data).expanduser()
    parts = load_all(made, root, settings)
    table = RunTable(out / "runs.csv")
    caches: dict[str, EncodingCache] = {}
    waiting = [run for run in runs_of(made, settings) if run.data in parts]
    waiting = [run for run in waiting if not why_not(run, settings)]
    done = {run.key(settings) for run in waiting} & table.done.keys()
    begun, finished = time.perf_counter(), 0
    for run in waiting:
        key = run.key(settings)
        if key in done:
            continue
        left = len(waiting) - len(done) - finished
        pace = (time.perf_counter() - begun) / finished if finished else None
        when = "" if pace is None else f", about {pace * left / 60:.0f} min left"
        log.info(
            "%s on %s, seed %d; trainings to do: %d%s", run.row.name, run.data, run.seed, left, when
        )
        cache = caches.setdefault(run.data, EncodingCache())
        table.add(key, **_measured(made, run, parts, out, settings, progress, cache))
        finished += 1
    return save_result(made, settings, parts, table, out)


def load_all(artefact: Artefact, root: Path, settings: Settings) -> dict[str, Parts]:
    """Load the data sets that the folder has. Raise an `InputError` if it has none of them."""
    parts: dict[str, Parts] = {}
    missing: dict[str, InputError] = {}
    trained_on = {run.data for run in runs_of(artefact, settings)}
    for name in artefact.data_names:
        try:
            parts[name] = load_parts(root, name, settings.limit, train=name in trained_on)
        except InputError as error:
            missing[name] = error
    if not (parts if artefact.kind == "data" else trained_on & parts.keys()):
        raise InputError(f"{artefact.name}: {what_is_needed(root, list(missing))}")
    for name, reason in missing.items():
        log.info("%s is left out: %s", name, reason)
    return parts


def _measured(
    artefact: Artefact,
    run: Run,
    parts: Mapping[str, Parts],
    out: Path,
    settings: Settings,
    progress: bool,
    cache: EncodingCache,
) -> dict[str, Any]:
    """Train and measure one run; an error becomes a row with the status `failed`."""
    begun = time.perf_counter()
    metrics: dict[str, Any] = {}
    try:
        folder = out / "runs" / run.folder(settings)
        wanted = [one for one in artefact.columns if one.trained_on in (run.data, "")]
        matcher: Any
        figures: dict[str, Any]
        if run.seed < 0:
            matcher = load([out / "runs" / one.folder(settings) for one in run.members()])
            wanted = [one for one in wanted if run.row.ensemble or one.ensemble]
        else:
            recipe = run.recipe(artefact, settings)
            matcher, metrics = _trained(recipe, parts[run.data].pairs, folder, progress, cache)
        if artefact.kind in ("examples", "maps"):
            answers = folder / "answers.json"
            replace_file(answers, json.dumps(_answers(artefact, run.row, matcher)))
            figures = {"answers": str(answers.relative_to(out))}
        elif artefact.kind == "history":
            path = str(folder.relative_to(out) / "history.csv")
            figures = {one.name: path for one in wanted}
        else:
            figures = measure(matcher, metrics, wanted, run.data, parts, settings.translate)
        status, error = "done", ""
    except InputError as problem:
        figures, status, error = {}, "failed", str(problem)
    except Exception as problem:  # of Keras or a backend: the other rows go on
        figures, status, error = {}, "failed", f"{type(problem).__name__}: {first_line(problem)}"
    if error:
        log.warning("%s failed: %s", run.row.name, error)
    seconds = round(time.perf_counter() - begun, 1)
    departures = "; ".join(metrics.get("departures", []))
    row = {"status": status, "seconds": seconds, "figures": figures, "error": error}
    return {**row, "departures": departures}


def _trained(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    folder: Path,
    progress: bool,
    cache: EncodingCache,
) -> tuple[Matcher, dict[str, Any]]:
    """Train a run, or go on with it, or load it if it is finished."""
    keras.backend.clear_session()
    if (metrics := finished_metrics(folder)) is not None:
        return Matcher.load(folder), metrics
    resume = folder.exists()
    given: Any = {"resume": resume, "progress": progress, "baseline": False, "encodings": cache}
    result = train(recipe, splits, folder, **given)
    if result.metrics["interrupted"]:
        raise KeyboardInterrupt
    return result.matcher, result.metrics


def measure(
    matcher: Matcher,
    metrics: Mapping[str, Any],
    columns: Sequence[Column],
    trained_on: str,
    parts: Mapping[str, Parts],
    translate: Translate | None = None,
) -> dict[str, float]:
    """Return the figure of each column by name; those that cannot be measured are left out."""
    found: dict[str, float] = {}
    reports: dict[tuple[str, str], dict[str, Any]] = {}
    for column in columns:
        kind = column.metric.partition(":")[0]
        pairs = parts[column.data].pairs.get(column.part) if column.data in parts else None
        if kind in ("mean", "sd"):
            continue  # of other columns
        if kind == "parameters":
            found[column.name] = metrics["parameters_without_word_embeddings"] / 1e6
        elif kind == "milliseconds":
            found[column.name] = _milliseconds(matcher, parts[trained_on].pairs["train"])
        elif pairs is None:
            continue
        elif kind in ("category", "change"):
            place = column.data, column.part
            changes = [one.metric for one in columns if (one.data, one.part) == place]
            if place not in reports:
                notes = parts[column.data].annotations
                reports[place] = _report(matcher, pairs, changes, notes, translate)
            value = reports[place].get(column.metric)
            found |= {} if value is None else {column.name: value}
        else:
            here = metrics.get(column.part) if column.data == trained_on else None
            figures = here or matcher.evaluate(pairs)
            if column.metric not in figures:
                raise InputError(
                    f"{column.name}: there is no metric {column.metric!r} on {column.data}. Expected "
                    f"one of {', '.join(figures)}."
                )
            found[column.name] = float(figures[column.metric])
    return found


def _report(
    matcher: Matcher,
    pairs: PairDataset,
    metrics: Sequence[str],
    annotations: Path | None,
    translate: Translate | None,
) -> dict[str, Any]:
    """Return the accuracy of each category and after each transformation, by `KIND:NAME`."""
    changes = [name.removeprefix("change:") for name in metrics if name.startswith("change:")]
    try:
        lexicon = Lexicon.wordnet()
    except InputError:
        lexicon = None
    measured, left_out = {}, {}
    for name in changes:
        try:
            given: Any = {"lexicon": lexicon, "translate": translate, "top": 0}
            found = report(matcher, pairs, transformations=[name], form="textflint", **given)
        except InputError as error:
            left_out[name] = str(error)
            continue
        measured[f"change:{name}"] = found["transformations"][0]["accuracy"]
    if any(name.startswith("category:") for name in metrics):
        found = report(matcher, pairs, lexicon=lexicon, annotations=annotations, top=0)
        for one in found["categories"]:
            measured[f"category:{one['name']}"] = one["accuracy"]
    for name, reason in left_out.items():
        log.info("%s is not measured: %s", name, reason)
    return measured


def _milliseconds(matcher: Matcher, pairs: PairDataset) -> float:
    """Return the median time of one prediction of one pair."""
    taken = []
    for row in range(TIMED):
        pair = pairs.select([row % len(pairs)])
        begun = time.perf_counter()
        matcher.predict_proba(pair)
        taken.append(1000 * (time.perf_counter() - begun))
    return float(np.median(taken[TIMED // 3 :]))  # the first ones compile


def _answers(artefact: Artefact, row: Row, matcher: Matcher) -> list[dict[str, Any]]:
    """Return the answers to the artefact's pairs, the words read, and what the figure shows."""
    answers = []
    for one, two, *_ in artefact.pairs:
        found: Any = explain(matcher, one, two, erasure=False)
        shown: list[Picture] = []
        for key in row.show:
            pictures = [picture for picture in found.pictures if key in picture.keys]
            if not pictures:
                raise InputError(
                    f"{row.name}: {row.model} shows no {key!r}. It shows {', '.join(found.values)}."
                )
            if any(known.keys == pictures[0].keys for known in shown):
                continue  # a picture of several keys
            shown += _layers(pictures, artefact.layers)
        answers.append(
            {
                "answer": found.label,
                "probability": found.probabilities[found.label] if found.label else found.score,
                "read": [
                    " ".join(word for word, _ in picture.steps)
                    for picture in found.pictures
                    if picture.reread
                ],
                "pictures": [_plain(picture) for picture in shown],
            }
        )
    return answers


def _layers(pictures: Sequence[Picture], layers: Sequence[int | str]) -> list[Picture]:
    """Return the pictures of some layers, and their mean; all pictures if there is only one."""
    if not layers or len(pictures) == 1:
        return list(pictures)
    mean = np.mean([picture.values for picture in pictures], axis=0)
    title = re.sub(r": layer \d+$", "", pictures[0].title)
    whole = replace(pictures[0], values=mean, title=f"{title}: mean of the layers")
    return [whole if layer == "mean" else pictures[int(layer) - 1] for layer in layers]


def _plain(picture: Picture) -> dict[str, Any]:
    values = [[float(f"{x:.4g}") for x in row] for row in picture.values]
    names = {"title": picture.title, "rows": picture.rows, "columns": picture.columns}
    return {**names, "values": values}


def plan(
    artefact: Artefact, data: str | Path, settings: Settings
) -> Iterator[tuple[Run, float | None, str]]:
    """Return for each row, data set and value a run, its seconds, and why it is left out, if it is.

    The seconds come from one timed training step of the row's model.
    """
    parts: dict[str, Parts | str] = {}
    paces: dict[tuple[str, ...], float] = {}
    for run in runs_of(artefact, replace(settings, seeds=1)):
        if run.data not in parts:
            try:
                parts[run.data] = load_parts(Path(data).expanduser(), run.data, settings.limit)
            except InputError:
                parts[run.data] = f"no data: {run.data}"
        found = parts[run.data]
        reason = found if isinstance(found, str) else why_not(run, settings)
        if isinstance(found, str) or reason:
            yield run, None, reason
            continue
        recipe = run.recipe(artefact, settings)
        key = run.row.name, json.dumps(run.value)
        if key not in paces:
            paces[key] = _seconds_per_pair(recipe, found.pairs["train"].num_classes)
        epochs = recipe.training.epochs
        passes = epochs if isinstance(epochs, int) else MOST_EPOCHS
        yield run, paces[key] * len(found.pairs["train"]) * passes, ""


def _seconds_per_pair(recipe: Recipe, classes: int) -> float:
    size = recipe.training.batch_size
    found = profile_recipe(recipe, size if isinstance(size, int) else 32, LENGTH, WORDS, classes)
    return 1 / float(found["train_pairs_per_s"])
