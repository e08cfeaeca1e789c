"""`evaluate`: the metrics of a run on labeled pairs."""

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_json, print_table, title
from keras_sentmatch.cli.runs import LabeledPairs, Run


def evaluate(
    run: options.Run,
    data: options.Data = None,
    split: options.Split = None,
    format: options.Format = None,
    columns: options.Columns = None,
    on_error: options.OnBadRow = options.OnError.RAISE,
    batch_size: options.BatchSize = 64,
    word_encoder: options.WordEncoder = None,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Measures a trained matcher on labeled pairs."""
    labeled = LabeledPairs(data, split, format, columns, on_error)
    name = use_backend(backend)
    loaded = Run.load(run, word_encoder)
    pairs, facts = labeled.read(loaded)
    figures = loaded.matcher.evaluate(pairs, batch_size=batch_size)
    loaded.log_encoding()
    if as_json:
        print_json({"backend": name, **facts, **figures})
    else:
        rows = [(key, value) for key, value in figures.items() if key != "primary"]
        print_table(["metric", "value"], rows, title(facts))
