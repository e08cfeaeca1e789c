"""Train models on real data over variants, word vectors, backends and seeds.

    python benchmarks/quality.py --data path/to/sick --vectors path/to/glove.txt.gz \
        --models drcn --backends tensorflow --seeds 0,1,2
    python benchmarks/quality.py --data path/to/sick --vectors backbone:path/to/minilm \
        --models cross_encoder,dabert

`--variant "model.units=50 training.epochs=5"` may be repeated; each is one variant of every model,
and `--set` applies to all runs. Each run is a separate process, started with the command that its
row records; run folders stay in `--runs`. With `--ensemble` the mean prediction of the runs of all
seeds is measured too, in a row of its own.
"""

import argparse
import itertools
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import measuring

RESULTS = measuring.Results("quality")
KEY = ("model", "data", "vectors", "backend", "seed", "settings")


def vectors_name(spec: str) -> str:
    """Return a short name without folders."""
    kind, _, rest = spec.partition(":")
    if kind not in ("encoder", "backbone"):
        return Path(spec).name
    path = Path(rest)
    return f"{kind}:{path.parent.name if path.name == 'model' else path.name}"


def public_setting(setting: str) -> str:
    """Return the setting, with a file by its last name."""
    name, _, value = setting.partition("=")
    return f"{name}={Path(value).name}" if Path(value).is_file() else setting


def vectors_option(spec: str) -> list[str]:
    """Return the option of `keras-sentmatch train` for vectors or a backbone."""
    kind, _, rest = spec.partition(":")
    return ["--backbone", rest] if kind == "backbone" else ["--vectors", spec]


def key_of(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str, seed: int
) -> dict[str, str]:
    """Return the values that identify the row of a run."""
    named = [public_setting(setting) for setting in settings]
    named += [f"teacher={Path(args.teacher).name}"] if args.teacher else []
    values = (model, args.name, vectors_name(vectors), backend, str(seed), " ".join(named))
    return dict(zip(KEY, values))


def folder_of(args: argparse.Namespace, key: dict[str, str]) -> Path:
    """Return the folder of the run."""
    return Path(args.runs) / "-".join(value.replace(":", "-") for value in key.values() if value)


def run(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str, seed: int
) -> None:
    """Train once, unless there is a row."""
    key = key_of(args, model, settings, backend, vectors, seed)
    folder = folder_of(args, key)
    if RESULTS.has(key):
        return

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
    metrics = metrics_of(folder)
    names = ("parameters_without_word_embeddings", "best_epoch", "epochs", "fit_seconds")
    row = key | {name: metrics[name] for name in names}
    row |= {part: json.dumps(metrics.get(part, {})) for part in ("validation", "test")}
    row |= {"cores": measuring.cpus(), "command": shlex.join(public)}
    RESULTS.add(row | {"versions": json.dumps(metrics["versions"])})


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def measure_ensemble(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str
) -> None:
    """Measure the mean prediction of the runs of all seeds, unless there is a row."""
    keys = [key_of(args, model, settings, backend, vectors, seed) for seed in seeds_of(args)]
    note = f"(mean answer of {len(keys)} seeds)"
    ensemble = keys[0] | {
        "seed": ", ".join(key["seed"] for key in keys),
        "settings": f"{keys[0]['settings']} {note}".strip(),
    }
    if RESULTS.has(ensemble):
        return
    os.environ["KERAS_BACKEND"] = backend
    from keras_sentmatch import load
    from keras_sentmatch.data import load_pairs

    folders = [folder_of(args, key) for key in keys]
    matcher, pairs = load(folders), load_pairs(args.data)
    found = {
        part: matcher.evaluate(pairs[part]) for part in ("validation", "test") if part in pairs
    }
    runs, size = [metrics_of(folder) for folder in folders], "parameters_without_word_embeddings"
    row = ensemble | {size: sum(run[size] for run in runs), "cores": measuring.cpus()}
    row |= {part: json.dumps(found.get(part, {})) for part in ("validation", "test")}
    RESULTS.add(row | {"versions": json.dumps(runs[0]["versions"])})


def seeds_of(args: argparse.Namespace) -> list[int]:
    return [int(seed) for seed in args.seeds.split(",")]


def run_all(args: argparse.Namespace) -> None:
    choices = args.models.split(","), args.variant or [""], args.backends.split(",")
    for model, variant, backend in itertools.product(*choices):
        settings = [*args.set, *variant.split()]
        for vectors in args.vectors or ["none"]:
            for seed in seeds_of(args):
                run(args, model, settings, backend, vectors, seed)
            if args.ensemble:
                measure_ensemble(args, model, settings, backend, vectors)


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default="drcn", help="names, with commas between")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        help='settings of one variant, with spaces between ("": none); may be repeated',
    )
    parser.add_argument("--data", required=True, help="folder of the data set, or FORMAT:folder")
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
    args.name = args.name or Path(args.data.split(":")[-1]).name
    run_all(args)


if __name__ == "__main__":
    main()
