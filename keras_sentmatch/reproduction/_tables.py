"""The result as `table.md`, `table.csv` and `figure.png`, with the paper's column next to ours."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.display.tables import cell, markdown_table, without_formula
from keras_sentmatch.reproduction._figures import draw
from keras_sentmatch.reproduction.artefact import Artefact, Column, Row
from keras_sentmatch.reproduction.data_sets import Parts
from keras_sentmatch.reproduction.runs import Run, RunTable, Settings, runs_of, why_not
from keras_sentmatch.safety import replace_file

SIGNIFICANT = 0.05
CSV = ("row", "value", "column", "paper", "mean", "sd", "best", "seeds", "p", "note")
Cells = list[dict[str, Any]]


def save_result(
    artefact: Artefact,
    settings: Settings,
    parts: Mapping[str, Parts],
    table: RunTable,
    out: Path,
) -> dict[str, Any]:
    """Write the table and the picture; return what `reproduce` returns."""
    cells = cells_of(artefact, settings, parts, table)
    caption = caption_of(artefact, settings, parts, cells)
    results = _with_answers(results_of(artefact, settings, table), out)
    body = _examples(artefact, results) if artefact.pairs else _layout(artefact, cells)
    title = f"# {artefact.name}: {artefact.title} ({artefact.place})"
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "table.md", "\n".join([title, "", *body, "", caption, ""]))
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: without_formula(one.get(name)) for name in CSV} for one in cells)
    replace_file(out / "table.csv", text.getvalue())
    if artefact.figure:
        draw(artefact, cells, results, out)
    states = {run.key(settings) for run in runs_of(artefact, settings)}
    failed = {
        " ".join(filter(None, key[:5])): table.failed[key] for key in states & table.failed.keys()
    }
    runs = {"done": len(states & table.done.keys()), "failed": failed}
    return {"artefact": artefact.name, "rows": cells, "runs": runs, "caption": caption}


Result = Mapping[str, Any]
Results = Mapping[tuple[str, Any], Sequence[Result]]


def results_of(
    artefact: Artefact, settings: Settings, table: RunTable
) -> dict[tuple[str, Any], list[Result]]:
    """Return what each row measured with each value of `vary`: the columns of each seed.

    Those of an ensemble are joined to the first seed.
    """
    data = dict.fromkeys(run.data for run in runs_of(artefact, settings))
    means = [column.name for column in artefact.columns if not column.trained_on]
    found: dict[tuple[str, Any], list[Result]] = {}
    for row in artefact.built:
        for value in artefact.values_of(row):
            seeds: list[Result] = []
            for seed in range(settings.seeds):
                wanted = [Run(row, name, value, seed) for name in data]
                wanted += [replace(run, seed=-settings.seeds) for run in wanted if not seed]
                known = [table.done[k] for run in wanted if (k := run.key(settings)) in table.done]
                joined = {name: value for one in known for name, value in one.items()}
                for name in means:
                    if several := [one[name] for one in known if name in one]:
                        joined[name] = float(np.mean(several))
                if joined:
                    seeds.append(joined)
            if seeds:
                found[row.name, value] = seeds
    return found


def cells_of(
    artefact: Artefact,
    settings: Settings,
    parts: Mapping[str, Parts],
    table: RunTable,
) -> Cells:
    """Return a dict for each row, value and column: the paper's figure, ours, and what is missing."""
    if artefact.kind == "data":
        return _counts(artefact, parts)
    results = results_of(artefact, settings, table)
    cells = []
    for row in artefact.rows:
        for value in artefact.values_of(row):
            figures = [_with_means(artefact, one) for one in results.get((row.name, value), [])]
            for place, column in enumerate(artefact.columns):
                scale = _scale(artefact, place)
                known = [] if artefact.kind == "history" else figures
                here = [scale * one[column.name] for one in known if column.name in one]
                if row.ensemble or column.ensemble:
                    here = here[:1]
                paper = row.paper[place] if row.paper else None
                found: dict[str, Any] = {
                    "row": row.name,
                    "value": value,
                    "column": column.name,
                    "paper": None if paper is None or np.isnan(paper) else paper,
                    "seeds": len(here),
                }
                if here:
                    found |= {"mean": float(np.mean(here)), "best": float(max(here))}
                    found["sd"] = float(np.std(here, ddof=1)) if len(here) > 1 else None
                    found["p"] = _p(results, row, value, column, figures)
                else:
                    found["note"] = _why_empty(artefact, settings, row, value, column, parts, table)
                cells.append(found)
    return cells


def _scale(artefact: Artefact, place: int) -> float:
    """Return 100 for a column in percent, as the paper prints it."""
    column = artefact.columns[place]
    if column.metric in ("parameters", "milliseconds", "loss"):
        return 1.0
    printed = [row.paper[place] for row in artefact.rows if row.paper]
    known = [value for value in printed if not np.isnan(value)]
    if known:
        return 100.0 if max(known) > 1.5 else 1.0
    return 1.0 if column.metric in ("map", "mrr") else 100.0


def _with_means(artefact: Artefact, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Add the means and standard deviations of columns, each of those since the last one."""
    found = dict(figures)
    block: list[str] = []
    for column in artefact.columns:
        if column.metric in ("mean", "sd"):
            known = [found[name] for name in block if name in found]
            if known and len(known) == len(block):
                found[column.name] = np.mean(known) if column.metric == "mean" else np.std(known)
        elif column.metric not in ("parameters", "milliseconds"):
            after = artefact.columns[artefact.columns.index(column) - 1].metric in ("mean", "sd")
            block = [column.name] if after else [*block, column.name]
    return found


def _p(
    results: Mapping[tuple[str, Any], Sequence[Mapping[str, Any]]],
    row: Row,
    value: Any,
    column: Column,
    figures: Sequence[Mapping[str, Any]],
) -> float | None:
    """Return the p of a paired t-test against the row `against`, seed by seed."""
    if not row.against:
        return None
    from scipy.stats import ttest_rel

    other = results.get((row.against, value), [])
    pairs = [
        (a[column.name], b[column.name])
        for a, b in zip(figures, other)
        if column.name in a and column.name in b
    ]
    if len({a - b for a, b in pairs}) < 2:  # one seed, or the same difference everywhere
        return None
    p = float(ttest_rel(*zip(*pairs)).pvalue)
    return p


def _why_empty(
    artefact: Artefact,
    settings: Settings,
    row: Row,
    value: Any,
    column: Column,
    parts: Mapping[str, Parts],
    table: RunTable,
) -> str:
    """Return why a cell has no figure of ours."""
    if not row.model:
        return "not built"
    if artefact.kind == "history" and results_of(artefact, settings, table).get((row.name, value)):
        return "in the picture"
    if column.trained_on and column.trained_on not in parts:
        return "no data"
    for run in runs_of(artefact, settings):
        if (run.row.name, run.value, run.data) == (row.name, value, column.trained_on):
            if reason := why_not(run, settings):
                return reason
            if run.key(settings) in table.failed:
                return "failed"
    return "not measured"


def _counts(artefact: Artefact, parts: Mapping[str, Parts]) -> Cells:
    """Return the number of pairs by part, and of classes, of each data set."""
    cells = []
    for row in artefact.rows:
        found = parts.get(row.data)
        for place, column in enumerate(artefact.columns):
            count = None
            if found is not None and column.metric == "classes":
                count = next(iter(found.pairs.values())).num_classes
            elif found is not None and column.part in found.pairs:
                count = len(found.pairs[column.part])
            paper = row.paper[place] if row.paper else None
            one = {"row": row.name, "column": column.name, "paper": paper, "mean": count}
            cells.append(one | ({} if count is not None else {"note": "no data"}))
    return cells


def _layout(artefact: Artefact, cells: Cells) -> list[str]:
    """Return the table in the paper's layout: for each column the paper's figure and ours."""
    names = [column.name for column in artefact.columns]
    heads = [head for name in names for head in (f"{name}, paper", "here")]
    forms = {column.name: _form(artefact, place) for place, column in enumerate(artefact.columns)}
    label = artefact.vary.label or artefact.vary.setting if artefact.vary else ""
    rows: dict[tuple[str, Any], list[str]] = {}
    for one in cells:
        key = one["row"], one.get("value")
        paper = "" if one["paper"] is None else format(one["paper"], forms[one["column"]])
        rows.setdefault(key, []).extend([paper, _here(artefact, one)])
    return markdown_table(
        ["", *([label] if label else []), *heads],
        [
            [name, *([_plain(value)] if label else []), *figures]
            for (name, value), figures in rows.items()
        ],
    )


def _form(artefact: Artefact, place: int) -> str:
    """Return how the paper's figures of a column are written: all accuracies with the same decimals."""
    if artefact.columns[place].metric in ("parameters", "milliseconds"):
        return "g"
    printed = [f"{row.paper[place]:g}" for row in artefact.rows if row.paper]
    decimals = max((len(text.partition(".")[2]) for text in printed), default=0)
    return f",.{decimals}f"


def _plain(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _here(artefact: Artefact, one: Mapping[str, Any]) -> str:
    """Return our figure as a cell: mean and standard deviation over seeds, or the best."""
    if one.get("mean") is None:
        return str(one.get("note", ""))
    if isinstance(one["mean"], int):
        return f"{one['mean']:,}"
    places = 2 if one["mean"] >= 1.5 else 3
    text = f"{one['mean']:.{places}f}"
    metric = next(c.metric for c in artefact.columns if c.name == one["column"])
    if one.get("sd") is not None and metric != "parameters":
        text += f" ± {one['sd']:.{places}f}"
        if artefact.summary == "best":
            text = f"{one['best']:.{places}f} (mean {text})"
    return text + (" †" if one.get("p") is not None and one["p"] < SIGNIFICANT else "")


def _with_answers(results: Results, out: Path) -> Results:
    """Read the answers that runs have written into their folders."""
    return {
        key: [
            {**one, "answers": json.loads((out / one["answers"]).read_text("utf-8"))}
            if "answers" in one
            else one
            for one in seeds
        ]
        for key, seeds in results.items()
    }


def _examples(artefact: Artefact, results: Results) -> list[str]:
    """Return the answers to each pair: the paper's, ours, and the words that were read."""
    rows = []
    for number, (one, two, *more) in enumerate(artefact.pairs):
        gold, whole = [*more, "", ""][:2]
        for row in artefact.rows:
            printed = row.answers[number] if row.answers else whole
            shown, read = "not run" if row.model else "not built", ""
            if found := results.get((row.name, None)):
                answer = found[0]["answers"][number]
                shown = f"{answer['answer']} {answer['probability']:.2f}"
                read = " / ".join(answer["read"])
            rows.append([one, two, gold, row.name, printed, shown, read])
    heads = ["sentence 1", "sentence 2", "label", "model", "paper", "here", "words read here"]
    filled = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    return markdown_table(
        [heads[place] for place in filled], [[row[place] for place in filled] for row in rows]
    )


def equal_rows(cells: Cells) -> list[str]:
    """Name the rows whose figures of several seeds are equal, as "A and B"."""
    rows: dict[str, list[Any]] = {}
    for one in cells:
        figures = [one.get(name) for name in ("value", "column", "mean", "sd", "best")]
        if (one.get("seeds") or 0) > 1:
            rows.setdefault(one["row"], []).append(figures)
    groups: dict[str, list[str]] = {}
    for row, found in rows.items():
        groups.setdefault(repr(found), []).append(row)
    return [" and ".join(names) for names in groups.values() if len(names) > 1]


def caption_of(
    artefact: Artefact, settings: Settings, parts: Mapping[str, Parts], cells: Cells
) -> str:
    """Return what differs from the paper, in sentences."""
    lines = [f"The paper: {artefact.protocol}."] if artefact.protocol else []
    seeds = f"{settings.seeds} seed{'s' * (settings.seeds > 1)}"
    what = "the best of them" if artefact.summary == "best" else "mean ± standard deviation"
    if artefact.kind != "data":
        lines.append(f"Here: {seeds}{f', {what}' if settings.seeds > 1 else ''}.")
    if settings.limit is not None:
        lines.append(f"At most {settings.limit:,} pairs of each part.")
    if settings.epochs is not None:
        lines.append(f"Epochs: at most {settings.epochs}.")
    needed = dict.fromkeys(row.backbone for row in artefact.built)
    names = {key: Path(path).name for key, path in settings.backbones.items() if key in needed}
    if names:
        lines.append(
            "Pretrained network: " + ", ".join(f"{v} for {k}" for k, v in names.items()) + "."
        )
    if settings.overrides:
        lines.append(f"Set: {', '.join(settings.overrides)}.")
    for name, found in parts.items():
        sizes = ", ".join(f"{len(pairs):,} {part}" for part, pairs in found.pairs.items())
        lines.append(f"{name}: {sizes} pairs{f'; {found.note}' if found.note else ''}.")
        if any(one.metric.startswith("category:") and one.data == name for one in artefact.columns):
            whose = f"people's, in {found.annotations.name}" if found.annotations else "rules"
            lines.append(f"Categories of {name}: {whose}.")
    if any(one.get("p") is not None for one in cells):
        lines.append(f"†: p < {SIGNIFICANT} in a paired t-test over the seeds.")
    if twins := equal_rows(cells):
        lines.append(
            f"The same figures with each seed, so perhaps the same model: {'; '.join(twins)}."
        )
    if artefact.note:
        lines.append(artefact.note)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines.append(f"Backend {keras.config.backend()}, {cores} core{'' if cores == 1 else 's'}.")
    return cell(" ".join(lines))
