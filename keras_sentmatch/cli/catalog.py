"""`models` and `datasets`: what there is."""

import inspect
import json
import re
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.console import print_json, print_table

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]


# What follows from the data and the vectors, and so is no choice.
FROM_DATA = {"vocabulary_size", "num_classes", "embedding_dim"}


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Show the switches of this one.")
    ] = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lists the models: papers, sizes (each is built once to count), inputs and switches."""
    use_backend(backend)
    from keras_sentmatch.applications import get_model_class, list_models

    rows = [describe(get_model_class(n), n) for n in ([name] if name else list_models())]
    if as_json:
        print_json(rows[0] if name else rows)
        return
    print_table(
        ["name", "paper", "parameters*", "inputs of a sentence", "what it is"],
        [
            (r["name"], r["paper"], r["parameters"], ", ".join(r["inputs"]), r["description"])
            for r in rows
        ],
    )
    print("* at the paper's sizes, for three classes and without word embeddings")
    if not name:
        print_table(
            ["name", "switches", "presets"],
            [(r["name"], ", ".join(r["switches"]), ", ".join(r["presets"])) for r in rows],
        )
        print("`keras-sentmatch models MODEL` says what the switches of a model do.")
        return
    (row,) = rows
    print_table(
        ["switch", "default", "meaning"],
        [(n, json.dumps(s["default"]), s["meaning"]) for n, s in row["switches"].items()],
    )
    if row["presets"]:
        presets = [
            (n, ", ".join(f"{k}={v!r}" for k, v in config.items()))
            for n, config in row["presets"].items()
        ]
        print_table(["preset", "what it sets"], presets)


def describe(cls: Any, name: str) -> dict[str, Any]:
    """What the list says of a model; its switches are the arguments that are left to choose."""
    arguments = {
        n: p
        for n, p in inspect.signature(cls.__init__).parameters.items()
        if n not in ("self", "kwargs")
    }
    extra = {"char_vocabulary_size": 100, "pos_tags": 10, "antonym": True}
    widest = {n: v for n, v in extra.items() if n in arguments}
    chars = {n: v for n, v in widest.items() if n == "char_vocabulary_size"}
    model = cls(vocabulary_size=100, **chars)
    inputs = cls(vocabulary_size=100, **widest).input_names
    meanings = argument_docs(cls)
    return {
        "name": name,
        "paper": cls.paper,
        "parameters": model.count_params_without_word_embeddings(),
        "inputs": [n.removesuffix("_1") for n in inputs if n.endswith("_1")],
        "description": cls.summary_line,
        "switches": {
            n: {"default": p.default, "meaning": meanings.get(n, "")}
            for n, p in arguments.items()
            if n not in FROM_DATA
        },
        "presets": cls.presets,
    }


def argument_docs(cls: Any) -> dict[str, str]:
    """The `Args:` of a class docstring by name, without the sentence on the default."""
    text = inspect.cleandoc(cls.__doc__ or "")
    block = re.search(r"^Args:\n((?:    .*\n|\n)*)", text, re.M)
    entries = re.findall(r"^    (\w+): ((?:.*\n)(?:     +.*\n)*)", block[1] if block else "", re.M)
    joined = {name: " ".join(words.split()) for name, words in entries}
    return {name: re.sub(r" Defaults to .*?\.$", "", words) for name, words in joined.items()}


def datasets(as_json: JsonOption = False) -> None:
    """Lists the data that --data understands."""
    from keras_sentmatch.data import list_formats

    fields = ("name", "description", "files", "labels", "metric")
    rows = [dict(zip(fields, row)) for row in (*BUILT_IN, *list_formats())]
    if as_json:
        print_json(rows)
    else:
        shown = [row | {"labels": ", ".join(row["labels"])} for row in rows]
        print_table(fields, [list(row.values()) for row in shown])
