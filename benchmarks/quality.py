"""Trains models on real data over variants, word vectors, backends and seeds; one row for each run.

    python benchmarks/quality.py --data path/to/sick --vectors path/to/glove.txt.gz \
        --models drcn --backends tensorflow --seeds 0,1,2
    python benchmarks/quality.py --data path/to/sick --vectors backbone:path/to/minilm --models cross_encoder,dabert

A model on a pretrained encoder takes the encoder instead of word vectors. With `--better` only the
first seed uses all `--vectors`, the others only the best on the validation part. Each run is a
separate process, started with the command that the row records; its run folder stays in `--runs`.
With `--ensemble` the mean answer of the runs of all `--seeds` is measured too, as a row of its own.
Without `--data` it only prints the table: mean and standard deviation over seeds, and the standard
error of the primary figure of the test part (validation where there is none) from pairs and seeds.
A figure is bold where it leads its data set by more than the standard error of the difference.
"""

import argparse
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import measuring

RESULTS = measuring.Results("quality", "quality.py")
SHOWN = ("map", "mrr", "pearson", "spearman", "accuracy", "f1", "macro_f1")  # two of each row
KEY = ("model", "data", "vectors", "backend", "seed", "settings")


def vectors_name(spec: str) -> str:
    """A short name without the machine's folders."""
    kind, _, rest = spec.partition(":")
    if kind not in ("encoder", "backbone"):
        return Path(spec).name
    path = Path(rest)
    return f"{kind}:{path.parent.name if path.name == 'model' else path.name}"


def public_setting(setting: str) -> str:
    """The setting, with a file by its last name."""
    name, _, value = setting.partition("=")
    return f"{name}={Path(value).name}" if Path(value).is_file() else setting


def vectors_option(spec: str) -> list[str]:
    """The option of `keras-sentmatch train` for vectors or a pretrained encoder."""
    kind, _, rest = spec.partition(":")
    return ["--backbone", rest] if kind == "backbone" else ["--vectors", spec]


def key_of(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str, seed: int
) -> dict[str, str]:
    """What tells the row of a run from others."""
    named = [public_setting(setting) for setting in settings]
    named += [f"teacher={Path(args.teacher).name}"] if args.teacher else []
    values = (model, args.name, vectors_name(vectors), backend, str(seed), " ".join(named))
    return dict(zip(KEY, values))


def folder_of(args: argparse.Namespace, key: dict[str, str]) -> Path:
    """The folder of the run."""
    values = (key | {"data": args.trained_on or args.name}).values()
    return Path(args.runs) / "-".join(value.replace(":", "-") for value in values if value)


def row_of(key: dict[str, str]) -> dict[str, str] | None:
    """The row that is there already."""
    for row in RESULTS.rows():
        if all(row[k] == v for k, v in key.items()):
            print("already done:", *key.values(), flush=True)
            return row
    return None


def run(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str, seed: int
) -> float:
    """Trains once, unless there is a row; returns the primary metric on the validation part."""
    key = key_of(args, model, settings, backend, vectors, seed)
    folder = folder_of(args, key)
    if args.trained_on:
        key["settings"] += f" (the run on {args.trained_on})"
    if existing := row_of(key):
        return primary(existing)
    if args.trained_on:
        command = ["keras-sentmatch", "evaluate", str(folder), "--data", args.data]
        command += ["--backend", backend, "--split"]
        found = {}
        for part in ("validation", "test"):
            done = subprocess.run([*command, part, "--json"], check=True, capture_output=True)
            figures = json.loads(done.stdout)
            about = ("run", "backend", "data", "split")
            found[part] = {k: v for k, v in figures.items() if k not in about}
        public = [*command[:2], f"RUN-ON-{args.trained_on}", "--data", args.name, *command[5:]]
        public.append("test")
    else:

        def command_of(
            data: str, vectors: str, settings: list[str], out: list[str], teacher: str
        ) -> list[str]:
            command = ["keras-sentmatch", "train", model, "--data", data, *vectors_option(vectors)]
            command += ["--backend", backend, "--seed", str(seed), *out]
            command += ["--teacher", teacher] if teacher else []
            return command + [part for setting in settings for part in ("--set", setting)]

        command = command_of(args.data, vectors, settings, ["--out", str(folder)], args.teacher)
        if not (folder / "metrics.json").exists():  # else it ended without its row
            command += ["--resume"] if folder.exists() else []
            print("$", shlex.join(command), flush=True)
            subprocess.run(command, check=True)
        shown = [public_setting(setting) for setting in settings]
        public = command_of(args.name, key["vectors"], shown, [], Path(args.teacher).name)
        found = {}
    metrics = metrics_of(folder) | found
    names = ("parameters_without_word_embeddings", "best_epoch", "epochs", "fit_seconds")
    row = {
        **key,
        **{name: metrics[name] for name in names},
        "validation": json.dumps(metrics["validation"]),
        "test": json.dumps(metrics.get("test", {})),
        "cores": measuring.cpus(),
        "command": shlex.join(public),
    }
    RESULTS.add(row | {"versions": json.dumps(metrics["versions"])})
    return primary(row)


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def measure_ensemble(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str
) -> None:
    """Measures the mean answer of the runs of all seeds, unless there is a row."""
    keys = [key_of(args, model, settings, backend, vectors, seed) for seed in seeds_of(args)]
    note = f"(mean answer of {len(keys)} seeds)"
    ensemble = keys[0] | {
        "seed": ", ".join(key["seed"] for key in keys),
        "settings": f"{keys[0]['settings']} {note}".strip(),
    }
    if row_of(ensemble):
        return
    os.environ["KERAS_BACKEND"] = backend
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.inference import EnsembleMatcher

    folders = [folder_of(args, key) for key in keys]
    matcher, pairs = EnsembleMatcher.load(folders), load_pairs(args.data)
    found = {
        part: matcher.evaluate(pairs[part]) for part in ("validation", "test") if part in pairs
    }
    runs, size = [metrics_of(folder) for folder in folders], "parameters_without_word_embeddings"
    row = {
        **ensemble,
        size: sum(run[size] for run in runs),
        "validation": json.dumps(found["validation"]),
        "test": json.dumps(found.get("test", {})),
        "cores": measuring.cpus(),
    }
    RESULTS.add(row | {"versions": json.dumps(runs[0]["versions"])})


def seeds_of(args: argparse.Namespace) -> list[int]:
    return [int(seed) for seed in args.seeds.split(",")]


def primary(row: dict[str, str]) -> float:
    validation = json.loads(row["validation"])
    return validation[validation["primary"]]


def run_all(args: argparse.Namespace) -> None:
    first, *others = seeds_of(args)
    choices = args.models.split(","), args.variant or [""], args.backends.split(",")
    for model, variant, backend in itertools.product(*choices):
        once = partial(run, args, model, [*args.set, *variant.split()], backend)
        found = {vectors: once(vectors, first) for vectors in args.vectors or ["none"]}
        kept = [max(found, key=lambda vectors: found[vectors])] if args.better else found
        for vectors, seed in itertools.product(kept, others):
            once(vectors, seed)
        for vectors in kept if args.ensemble else ():
            measure_ensemble(args, model, [*args.set, *variant.split()], backend, vectors)


class Line(NamedTuple):
    """One line of the table: the runs of one key, over the seeds."""

    key: tuple[str, ...]
    runs: list[dict[str, str]]

    def figures(self, part: str, name: str) -> list[float]:
        """A figure of each seed."""
        return [json.loads(run[part])[name] for run in self.runs]

    def names(self, part: str) -> list[str]:
        """The two figures that are shown of a part; none where it was not measured."""
        found = json.loads(self.runs[0][part])
        return [name for name in SHOWN if name in found][:2]

    @property
    def judged(self) -> tuple[str, str]:
        """The part and the figure that lines are compared by: of the test pairs where there are any."""
        part = "test" if self.names("test") else "validation"
        return part, json.loads(self.runs[0][part])["primary"]

    @property
    def mean(self) -> float:
        return statistics.mean(self.figures(*self.judged))

    @property
    def standard_error(self) -> float | None:
        part, name = self.judged
        rows = json.loads(self.runs[0][part])["rows"]
        return measuring.standard_error(name, self.figures(part, name), rows)


def leaders(lines: list[Line]) -> set[tuple[str, ...]]:
    """The best of each data set, where it leads the next by more than the error of the difference."""
    found = set()
    for _, some in itertools.groupby(sorted(lines, key=lambda x: x.key[1]), lambda x: x.key[1]):
        first, *others = sorted(some, key=lambda x: x.mean, reverse=True)
        if others and first.standard_error is not None and others[0].standard_error is not None:
            error = math.hypot(first.standard_error, others[0].standard_error)
            if first.mean - others[0].mean > error:
                found.add(first.key)
    return found


def summary() -> tuple[list[str], list[list[str]]]:
    """Column names and rows: mean, standard deviation over the seeds, and standard error."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        groups.setdefault(tuple(row[k] for k in KEY if k != "seed"), []).append(row)
    found = [Line(key, members) for key, members in sorted(groups.items())]
    bold, lines = leaders(found), []
    for line in found:
        cells = []
        for part in ("validation", "test"):
            shown = []
            for name in line.names(part):
                mark = "**" if line.key in bold and (part, name) == line.judged else ""
                figure = measuring.mean_and_deviation(line.figures(part, name), 3)
                shown.append(f"{name} {mark}{figure}{mark}")
            cells.append(", ".join(shown))
        error = line.standard_error
        cells.append("" if error is None else f"{error:.3f}")
        seeds = ", ".join(run["seed"] for run in line.runs)
        of = [run for run in line.runs if run["epochs"]]
        epochs = ", ".join(f"{run['best_epoch']}/{run['epochs']}" for run in of) or "–"
        size = f"{int(line.runs[0]['parameters_without_word_embeddings']):,}"
        lines.append([*line.key, size, seeds, epochs, *cells])
    head = "model,data,vectors,backend,settings,parameters without words,seeds,best epoch/epochs"
    return [*head.split(","), "validation", "test", "standard error"], lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default="drcn", help="names, with commas between")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        help='settings of one variant, with spaces between ("": none); may be repeated',
    )
    parser.add_argument(
        "--better", action="store_true", help="further seeds on the best vectors only"
    )
    parser.add_argument(
        "--data",
        help="folder of the data set, or FORMAT:folder; without it, only show the table",
    )
    parser.add_argument(
        "--trained-on",
        help="train nothing: measure the finished runs on the data of this name on --data",
    )
    parser.add_argument("--name", help="the data set's name in the table (default: the folder's)")
    parser.add_argument(
        "--vectors",
        action="append",
        default=[],
        help="a file, encoder:FOLDER, none, or backbone:FOLDER; may be repeated",
    )
    parser.add_argument("--teacher", default="", help="run folder of a teacher")
    parser.add_argument("--backends", default="tensorflow")
    parser.add_argument("--seeds", default="0")
    parser.add_argument(
        "--ensemble", action="store_true", help="measure the mean answer of the seeds too"
    )
    parser.add_argument(
        "--set", action="append", default=[], help="TABLE.KEY=VALUE of every run; may be repeated"
    )
    parser.add_argument("--runs", default="runs/quality")
    args = parser.parse_args()
    if args.ensemble and args.trained_on:
        parser.error("--ensemble is for runs on their own data, without --trained-on")
    if args.data and not args.show:
        args.name = args.name or Path(args.data.split(":")[-1]).name
        run_all(args)
    RESULTS.show(*summary(), args.write)


if __name__ == "__main__":
    main()
