"""Fill the tables and pictures of the pages with results, and the figures of `keras-sentmatch models`.

    python benchmarks/results_page.py

Each block of a page between `<!-- NAME -->` and `<!-- end -->` is made by the function NAME from
the rows in results/*.csv, so no number is typed by hand. Rows that no block selects stay in the CSV
files.
"""

import csv
import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator

from keras_sentmatch.reproduction.artefact import list_artefacts, load_artefact

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", DOCS / "how-many-pairs.md", *sorted((DOCS / "results").glob("*.md"))]
PAPERS = DOCS / "papers"
MADE = (
    ROOT / "benchmarks" / "results" / "reproduced"
)  # by paper and artefact; tried.csv: what was only tried
FIGURES = ROOT / "keras_sentmatch" / "cli" / "figures.csv"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")  # for the color-blind
MARKERS = "os^Dv"
END = "<!-- end -->"
Row = dict[str, str]
Panel = dict[str, dict[str, tuple[float, float]]]  # label: series: value and error
Draw = Callable[[Path], None]  # draws a picture into a file
Block = tuple[list[str], Draw | None]

# === Rows and cells ===


def rows(name: str, **wanted: str) -> list[Row]:
    """Return the rows of a file that have these values."""
    return [row for row in measuring.Results(name).rows() if wanted.items() <= row.items()]


def grouped(found: Iterable[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows by their values of these columns, in the order of the file."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def numbers(found: Iterable[Row], name: str, scale: float = 1.0) -> list[float]:
    return [scale * float(row[name]) for row in found if row.get(name)]


def said(values: Sequence[float], digits: int = 1) -> str:
    """Return `mean ± standard deviation`, or the mean of a single value."""
    if not values:
        return "–"
    mean = f"{statistics.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def count(row: Row, *names: str) -> list[str]:
    return [f"{float(row[name]):,.0f}" for name in names]


def ratio(ours: Row, theirs: Row, name: str) -> float:
    return float(ours[name]) / float(theirs[name])


def point(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation, for a picture."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def error_of(accuracy: float, pairs: float) -> float:
    """Return the standard error of an accuracy in percent."""
    return math.sqrt(accuracy * (100 - accuracy) / pairs)


def table(head: str, lines: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Return a Markdown table. Columns after the first `left` are aligned to the right."""
    names = head.split(",")
    rule = "|" + "---|" * left + "---:|" * (len(names) - left)
    text = [f"| {' | '.join(line)} |" for line in [names, *lines]]
    return [text[0], rule, *text[1:]]


# === Pictures ===


def save(
    figure: Figure, panels: dict[str, Any], keys: list[tuple[str, str, str]], png: Path
) -> None:
    """Add the titles and a legend of colors and markers, and write the file."""
    for axis, title in zip(figure.axes, panels):
        axis.set_title(title)
        axis.grid(color="lightgray", linewidth=0.5)
        axis.set_axisbelow(True)
        if axis.get_xscale() == "log":
            if not isinstance(axis.xaxis.get_major_locator(), FixedLocator):
                axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
            axis.minorticks_off()
    for color, marker, label in keys if len(keys) > 1 else ():
        figure.axes[-1].plot([], [], marker, color=color, label=label)
    if len(keys) > 1:
        figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(png, dpi=110, metadata={"Software": None})


def places(count: int, wide: float, high: float) -> tuple[Figure, list[Any]]:
    """Return a figure with at most two panels per row, each row `high` inches."""
    lines = math.ceil(count / 2)
    figure = Figure(figsize=(wide, high * lines + 0.5), layout="constrained")
    axes = list(np.ravel(figure.subplots(lines, min(2, count), squeeze=False)))
    for axis in axes[count:]:
        axis.remove()
    return figure, axes[:count]


def dots(xlabel: str, panels: dict[str, Panel], log: bool = False) -> Draw:
    """Draw values with error bars: one line per label, one color per series."""
    series = list(
        dict.fromkeys(s for points in panels.values() for p in points.values() for s in p)
    )

    def draw(png: Path) -> None:
        wide, high = 3.6 * min(2, len(panels)) + 1.6, 0.42 * max(map(len, panels.values())) + 1
        figure, axes = places(len(panels), wide, high)
        for axis, points in zip(axes, panels.values()):
            for place, found in enumerate(points.values()):
                for name, (value, error) in found.items():
                    i = series.index(name)
                    height = place + 0.5 * ((i + 0.5) / len(series) - 0.5)
                    style = {"color": COLORS[i], "marker": MARKERS[i], "capsize": 2}
                    axis.errorbar(value, height, xerr=error or None, linestyle="", **style)
            axis.set_yticks(range(len(points)), list(points))
            axis.set(ylim=(len(points) - 0.5, -0.5), xlabel=xlabel)
            axis.set_xscale("log" if log else "linear")
        save(figure, panels, list(zip(COLORS, MARKERS, series)), png)

    return draw


def curves(ylabel: str, panels: dict[str, dict[str, list[tuple[float, ...]]]]) -> Draw:
    """Draw values with their standard deviations over numbers of training pairs."""

    def draw(png: Path) -> None:
        figure, axes = places(len(panels), 9, 3.2)
        for axis, lines in zip(axes, panels.values()):
            for (name, points), color, marker in zip(lines.items(), COLORS, MARKERS):
                x, y, error = zip(*sorted(points))
                axis.errorbar(x, y, error, color=color, marker=marker, capsize=2, label=name)
            axis.set(xlabel="training pairs", ylabel=ylabel, xscale="log")
            axis.set_xticks(sorted({x for points in lines.values() for x, *_ in points}))
            axis.legend(fontsize=8)
        save(figure, panels, [], png)

    return draw


def scatter(
    panels: dict[str, list[tuple[str, str, float, float, float]]],
) -> Draw:
    """Draw accuracy with its standard error against pairs per second."""
    every = [found for points in panels.values() for found in points]
    models, engines = (list(dict.fromkeys(found[i] for found in every)) for i in (0, 1))

    def draw(png: Path) -> None:
        figure = Figure(figsize=(4.5 * len(panels), 4.4), layout="constrained")
        for axis, points in zip(np.ravel(figure.subplots(1, len(panels))), panels.values()):
            for model, engine, rate, accuracy, error in points:
                style = {"color": COLORS[models.index(model)], "capsize": 2, "elinewidth": 0.7}
                marker = MARKERS[engines.index(engine)]
                axis.errorbar(rate, accuracy, error, linestyle="", marker=marker, **style)
            axis.set(xlabel="pairs per second", ylabel="accuracy, percent", xscale="log")
        keys = list(zip(COLORS, "o" * len(models), models))
        keys += list(zip(["gray"] * len(engines), MARKERS, engines))
        save(figure, panels, keys, png)

    return draw


# === Blocks of the page ===


def defaults() -> Block:
    measured = rows("first_hour", part="test", size="all")
    ours = grouped([row for row in measured if not row["settings"]], "data", "model")
    groups = grouped(measured, "data", "model")
    lines, panel = [], {}
    for data in ("wikiqa", "quora", "stsb", "sick", "msrp", "quora_1500"):
        default, encoder = ours[data, "(default)"], groups[data, "cross_encoder"]
        values = {
            "bag of words": numbers(default, "bag_of_words", 100)[:1],
            "default": numbers(default, "value", 100),
            "MiniLM-L6, fine-tuned": numbers(encoder, "value", 100),
        }
        seconds = f"{statistics.mean(numbers(default, 'seconds')):,.0f}"
        facts = [data, default[0]["metric"], *count(default[0], "train_rows")]
        lines.append([*facts, *map(said, values.values()), seconds])
        panel[data] = {name: point(found) for name, found in values.items()}
    head = "data,metric,training pairs,bag of words,default,MiniLM-L6,seconds"
    return table(head, lines, 2), dots("percent", {"": panel})


CONSTANT = "training.schedule=constant training.learning_rate=0.001"


def few_pairs() -> Block:
    groups = grouped(rows("first_hour", part="choose"), "data", "size", "model", "settings")
    lines, panels = [], {}
    for data in ("sick", "stsb", "quora", "msrp"):
        for size in ("100", "500", "2000"):
            own = CONSTANT
            if size != "2000":  # up to 1,000 the default is warm
                own = f"training.init=none {own}"
            kinds = {
                "hybrid": ("hybrid", own),
                "warm start": ("hybrid", "training.init=similarity"),
            }
            kinds["re2"] = ("re2", "")
            found = {name: groups.get((data, size, *key), []) for name, key in kinds.items()}
            values = {"bag of words": numbers(found["hybrid"], "bag_of_words", 100)[:1]}
            values |= {name: numbers(some, "value", 100) for name, some in found.items()}
            shown = {name: point(some) for name, some in values.items() if some}
            for name, (mean, sd) in shown.items():
                panels.setdefault(data, {}).setdefault(name, []).append((float(size), mean, sd))
            if size != "2000":
                means = [f"{shown[name][0]:.1f}" if name in shown else "–" for name in values]
                lines.append([data, size, *means])
    head = "data,training pairs,bag of words,hybrid,warm start,re2"
    return table(head, lines), curves("percent", panels)


ON_SICK = {  # label: model, vectors, settings
    "drcn": ("drcn", "glove.840B", "training.dtype_policy=mixed_bfloat16"),
    "mean of 3 drcn": ("drcn", "glove.840B", "training.dtype_policy=mixed_bfloat16 (mean answer of "
                       "3 seeds)"),
    "drr_net": ("drr_net", "glove.840B", "encoder.antonyms=wordnet_antonyms.txt training.epochs=8 "
                "model.preset=table6_5_full"),
    "re2": ("re2", "glove.840B", "training.epochs=15"),
    "re2, 75 units, taught": ("re2", "encoder:", "training.epochs=15 model.units=75 "
                              "teacher=cross_encoder-sick-0"),
    "esim": ("esim", "encoder:", "training.epochs=20"),
    "bimpm": ("bimpm", "glove.840B", "training.epochs=8"),
    "cafe": ("cafe", "glove.840B", "training.epochs=12"),
    "diin": ("diin", "glove.840B", "model.max_length=20 encoder.max_length=20 training.epochs=10"),
    "cross_encoder": ("cross_encoder", "backbone:", "training.epochs=4 "
                      "training.learning_rate=5e-5"),
    "dabert": ("dabert", "backbone:", "training.epochs=4 training.learning_rate=5e-5"),
    "ladra_net": ("ladra_net", "backbone:", "training.epochs=4 "
                  "training.backbone_learning_rate=5e-5 model.preset=table7_7_full"),
}  # fmt: skip


def papers_models() -> Block:
    kinds = {"glove.840B": "GloVe", "encoder:": "MiniLM", "backbone:": "backbone"}
    lines, panel = [], {}
    for label, (model, vectors, settings) in ON_SICK.items():
        found = rows("quality", data="sick", model=model, settings=settings, backend="tensorflow")
        found = [row for row in found if row["vectors"].startswith(vectors)]
        test = [100 * json.loads(row["test"])["accuracy"] for row in found]
        mean, deviation = point(test)
        pairs = json.loads(found[0]["test"])["rows"]
        error = math.hypot(error_of(mean, pairs), deviation / math.sqrt(len(found)))
        size = float(found[0]["parameters_without_word_embeddings"]) / 1e6
        cells = kinds[vectors], f"{size:.1f}", str(len(found)), said(test), f"{error:.1f}"
        lines.append([label, *cells])
        panel[label] = {"": (mean, error)}
    head = "model,vectors,million parameters,seeds,test,standard error"
    return table(head, lines, 2), dots("test accuracy, percent", {"": panel})


PUBLIC = {  # label: model, settings of the library's side, settings of the public code
    "majority": ("", "", ""),
    "bag of words": ("", "", ""),
    "mean vectors": ("", "", ""),
    "esim": ("esim", "", ""),
    "esim, constant rate": ("esim", *["training.plateau_factor=1.0"] * 2),
    "re2": ("re2", "", ""),
    "bimpm": ("bimpm", "", ""),
    "din, compare_means": ("din", "model.preset=table2_din1_20 model.compare_means=true", ""),
}


def public_codes() -> Block:
    lines, panels = [], {}
    for data in ("sick", "msrp"):
        groups = grouped(rows("public_codes", data=data), "model", "side", "settings")
        for label, (model, ours, theirs) in PUBLIC.items():
            keys = (model, "library" if model else label, ours), (model, "public code", theirs)
            both = [numbers(groups.get(key, []), "test", 100) for key in keys]
            if any(both):
                lines.append([data, label, *map(said, both)])
                names = "library" if model else "baseline", "public code"
                shown = {name: point(found) for name, found in zip(names, both) if found}
                panels.setdefault(data, {})[label] = shown
    head = "data,model,library or baseline,public code"
    return table(head, lines, 2), dots("accuracy, percent", panels)


def small_matchers() -> Block:
    groups = grouped(rows("comparison", threads="1", backend="tensorflow"), "contender", "data")
    lines, panels = [], {}
    for contender in dict.fromkeys(name for name, _ in groups):
        model, engine = contender.replace("_t", "-t").split(":")
        line = [model, engine]
        for data in ("sick", "msrp"):
            found = groups[contender, data]
            accuracy = 100 * statistics.median(numbers(found, "accuracy"))
            rate = statistics.median(numbers(found, "pairs_per_s"))
            line += [f"{accuracy:.1f}", f"{rate:,.0f}"]
            error = error_of(accuracy, float(found[0]["pairs"]))
            panels.setdefault(data, []).append((model, engine, rate, accuracy, error))
        alone = statistics.median(numbers(groups[contender, "sick"], "p50_ms"))
        if engine != "library":
            lines.append([*line, f"{alone:.1f}"])
    head = "model,engine,SICK,pairs/s,MSRP,pairs/s,one pair ms"
    return table(head, lines, 2), scatter(panels)


FOR_WHAT = {  # model of comparison.csv: its name in the table, and when to take it
    "hybrid": ("`hybrid`, the default", "nearly always; best with few pairs"),
    "re2-75": ("`re2`, taught by an encoder", "smallest and fastest for one pair; needs a teacher"),
    "cross_encoder": ("`cross_encoder`, MiniLM-L6", "as a teacher, or with a larger backbone"),
    "drcn": ("`drcn`", "to compare with the papers"),
    "esim": ("`esim`", "as a baseline; to rank with kept encodings"),
}


def which_model() -> Block:
    lines = []
    for model, (name, when) in FOR_WHAT.items():
        line = [name]
        for data in ("sick", "msrp"):
            found = rows("comparison", contender=f"{model}:onnx", data=data, threads="1")
            found = [row for row in found if row["backend"] == "tensorflow"]
            line.append(f"{100 * statistics.median(numbers(found, 'accuracy')):.1f}")
            if data == "sick":
                facts = ("mib_on_disk", 0), ("pairs_per_s", 0), ("p50_ms", 1)
                cells = [f"{statistics.median(numbers(found, n)):,.{d}f}" for n, d in facts]
        lines.append([*line, *cells, when])
    head = "model,SICK,MSRP,MiB,pairs/s,one pair ms,take it"
    marked = table(head, lines)
    marked[1] = "|---|" + "---:|" * 5 + "---|"
    return marked, None


def similarity() -> Block:
    titles = {"stsb": "STS-B", "sick": "SICK", "negation": "negation", "antonym": "antonym"}
    titles |= {"number": "number", "role": "role swap", "paraphrase": "paraphrases"}
    kinds = {"seed": "mean of {} teachings", "without-rules": "without the rules"}
    kinds |= {"without-teacher": "without the encoder"}
    found: dict[str, list[Any]] = {}
    for row in rows("similarity_matcher"):
        name = kinds.get(row["model"].rstrip("-0123456789"), row["model"])
        found.setdefault(name, []).append(row)
    lines = [
        [
            model.format(len(several)),
            *(said(numbers(several, name, 100)) for name in titles),
            said(numbers(several, "pairs_per_second"), 0),
        ]
        for model, several in found.items()
        if len(several) > 1 or "{}" not in model
    ]
    return table(f"model,{','.join(titles.values())},pairs/s", lines), None


def speed() -> Block:
    found = {(r["model"], r["backend"]): r for r in rows("speed", label="after", lengths="full")}
    columns = {"training": "train_pairs_per_s", "prediction": "answer_pairs_per_s"}
    lines, panels = [], {}
    for model in sorted(dict.fromkeys(model for model, _ in found)):
        line = [model]
        for title, column in columns.items():
            rates = {b: float(found[model, b][column]) for b in measuring.BACKENDS}
            shown = {b: (rate, 0.0) for b, rate in rates.items()}
            panels.setdefault(title, {})[model] = shown
            line += [f"{rate:,.0f}" for rate in rates.values()]
        lines.append(line)
    cells = [(model, column) for model in ("esim", "re2") for column in columns.values()]
    text = "On PyTorch, ESIM reaches {:.2f} of plain PyTorch's rate in training and {:.2f} in "
    text += "prediction, RE2 {:.2f} and {:.2f}."
    text = text.format(*(ratio(found[m, "torch"], found[m, "plain"], c) for m, c in cells))
    names = "TensorFlow,JAX,PyTorch"
    lines = table(f"model,{names},{names}", lines)
    return [*lines, "", text], dots("pairs per second", panels, log=True)


def gpu() -> Block:
    found = {(r["model"], r["backend"], r["precision"]): r for r in rows("gpu/speed")}
    column = "train_pairs_per_s"
    lines, panel = [], {}
    for model in sorted(dict.fromkeys(model for model, _, _ in found)):
        full, half = found[model, "torch", "float32"], found[model, "torch", "bfloat16"]
        lines.append([model, *count(full, column), *count(half, column, "answer_pairs_per_s")])
        rates = {"float32": full, "bfloat16": half}
        panel[model] = {name: (float(row[column]), 0.0) for name, row in rates.items()}
    cells = [(model, backend) for model in ("esim", "re2") for backend in ("torch", "jax")]
    text = (
        "In float32, ESIM trains at {:.2f} of the rate of plain PyTorch on cuDNN with PyTorch and "
    )
    text += "{:.2f} with JAX, RE2 at {:.2f} and {:.2f}."
    of = "float32"
    ratios = (ratio(found[m, b, of], found[m, "plain", of], column) for m, b in cells)
    text = text.format(*ratios)
    worst = max(float(row["largest_difference"]) for row in rows("gpu/checks"))
    text += (
        f" With the same weights, no probability differs from the CPU's by more than {worst:.0e}."
    )
    head = "model,training float32,training bfloat16,prediction bfloat16"
    picture = dots("training pairs per second", {"": panel}, log=True)
    return [*table(head, lines), "", text], picture


COUNTED = {  # data and label: model, settings
    ("sick", "re2"): ("re2", ""),
    ("sick", "re2, exact_match"): ("re2", "model.exact_match=true"),
    ("sick", "hybrid"): ("hybrid", ""),
    ("sick", "drcn"): ("drcn", "training.dtype_policy=mixed_bfloat16"),
    ("sick", "cross_encoder"): ("cross_encoder", "training.dtype_policy=mixed_bfloat16"),
    ("quora", "re2, exact_match"): ("re2", "model.exact_match=true"),
    ("quora", "drcn"): ("drcn", "training.dtype_policy=mixed_bfloat16"),
    ("quora", "cross_encoder"): ("cross_encoder", "training.dtype_policy=mixed_bfloat16"),
}


def robustness() -> Block:
    names = {"as they are": "accuracy", "antonym": "SwapAnt_after", "number": "NumWord_after"}
    names["irrelevant sentence"] = "AppendIrr_after"
    groups = grouped(rows("counting", split="test"), "data", "model", "settings", "augment")
    lines, panels = [], {}
    for (data, label), key in COUNTED.items():
        for rules, series in (("", "without"), ("SwapAnt NumWord AppendIrr", "with augmentation")):
            found = groups[data, *key, rules]
            values = {name: numbers(found, column, 100) for name, column in names.items()}
            means = (said([statistics.mean(some)]) for some in values.values())
            lines.append([data, label, "yes" if rules else "no", *means])
            for name in ("antonym", "number"):
                place = panels.setdefault(f"{data}, {name}", {}).setdefault(label, {})
                place[series] = point(values[name])
    head = f"data,model,augmented,{','.join(names)}"
    return table(head, lines, 3), dots("accuracy after the change, percent", panels)


def calibration() -> Block:
    lines, panel = [], {}
    groups = grouped(rows("calibration", threshold=""), "data", "model", "vectors")
    for (data, model, vectors), found in groups.items():
        label = f"{model}, {data}" + ", GloVe" * vectors.startswith("glove")
        label += ", random vectors" * (model == "re2" and not vectors)
        cells = [said(numbers(found, "temperature"), 2)]
        for name, scale, digits in (("nll", 1, 2), ("ece", 100, 1)):
            both = [numbers(found, f"{name}_{when}", scale) for when in ("before", "after")]
            cells += [said([statistics.mean(values)], digits) for values in both]
        lines.append([label, *cells])
        panel[label] = dict(zip(("before", "after"), map(point, both)))
    head = "run,temperature,log loss,after,calibration error,after"
    return table(head, lines), dots("expected calibration error, percent", {"": panel})


def mining() -> Block:
    at = ("0.7", "0.75", "0.8", "0.85")
    lines, panels = [], {}
    for row in sorted(rows("mine"), key=lambda row: int(row["sentences"])):
        name = {"matcher": "matcher", "static": "static cosines", "minilm": "MiniLM cosines"}[
            row["method"]
        ]
        (sentences,) = count(row, "sentences")
        recall = {share: 100 * float(row[f"recall_at_{share}"] or 0) for share in at}
        cells = [f"{x:.1f}" for x in recall.values()]
        cells += count(row, "processor_s") if row["processor_s"] else [""]
        cells += count(row, "peak_mib")
        lines.append([sentences, name, row["candidates"], *cells])
        for share, x in recall.items():
            panel = panels.setdefault(f"{sentences} sentences", {})
            place = panel.setdefault(f"precision {share}", {})
            place[name] = (x, 0.0)
    head = f"sentences,method,candidates,{','.join(at)},processor s,peak MiB"
    return table(head, lines, 2), dots("recall, percent", panels)


def ranking() -> Block:
    names = ("build_s", "disk_mib", "rank_p50_ms", "rank_p95_ms", "peak_mib")
    shares = ("duplicate_retrieved", "duplicate_in_first_10")
    lines = [
        [*count(row, "sentences"), row["engine"], *count(row, *names)]
        + [f"{100 * float(row[name]):.1f}" for name in shares]
        for row in rows("catalog")
    ]
    head = "sentences,engine,build s,MiB on disk,median ms,95% ms,peak MiB,retrieved,in first ten"
    return table(head, lines, 2), None


def imperfect() -> Block:
    names = ("precision", "recall", "f1", "average_precision")
    found = {kind: rows("rare_labels", kind=kind) for kind in ("none", "balanced")}
    lines = [[k, *(said(numbers(some, n, 100)) for n in names)] for k, some in found.items()]
    names = ("recall", "precision", "precision_of_first_100")
    shares = [said(numbers(rows("audit_planted"), name, 100)) for name in names]
    text = "`audit` found {}% of the changed labels. {}% of its suspects, and {}% of the first hundred, "
    text = (text + "had been changed.").format(*shares)
    return [text, "", *table("class weights,precision,recall,F1,average precision", lines)], None


def serving() -> Block:
    found = grouped(rows("serving"), "clients", "pairs_per_request")
    lines = []
    for (clients, pairs), both in found.items():
        ours, peer = ({r["service"]: r for r in both}.get(n, {}) for n in ("library", "encoder"))
        line = [clients, pairs]
        for name, digits in (("pairs_per_s", 0), ("p50_ms", 1), ("p95_ms", 1)):
            line += [said(numbers([one], name), digits) for one in (ours, peer)]
        lines.append(line)
    head = "clients,pairs per request,pairs/s,encoder,median ms,encoder,95% ms,encoder"
    return table(head, lines, 2), None


def damaged_files() -> Block:
    names = ("cases", "answered", "refused", "failed")
    files = [f"{sum(int(row[name]) for row in rows('mutations')):,}" for name in names]
    text = "{} damaged or hostile files were tried: {} led to a prediction, {} to an error message"
    return [(text + " of this library, and {} to anything else.").format(*files)], None


def rereading() -> Block:
    half = "model.depth=1 model.units=100 model.attention_units=100 model.hidden_units=100"
    half += " training.dtype_policy=mixed_bfloat16"
    groups = grouped(rows("rereading", backend="tensorflow", settings=half), "steps")
    lines, panel = [], {}
    for (steps,), found in sorted(groups.items(), key=lambda item: int(item[0][0])):
        test = numbers(found, "test", 100)
        distinct, weight = (
            statistics.mean(numbers(found, name)) for name in ("distinct", "weight")
        )
        lines.append([steps, f"{distinct:.2f}", f"{weight:.2f}", said(test)])
        panel[steps] = {"": point(test)}
    head = "words read,different words,weight of each,test accuracy"
    return table(head, lines, 0), dots("test accuracy, percent, by words read", {"": panel})


DECIDED = ("better", "worse")


def mechanisms() -> Block:
    lines = []
    shown = [row for row in rows("hypotheses") if "Table" not in row["question"]]  # of a paper
    found = sorted(shown, key=lambda row: (row["question"], int(row["pairs"])))
    of = itemgetter("question", "data", "setting")
    last = {of(row): row["pairs"] for row in found}
    found = [  # the picture of `scaling` has the others
        row for row in found if row["verdict"] in DECIDED or row["pairs"] == last[of(row)]
    ]
    groups = grouped(found, "question", "data", "pairs", "base")
    for (question, data, pairs, base), found in groups.items():
        first = [
            question,
            f"{data}, {int(pairs):,}",
            f"{base}: {numbers(found, 'base_accuracy', 100)[0]:.1f}",
        ]
        for row in found:
            low, difference, high = (100 * float(row[n]) for n in ("low", "difference", "high"))
            verdict = row["verdict"] if row["verdict"] in DECIDED else "–"
            cells = [f"{difference:+.1f}", f"{low:+.1f}, {high:+.1f}", verdict]
            lines.append([*first, row["setting"], *cells])
            first = ["", "", ""]
    return table("mechanism,pairs,base,with,difference,95% interval,verdict", lines, 4), None


def scaling() -> Block:
    panels: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for (question, data), found in grouped(rows("hypotheses"), "question", "data").items():
        if len({row["pairs"] for row in found}) == 1:
            continue
        lines = panels.setdefault(f"{question}, {data}", {})
        for row in found:
            for name, kind in ((row["base"], "base_"), (row["setting"], "")):
                point = [float(row["pairs"])] + [
                    100 * float(row[kind + what] or 0) for what in ("accuracy", "sd")
                ]
                lines.setdefault(name, []).append(tuple(point))
    panels = {
        title: {name: sorted(set(points)) for name, points in lines.items() if len(set(points)) > 1}
        for title, lines in panels.items()
    }
    return [], curves("accuracy, percent", panels)


def probes() -> Block:
    lines = []
    for (model, _), found in grouped(rows("probes"), "model", "mechanism").items():
        idle = "; ".join(row["measure"] for row in found if row["verdict"] != "acts")
        shares = found[-1]["value"], found[0]["accuracy"], found[0]["accuracy_without"]
        lines.append([model, found[0]["layer"], idle, *(f"{100 * float(x):.1f}" for x in shares)])
    return table("model,layer,acts weakly or not,answers changed,accuracy,without", lines, 3), None


BLOCKS = (
    which_model, defaults, few_pairs, papers_models, public_codes, small_matchers, similarity,
    speed, gpu, robustness, calibration, mining, ranking, imperfect, damaged_files, serving,
    rereading, mechanisms, scaling, probes,
)  # fmt: skip


# === Figures of `keras-sentmatch models` ===


def model_figures() -> str:
    """Return accuracy on SICK's test pairs and pairs per second in training, as CSV.

    Accuracies are those with MiniLM as vectors or backbone if there are any; of several settings
    those with most seeds, of these the shortest. Models without a new speed keep theirs.
    """
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in rows("quality", data="sick", backend="tensorflow"):
        key = row["vectors"], row["settings"]
        values = found.setdefault(row["model"], {}).setdefault(key, [])
        values.append(json.loads(row["test"])["accuracy"])
    sick = {}
    for name, settings in found.items():
        key = max(settings, key=lambda k: ("minilm" in k[0], len(settings[k]), -len(k[1])))
        sick[name] = settings[key]
    plain = rows("first_hour", part="test", data="sick", size="all", model="(default)", settings="")
    sick["hybrid"], sick["bag_of_words"] = (numbers(plain, n) for n in ("value", "bag_of_words"))
    with open(FIGURES, encoding="utf-8", newline="") as file:
        rates = {row["model"]: row["pairs_per_second"] for row in csv.DictReader(file)}
    for row in rows("speed", label="after", backend="tensorflow", lengths="full"):
        rates[row["model"]] = f"{float(row['train_pairs_per_s']):.0f}"
    lines = ["model,sick,pairs_per_second"]
    for name in sorted(sick.keys() | rates.keys()):
        accuracy = f"{100 * statistics.mean(sick[name]):.1f}" if name in sick else ""
        lines.append(f"{name},{accuracy},{rates.get(name, '')}")
    return "\n".join(lines) + "\n"


def picture_of(block: Callable[[], Block]) -> Path:
    return DOCS / "images" / f"results-{block.__name__.replace('_', '-')}.png"


def filled(page: Path, text: str) -> str:
    """Return the text of a page with new blocks."""
    for block in BLOCKS:
        mark = f"<!-- {block.__name__} -->"
        if mark in text:
            lines, draw = block()
            picture = os.path.relpath(picture_of(block), page.parent)
            shown = [f"![{block.__name__.replace('_', ' ')}]({picture})", ""] if draw else []
            before, _, rest = text.partition(mark)
            after = rest.partition(END)[2]
            lines = [*lines, ""] if lines else []
            text = "\n".join([before + mark, "", *lines, *shown, END + after])
    return text


def check_places(texts: Iterable[str]) -> None:
    """Refuse pages on which a block is missing, or stands twice."""
    whole = "".join(texts)
    for block in BLOCKS:
        mark = f"<!-- {block.__name__} -->"
        if whole.count(mark) != 1:
            raise SystemExit(f"The pages have {whole.count(mark)} blocks {mark} … {END}.")


# === Tables and figures of the papers, as `keras-sentmatch reproduce` made them ===


def artefacts_of(paper: str) -> str:
    """Return a line for each artefact: what it shows, the data it needs, and what was made of it here."""
    with (MADE / "tried.csv").open(encoding="utf-8", newline="") as file:
        tried = {row["artefact"] for row in csv.DictReader(file)}
    lines = ["| artefact | shows | data | here |", "|---|---|---|---|"]
    for name in list_artefacts():
        if name.partition("/")[0] != paper:
            continue
        one = load_artefact(name)
        here = "tried" if name in tried else "not run"
        if (MADE / name / "table.md").is_file():
            here = f"[made](#{anchor_of(name)})"
        cells = [f"`{name}`", f"{one.place}: {one.title}", ", ".join(one.data_names), here]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def anchor_of(name: str) -> str:
    """Return the anchor of the heading "drcn, Table 6"."""
    heading = f"{name.partition('/')[0]}, {load_artefact(name).place}"
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def made_of(name: str) -> str:
    """Return the picture, if there is one, and the table with its caption."""
    found = []
    picture = f"papers-{name.replace('/', '-').replace('_', '-')}.png"
    if (DOCS / "images" / picture).is_file():
        found.append(f"![{load_artefact(name).title}](../images/{picture})")
    _, *text = (MADE / name / "table.md").read_text("utf-8").splitlines()
    if load_artefact(name).kind == "maps":  # the picture says it all
        text = [line for line in text if not line.startswith("|")]
    found.append("\n".join(text).strip())
    return "\n\n".join(found)


def filled_papers(text: str) -> str:
    """Return a page of docs/papers with new blocks: `<!-- PAPER -->` and `<!-- PAPER/ARTEFACT -->`."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        body = made_of(name) if "/" in name else artefacts_of(name)
        return f"<!-- {name} -->\n\n{body}\n\n<!-- end -->"

    return re.sub(r"<!-- (?!end )([\w/-]+) -->.*?<!-- end -->", block, text, flags=re.S)


def main() -> None:
    measuring.parser(__doc__).parse_args()
    check_places(page.read_text("utf-8") for page in PAGES)
    for page in PAGES:
        page.write_text(filled(page, page.read_text("utf-8")), "utf-8")
    FIGURES.write_text(model_figures(), "utf-8")
    for page in PAPERS.glob("*.md"):
        page.write_text(filled_papers(page.read_text("utf-8")), "utf-8")
    for block in BLOCKS:
        draw = block()[1]
        if draw:
            draw(picture_of(block))


if __name__ == "__main__":
    main()
