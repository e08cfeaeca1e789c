"""`models`: the models and data formats, how large the models are, and how fast."""

import csv
import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.applications import PairModel
    from keras_sentmatch.applications.backbone import BackboneModel

FIELDS = ("name", "description", "files", "labels", "metric")
BUILT_IN = (
    (
        "embedded",
        "Generated natural-logic pairs: no file, no network",
        "",
        ("entailment", "neutral", "contradiction"),
        "accuracy",
    ),
    ("tfds:NAME", "A data set of pairs of TensorFlow Datasets", "", (), ""),
)
FIGURES = Path(__file__).with_name("figures.csv")  # benchmarks/results_page.py writes it
GOOD_FOR = {
    "bag_of_words": "a baseline, trained in seconds",
    "bimpm": "accurate for its size",
    "cafe": "quick training",
    "cross_encoder": "needs a BERT; teaches others",
    "dabert": "needs a BERT; fine differences",
    "diin": "dense word-by-word maps; slow",
    "din": "research: words as matrices",
    "drcn": "ranking: 42-82 times as fast",
    "drr_net": "shows which words it re-reads",
    "esim": "the usual baseline",
    "hybrid": "the default, for most data",
    "hyper_lstm": "ranking: 43-132 times as fast",
    "ladra_net": "needs a BERT; shows re-reading",
    "re2": "accurate and quick",
    "rlstm": "research: word-by-word reading",
}
NOTES = (
    "parameters: at the paper's sizes, three classes, without word embeddings",
    "SICK: test accuracy in percent with MiniLM as vectors or encoder (diin: GloVe;",
    "hybrid and bag_of_words: as the plain command trains them)",
    "pairs/s: trained per second on two CPU cores with TensorFlow",
    "ranking: with the candidates' encodings kept. All figures: docs/results.md",
)


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Show the arguments of this model.")
    ] = None,
    datasets: Annotated[
        bool, typer.Option("--datasets", help="List the names and formats that --data accepts.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Count MODEL's parameters and time it on random words."),
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="With --profile: change the recipe. Repeatable."
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="With --profile: pairs per batch.")] = 64,
    length: Annotated[int, typer.Option(help="With --profile: tokens per sentence.")] = 24,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """List the models with size, accuracy and speed; show one; or list the data formats."""
    options.check_at_least(1, batch_size=batch_size, length=length)
    if profile and name is None:
        raise InputError("--profile needs the name of a model.")
    if datasets:
        _list_datasets(as_json)
        return
    chosen = use_backend(backend)
    if profile:
        sizes = {"batch_size": batch_size, "length": length, "words": 20_000, "classes": 3}
        _profile(str(name), chosen, setting or [], sizes, as_json)
        return
    from keras_sentmatch.applications import get_model_class, list_models

    rows = [describe(get_model_class(n), n) for n in ([name] if name else list_models())]
    if as_json:
        print_json(rows[0] if name else rows)
        return
    if name:
        _show_model(rows[0])
        next_step("train", name, "--data", "FILE", why="train it on your pairs")
        return
    columns = ["model", "parameters", "SICK", "pairs/s", "good for"]
    with FIGURES.open(encoding="utf-8", newline="") as file:
        figures = {name: found for name, *found in csv.reader(file)}
    print_table(columns, [_overview(row, figures) for row in rows])
    for line in NOTES:
        say(line)
    next_step("models", "hybrid", why="explain a model's arguments")
    next_step("train", "--data", "FILE", why="train the default on your pairs")


def _overview(row: dict[str, Any], figures: dict[str, list[str]]) -> tuple[Any, ...]:
    """Return the line of a model in the table of all models, at most 80 columns wide."""
    name = row["name"]
    good_for = GOOD_FOR.get(name) or textwrap.shorten(row["description"], 30, placeholder=" …")
    accuracy, speed = figures.get(name, ("", ""))
    return name, row["parameters"], accuracy, int(speed) if speed else None, good_for


def _show_model(row: dict[str, Any]) -> None:
    """Print one model with its arguments and presets."""
    facts = {key: row[key] for key in ("description", "paper", "parameters")}
    print_table([row["name"], ""], [*facts.items(), ("inputs", ", ".join(row["inputs"]))])
    print_table(
        ["argument", "default", "meaning"],
        [(n, json.dumps(s["default"]), s["meaning"]) for n, s in row["arguments"].items()],
    )
    if row["presets"]:
        presets = [
            (n, ", ".join(f"{k}={v!r}" for k, v in config.items()))
            for n, config in row["presets"].items()
        ]
        print_table(["preset", "what it sets"], presets)


def describe(cls: "type[PairModel]", name: str) -> dict[str, Any]:
    """Return the description of a model, its size, and its arguments without those of the data."""
    from keras_sentmatch.applications.backbone import BackboneModel
    from keras_sentmatch.applications.hyperparameters import DATA_ARGUMENTS

    arguments = cls.arguments()
    if issubclass(cls, BackboneModel):
        inputs, parameters = _with_bert(cls)
    else:
        extra: dict[str, Any] = {"char_vocabulary_size": 100, "pos_tags": 10, "antonym": True}
        widest = {n: v for n, v in extra.items() if n in arguments}
        chars = {n: v for n, v in widest.items() if n == "char_vocabulary_size"}
        parameters = cls(vocabulary_size=100, **chars).count_params_without_word_embeddings()
        names = cls(vocabulary_size=100, **widest).input_names
        inputs = [n.removesuffix("_1") for n in names if n.endswith("_1")]
    meanings = argument_docs(cls)
    return {
        "name": name,
        "paper": cls.paper,
        "parameters": parameters,
        "inputs": inputs,
        "description": cls.summary_line,
        "arguments": {
            n: {
                "default": None if p.default is p.empty else p.default,
                "meaning": meanings.get(n, ""),
            }
            for n, p in arguments.items()
            if n not in DATA_ARGUMENTS
        },
        "presets": cls.presets,
    }


def _with_bert(cls: "type[BackboneModel]") -> tuple[list[str], int | None]:
    """Return inputs and parameters with BERT-base. Parameters need KerasHub, else None."""
    try:
        import keras_hub
    except ImportError:
        return ["token_ids", "segment_ids", "padding_mask"], None
    import keras

    sizes = {"num_heads": 12, "hidden_dim": 768, "intermediate_dim": 3072}
    tiny = {"num_heads": 1, "hidden_dim": 1, "intermediate_dim": 1}
    base = keras_hub.models.BertBackbone(vocabulary_size=1, num_layers=1, **tiny)
    saved = keras.saving.serialize_keras_object(base)
    # Twelve layers take long to make, and each counts the same: calculated from one and two.
    configs = [{**saved, "config": {**saved["config"], **sizes, "num_layers": n}} for n in (1, 2)]
    make: Any = cls  # its other arguments have defaults
    models = [make(backbone=config) for config in configs]
    one, two = (model.count_params_without_word_embeddings() for model in models)
    return models[0].input_names, one + 11 * (two - one)


def argument_docs(cls: type) -> dict[str, str]:
    """Return the `Args:` of a class and its bases by name, without the sentence on the default."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in ("builtins", "keras", "torch"):
            continue
        docs = base.__doc__, vars(base).get("__init__", base).__doc__
        text = "\n\n".join(inspect.cleandoc(doc or "") for doc in docs)
        for block in re.findall(r"^Args:\n((?:    .*\n|\n)*)", text, re.M):
            for name, words in re.findall(r"^    (\w+): ((?:.*\n)(?:     +.*\n)*)", block, re.M):
                found[name] = re.sub(r" Defaults to .*?\.$", "", " ".join(words.split()))
    return found


def _list_datasets(as_json: bool) -> None:
    from keras_sentmatch.data.formats import list_formats

    rows = [dict(zip(FIELDS, row)) for row in (*BUILT_IN, *list_formats())]
    if as_json:
        print_json(rows)
        return
    shown = [row | {"labels": ", ".join(row["labels"])} for row in rows]
    print_table(FIELDS, [list(row.values()) for row in shown])
    next_step("train", "--data", "FILE", why="train a matcher on your pairs")


def _profile(
    model: str, backend: str, settings: list[str], sizes: dict[str, int], as_json: bool
) -> None:
    """Show a model's parameters, and time its forward pass and its training step."""
    from keras_sentmatch.training.profiling import profile_model

    found = profile_model(model, overrides=settings, **sizes)
    if as_json:
        print_json({"model": model, "backend": backend, **found})
        return
    rows = [row for row in found["layers"].items() if row[1]]
    rows.append(("all", found["parameters"]))
    rows.append(("all but word embeddings", found["parameters_without_word_embeddings"]))
    print_table(["layer", "parameters"], rows, f"{model}, {found['vocabulary_size']:,} words")
    print_table(
        ["", "first call, s", "ms per batch", "pairs per second"],
        [
            (what, *(found[f"{key}_{unit}"] for unit in ("first_s", "ms", "pairs_per_s")))
            for what, key in (("forward", "forward"), ("training step", "train"))
        ],
        f"{backend}, batches of {sizes['batch_size']} pairs, {sizes['length']} tokens per "
        f"{found['unit']}",
    )
    next_step("train", model, "--data", "FILE", why="train it on your pairs")
