"""Trains models on real data over variants, word vectors, backends and seeds; one row for each run.

    python benchmarks/quality.py --data path/to/sick --vectors path/to/glove.txt.gz \
        --models drcn --backends tensorflow --seeds 0,1,2
    python benchmarks/quality.py --data path/to/sick --vectors backbone:path/to/minilm --models cross_encoder,dabert

A model on a pretrained encoder takes the encoder instead of word vectors. With `--better` only the
first seed uses all `--vectors`, the others only the best on the validation part. Each run is a
separate process, started with the command that the row records; its run folder stays in `--runs`.
Without `--data` it only prints the table: mean and standard deviation over seeds.
"""

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
from functools import partial
from pathlib import Path

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


def run(
    args: argparse.Namespace, model: str, settings: list[str], backend: str, vectors: str, seed: int
) -> float:
    """Trains once, unless there is a row; returns the primary metric on the validation part."""
    shown = [public_setting(setting) for setting in settings]
    named = [*shown, *([f"teacher={Path(args.teacher).name}"] if args.teacher else [])]
    values = (model, args.name, vectors_name(vectors), backend, str(seed), " ".join(named))
    key = dict(zip(KEY, values))
    if args.trained_on:
        key["settings"] += f" (the run on {args.trained_on})"
    for row in RESULTS.rows():
        if all(row[k] == v for k, v in key.items()):
            print("already done:", *key.values(), flush=True)
            return primary(row)
    of = (model, args.trained_on or args.name, *values[2:])
    folder = Path(args.runs) / "-".join(value.replace(":", "-") for value in of if value)
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
        public = command_of(args.name, key["vectors"], shown, [], Path(args.teacher).name)
        found = {}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8")) | found
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


def primary(row: dict[str, str]) -> float:
    validation = json.loads(row["validation"])
    return validation[validation["primary"]]


def run_all(args: argparse.Namespace) -> None:
    first, *others = map(int, args.seeds.split(","))
    choices = args.models.split(","), args.variant or [""], args.backends.split(",")
    for model, variant, backend in itertools.product(*choices):
        once = partial(run, args, model, [*args.set, *variant.split()], backend)
        found = {vectors: once(vectors, first) for vectors in args.vectors or ["none"]}
        kept = [max(found, key=lambda vectors: found[vectors])] if args.better else found
        for vectors, seed in itertools.product(kept, others):
            once(vectors, seed)


def summary() -> tuple[list[str], list[list[str]]]:
    """Column names and rows: mean and standard deviation over the seeds."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        groups.setdefault(tuple(row[k] for k in KEY if k != "seed"), []).append(row)
    lines = []
    for key, members in sorted(groups.items()):
        figures = []
        for part in ("validation", "test"):
            values = [json.loads(member[part]) for member in members]
            cells = []
            for name in [n for n in SHOWN if n in values[0]][:2]:
                found = [value[name] for value in values]
                spread = f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else ""
                cells.append(f"{name} {statistics.mean(found):.3f}{spread}")
            figures.append(", ".join(cells))
        model, data, vectors, backend, settings = key
        seeds = ", ".join(member["seed"] for member in members)
        epochs = ", ".join(f"{member['best_epoch']}/{member['epochs']}" for member in members)
        size = f"{int(members[0]['parameters_without_word_embeddings']):,}"
        lines.append([model, data, vectors, backend, settings, size, seeds, epochs, *figures])
    head = "model,data,vectors,backend,settings,parameters without words,seeds,best epoch/epochs"
    return [*head.split(","), "validation", "test"], lines


def write_page(page: Path) -> None:
    """Puts the table and the commands of the rows into a Markdown page."""
    text = measuring.markdown(*summary())
    text += ["", "Commands, one per row of `benchmarks/results/quality.csv`:", "", "```bash"]
    RESULTS.write(page, [*text, *dict.fromkeys(row["command"] for row in RESULTS.rows()), "```"])


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
        "--set", action="append", default=[], help="TABLE.KEY=VALUE of every run; may be repeated"
    )
    parser.add_argument("--runs", default="runs/quality")
    args = parser.parse_args()
    if args.data and not args.show:
        args.name = args.name or Path(args.data.split(":")[-1]).name
        run_all(args)
    RESULTS.show(*summary())
    if args.write:
        write_page(args.write)


if __name__ == "__main__":
    main()
