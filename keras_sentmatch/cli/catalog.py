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
    from keras_sentmatch.applications.base import DATA_ARGUMENTS

    arguments = {
        n: p
        for n, p in inspect.signature(cls.__init__).parameters.items()
        if n not in ("self", "kwargs")
    }
    if has_backbone(cls):
        inputs, parameters = _with_a_backbone(cls)
    else:
        extra = {"char_vocabulary_size": 100, "pos_tags": 10, "antonym": True}
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
        "switches": {
            n: {
                "default": None if p.default is p.empty else p.default,
                "meaning": meanings.get(n, ""),
            }
            for n, p in arguments.items()
            if n not in DATA_ARGUMENTS
        },
        "presets": cls.presets,
    }


def has_backbone(cls: Any) -> bool:
    """Whether the model reads with a pretrained encoder."""
    return "backbone" in inspect.signature(cls.__init__).parameters


def _with_a_backbone(cls: Any) -> tuple[list[str], int | None]:
    """Inputs, and parameters on a BERT-base without word pieces; None where KerasHub is not installed."""
    try:
        import keras_hub
    except ImportError:
        return ["token_ids", "segment_ids", "padding_mask"], None
    import keras

    sizes = {"num_heads": 12, "hidden_dim": 768, "intermediate_dim": 3072}
    tiny = {"num_heads": 1, "hidden_dim": 1, "intermediate_dim": 1}
    base = keras_hub.models.BertBackbone(vocabulary_size=1, num_layers=1, **tiny)
    saved = keras.saving.serialize_keras_object(base)
    # Its twelve layers take long to make, and each counts the same.
    layers = [{**saved, "config": {**saved["config"], **sizes, "num_layers": n}} for n in (1, 2)]
    models = [cls(config) for config in layers]
    one, two = (model.count_params_without_word_embeddings() for model in models)
    return models[0].input_names, one + 11 * (two - one)


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
