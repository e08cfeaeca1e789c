"""`models`: the models and data formats, how large the models are, and how fast."""

import csv
import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.options import option, own_code
from keras_sentmatch.errors import InputError

FIELDS = ("name", "description", "files", "labels", "metric")
NLI = ("entailment", "neutral", "contradiction")
BUILT_IN = (
    ("embedded", "Generated natural-logic pairs: no file, no network", "", NLI, "accuracy"),
    ("tfds:NAME", "A data set of pairs of TensorFlow Datasets", "", (), ""),
)
FIGURES = Path(__file__).with_name("figures.csv")  # benchmarks/results_page.py writes it
# Parameters at the paper's sizes, with three classes and without word embeddings; a test counts them.
MODELS = {
    "bag_of_words": (1_499, "a baseline, in seconds"),
    "bimpm": (682_603, "accurate for its size"),
    "cafe": (2_496_973, "quick training"),
    "cross_encoder": (86_043_651, "BERT; teaches others"),
    "dabert": (91_163_653, "BERT; fine differences"),
    "decatt": (381_803, "reads no word order"),
    "diin": (3_668_204, "word-by-word maps; slow"),
    "din": (1_448_403, "research: matrix words"),
    "drcn": (6_668_828, "ranking: 42-82x as fast"),
    "drr_net": (6_687_733, "shows what it re-reads"),
    "esim": (4_326_303, "the usual baseline"),
    "hybrid": (1_147_379, "the default, for most data"),
    "hyper_lstm": (2_233_651, "ranking: 43-132x as fast"),
    "infersent": (46_876_675, "a baseline: BiLSTM and max"),
    "ladra_net": (95_584_055, "BERT; shows re-reading"),
    "re2": (2_774_559, "accurate and quick"),
    "rlstm": (2_526_003, "research: reads in turn"),
    "shortcut_stacked": (137_611_523, "a baseline: three BiLSTMs"),
}
NOTES = (
    "parameters: at the paper's sizes, three classes, without word embeddings",
    "SICK: test accuracy in percent with MiniLM as vectors or backbone (diin: GloVe;",
    "hybrid and bag_of_words: with the default settings)",
    "pairs/s: trained per second on two CPU cores with TensorFlow",
    "ranking: with the candidates' encodings kept. More results: docs/results.md",
)
SIZES = {"batch_size": 64, "length": 24, "words": 20_000, "classes": 3}  # of --profile


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Show the arguments of this model.")
    ] = None,
    datasets: Annotated[
        bool, option("List the names and formats that --data accepts.", "--datasets")
    ] = False,
    profile: Annotated[
        bool, option("Count MODEL's parameters and time it on random words.", "--profile")
    ] = False,
    setting: Annotated[
        list[str] | None,
        option("With --profile: change the recipe. Repeatable.", "--set", metavar="KEY=VALUE"),
    ] = None,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """List the models with size, accuracy and speed; show one; or list the data formats."""
    if (profile and name is None) or (setting and not profile) or (datasets and name):
        raise InputError(
            "Expected --datasets alone, or a MODEL, optionally with --profile, and --set only with "
            "--profile."
        )
    if datasets:
        _list_datasets(as_json)
    elif name is None:
        _list_models(as_json)
    elif profile:
        check_model(name)
        _profile(name, use_backend(backend), setting or [], as_json)
    else:
        check_model(name)
        use_backend(backend)
        _show_model(describe(name), as_json)


def check_model(name: str, recipe: object = None) -> None:
    """Refuse an unknown model before Keras is imported."""
    plain = re.sub("[-_ ]", "", name).lower()
    if recipe or own_code() or plain in [known.replace("_", "") for known in MODELS]:
        return
    raise InputError(
        f"There is no model {name!r}. Use one of {', '.join(MODELS)}, or one of your own with "
        "keras-sentmatch --code FILE."
    )


def _list_models(as_json: bool) -> None:
    """Print what is known about all models. Keras is not imported."""
    with FIGURES.open(encoding="utf-8", newline="") as file:
        figures = {name: found for name, *found in csv.reader(file)}
    rows = []
    for name, (parameters, good_for) in MODELS.items():
        accuracy, speed = (float(text) if text else None for text in figures.get(name, ("", "")))
        rows.append((name, parameters, accuracy, speed and int(speed), good_for))
    if as_json:
        keys = ("name", "parameters", "sick", "pairs_per_second", "good_for")
        print_json([dict(zip(keys, row)) for row in rows])
        return
    columns = ["model", "parameters", "SICK", "pairs/s", "good for"]
    print_table(columns, [(*row[:2], f"{row[2] or '':>5}", *row[3:]) for row in rows])
    for line in NOTES:
        say(line)
    next_step("models", "hybrid", why="explain a model's arguments")
    next_step("train", "--data", "FILE", why="train the default on your pairs")


def describe(name: str) -> dict[str, Any]:
    """Return the description, the arguments (without those that the data decides) and the presets."""
    from keras_sentmatch.applications import get_model_class
    from keras_sentmatch.applications.hyperparameters import DATA_ARGUMENTS

    cls = get_model_class(name)
    meanings = argument_docs(cls)
    arguments = {
        argument: {
            "default": None if found.default is found.empty else found.default,
            "meaning": meanings.get(argument, ""),
        }
        for argument, found in cls.arguments().items()
        if argument not in DATA_ARGUMENTS
    }
    facts = {"name": name, "description": cls.summary_line, "paper": cls.paper}
    return {**facts, "arguments": arguments, "presets": cls.presets}


def argument_docs(cls: type) -> dict[str, str]:
    """Return the `Args:` of a class and its bases by name, without the sentence on the default."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in ("builtins", "keras", "torch"):
            continue
        docs = base.__doc__, vars(base).get("__init__", base).__doc__
        text = "".join(inspect.cleandoc(doc or "") + "\n\n" for doc in docs)
        for block in re.findall(r"^Args:\n((?:    .*\n|\n)*)", text, re.M):
            for name, words in re.findall(r"^    (\w+): ((?:.*\n)(?:     +.*\n)*)", block, re.M):
                found[name] = re.sub(r" Defaults to .*?\.$", "", " ".join(words.split()))
    return found


def _show_model(model: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(model)
        return
    print_table([model["name"], ""], [(key, model[key]) for key in ("description", "paper")])
    print_table(
        ["argument", "default", "meaning"],
        [(n, json.dumps(s["default"]), s["meaning"]) for n, s in model["arguments"].items()],
    )
    if presets := model["presets"]:
        shown = [(n, ", ".join(f"{k}={v!r}" for k, v in p.items())) for n, p in presets.items()]
        print_table(["preset", "what it sets"], shown)
    next_step("train", model["name"], "--data", "FILE", why="train it on your pairs")


def _list_datasets(as_json: bool) -> None:
    from keras_sentmatch.data.formats import list_formats

    rows = [dict(zip(FIELDS, row)) for row in (*BUILT_IN, *list_formats())]
    if as_json:
        print_json(rows)
        return
    shown = [row | {"labels": ", ".join(row["labels"])} for row in rows]
    print_table(FIELDS, [list(row.values()) for row in shown])
    next_step("train", "--data", "FILE", why="train a matcher on your pairs")


def _profile(model: str, backend: str, settings: list[str], as_json: bool) -> None:
    """Show a model's parameters, and time its forward pass and its training step."""
    from keras_sentmatch.training.profiling import profile_model

    found = profile_model(model, overrides=settings, **SIZES)
    if as_json:
        print_json({"model": model, "backend": backend, **found})
        return
    rows = [row for row in found["layers"].items() if row[1]]
    rows.append(("all", found["parameters"]))
    rows.append(("all but word embeddings", found["parameters_without_word_embeddings"]))
    print_table(["layer", "parameters"], rows, f"{model}, {found['vocabulary_size']:,} words")
    times = [
        (what, found[f"{key}_first_s"], found[f"{key}_ms"], int(found[f"{key}_pairs_per_s"]))
        for what, key in (("forward", "forward"), ("training step", "train"))
    ]
    sizes = f"batches of {SIZES['batch_size']} pairs, {SIZES['length']} tokens per {found['unit']}"
    columns = ["", "first call, s", "ms per batch", "pairs per second"]
    print_table(columns, times, f"{backend}, {sizes}")
    next_step("train", model, "--data", "FILE", why="train it on your pairs")
