"""Arguments and options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OnError(StrEnum):
    """What to do with a bad row."""

    RAISE = "raise"
    SKIP = "skip"


# --- every command ---

Backend = Annotated[
    str | None,
    typer.Option(
        help="tensorflow, jax or torch. Default: $KERAS_BACKEND, Keras's own settings file, or the "
        "first one installed.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Model = Annotated[str, typer.Argument(help="A name from `keras-sentmatch models`.")]

# --- runs ---

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
BatchSize = Annotated[int, typer.Option(help="The largest number of pairs scored at once.")]
WordEncoder = Annotated[
    str | None,
    typer.Option(
        help="The encoder that the word vectors were extracted from (a folder or a KerasHub "
        "preset): words never seen in training get their vectors."
    ),
]

# --- pairs ---

File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Pairs as TSV, CSV or JSONL.")]
Sentence1 = Annotated[str | None, typer.Option(help="The first sentence of a single pair.")]
Sentence2 = Annotated[str | None, typer.Option(help="The second sentence of it.")]
Data = Annotated[
    str | None,
    typer.Option(help="Name or path of labeled pairs. Default: what the run was trained on."),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="train, validation or test. Default: test; all rows of a single file of --data."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Layout of the data: a name from `keras-sentmatch datasets`. Default: recognized."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B[,LABEL[,GROUP]]",
        help="Columns of the two sentences, the label and the question's id, if they have unusual "
        "names; in a file without a header their numbers, from 0.",
    ),
]
OnBadRow = Annotated[
    OnError, typer.Option("--on-error", help="Stop at a bad row, or skip and count it.")
]
ClassLimit = Annotated[
    int | None, typer.Option(help="Use only this many pairs, with the same shares of the classes.")
]

# --- training and tuning ---

TrainingData = Annotated[
    str, typer.Option(help="A name from `keras-sentmatch datasets`, a folder, or a file of pairs.")
]
Limit = Annotated[int | None, typer.Option(help="Use only this many training pairs.")]
Recipe = Annotated[
    Path | None, typer.Option(help="A TOML file whose values replace those of the model's recipe.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change the recipe: training.learning_rate=1e-4, …"
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(help="Word vectors: a file, encoder:NAME, or none. Default: the recipe's."),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="The pretrained encoder of a model that has one: a KerasHub preset, or a folder with "
        "a KerasHub or Hugging Face BERT or RoBERTa. Default: the recipe's."
    ),
]
