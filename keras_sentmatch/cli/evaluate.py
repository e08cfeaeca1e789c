"""`evaluate`: the figures of a run on labelled pairs."""

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table, say
from keras_sentmatch.cli.runs import (
    BatchSizeOption,
    DataOption,
    RunArgument,
    SplitOption,
    WordEncoderOption,
    check_reading,
    labelled_pairs,
    load_run,
)
from keras_sentmatch.cli.sources import ColumnsOption, FormatOption, OnError, OnErrorOption


def evaluate(
    run: RunArgument,
    data: DataOption = None,
    split: SplitOption = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measures a trained matcher on labelled pairs."""
    reading = format, columns, on_error
    check_reading(data, *reading)
    name = use_backend(backend)
    loaded = load_run(run, word_encoder)
    pairs, source = labelled_pairs(loaded, run, data, split, "test", *reading)
    figures = loaded.matcher.evaluate(pairs, batch_size=batch_size)
    say(loaded.first.encoder.report)
    result = {
        "run": str(run),
        "backend": name,
        "data": pairs.name or source,
        "split": pairs.split,
        **figures,
    }
    if as_json:
        print_json(result)
    else:
        rows = [(key, value) for key, value in figures.items() if key != "primary"]
        title = " ".join(str(part) for part in (run, "on", result["data"], pairs.split) if part)
        print_table(["figure", "value"], rows, title)
