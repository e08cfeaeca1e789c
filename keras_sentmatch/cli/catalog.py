"""`models` and `datasets`: what there is."""

import inspect
from typing import Annotated

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


def models(backend: BackendOption = None, as_json: JsonOption = False) -> None:
    """Lists the models, with their papers and their sizes (each is built once to count)."""
    use_backend(backend)
    from keras_sentmatch.applications import get_model_class, list_models

    rows = []
    for name in list_models():
        cls = get_model_class(name)
        sizes = {"vocabulary_size": 100}
        if "char_vocabulary_size" in inspect.signature(cls.__init__).parameters:
            sizes["char_vocabulary_size"] = 100
        rows.append(
            {
                "name": name,
                "paper": cls.paper,
                "parameters": cls(**sizes).count_params_without_word_embeddings(),
                "description": cls.summary_line,
            }
        )
    if as_json:
        print_json(rows)
    else:
        columns = ["name", "paper", "parameters*", "description"]
        print_table(columns, [list(row.values()) for row in rows])
        print("* at the paper's sizes, for three classes and without word embeddings")


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
