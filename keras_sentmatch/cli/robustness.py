"""`robustness`: the figures of a run before and after its pairs are transformed, and on test suites."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import give_report, print_table, say
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
from keras_sentmatch.errors import InputError


def robustness(
    run: RunArgument,
    data: DataOption = None,
    split: SplitOption = None,
    transform: Annotated[
        list[str] | None,
        typer.Option(help="A transformation, any number of times. Default: all that can be used."),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="A test suite (PAWS, AdvGLUE, …), any number of times; alone without "
            "--data or --transform, nothing is transformed."
        ),
    ] = None,
    lexicon: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="antonyms=FILE, synonyms=FILE (two words a line), a folder with such "
            "files, or wordnet. Default: WordNet, if it is installed."
        ),
    ] = None,
    translate: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="For BackTrans: your function from a list of sentences to "
            "their translations there and back."
        ),
    ] = None,
    opposite: Annotated[
        str | None,
        typer.Option(
            metavar="YES,NO", help="The positive and the negative label, where they are unusual."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what the transformations draw.")] = 0,
    limit: Annotated[
        int | None, typer.Option(help="Take so many pairs, of each class its share.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for robustness.md, .csv, .json and .png.")
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Measures a run on transformed pairs and on test suites."""
    reading = format, columns, on_error
    check_reading(data, *reading)
    from keras_sentmatch.robustness import (
        get_transformation,
        read_suite,
        robustness_report,
        save_report,
    )

    names = [get_transformation(name).name for name in transform or ()] or None
    pair = tuple(name.strip() for name in opposite.split(",")) if opposite else None
    if pair is not None and len(pair) != 2:
        raise InputError(f"--opposite {opposite!r}: expected two label names, such as yes,no.")
    words = lexicon_or_none(lexicon)
    function = _function(translate) if translate else None
    suites = [found for path in suite or () for found in read_suite(path)]
    use_backend(backend)
    loaded = load_run(run, word_encoder)
    label_names = loaded.first.label_names
    if label_names is None:
        raise InputError(f"{run} gives scores; robustness is measured on answers of classes.")
    facts: dict[str, Any] = {"run": str(run)}
    pairs = None
    if data is not None or names or not suites:
        pairs, source = labelled_pairs(loaded, run, data, split, "test", *reading)
        facts |= {"data": pairs.name or source, "split": pairs.split}
        pairs = loaded.first.relabel(pairs if limit is None else pairs.limit(limit, seed))

    def answers(asked: Any) -> list[str]:
        return [answer["label"] for answer in loaded.answers(asked, batch_size)]

    report = robustness_report(
        answers,
        pairs,
        names=names,
        suites=_that_fit(suites, label_names),
        label_names=label_names,
        seed=seed,
        lexicon=words,
        translate=function,
        opposite=pair,  # type: ignore[arg-type]
    )
    report = {**facts, **report}
    say(loaded.first.encoder.report)
    give_report(report, out, save_report, as_json, _print)


def lexicon_or_none(sources: Sequence[str] | None) -> Any:
    """The lexicon that `--lexicon` names; without it WordNet, or none where it is not installed."""
    from keras_sentmatch.robustness import Lexicon

    if sources:
        return Lexicon.read(*sources)
    try:
        return Lexicon.wordnet()
    except InputError:
        return None  # what needs a lexicon is left out, or says so


def _function(name: str) -> Callable[[list[str]], Sequence[str]]:
    """A function by its module and name."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--translate {name!r}: {error}; expected MODULE:FUNCTION of a module that Python finds "
            "(see PYTHONPATH)."
        ) from error
    return found


def _that_fit(suites: list[Any], label_names: Sequence[str]) -> list[Any]:
    """The suites with labels like the run's; of a file with several tasks others are left out."""
    from keras_sentmatch.robustness.suites import common_names

    fit = [s for s in suites if common_names(label_names, s.pairs.label_names)]
    if set(label_names) != {
        "entailment",
        "not_entailment",
    }:  # whether a sentence answers a question
        fit = [s for s in fit if s.name != "advglue-qnli"]
    for other in (s for s in suites if s not in fit):
        if not other.name.startswith("advglue-"):
            return suites  # the report says why it can't
        say(f"{other.name}: left out, its labels are {', '.join(other.pairs.label_names)}")
    if suites and not fit:
        raise InputError(
            f"No suite has labels like the run's ({', '.join(label_names)}); give another --suite."
        )
    return fit


def _print(report: Mapping[str, Any]) -> None:
    from keras_sentmatch.robustness.report import COLUMNS, table

    what = " ".join(str(report[key]) for key in ("run", "data", "split") if report.get(key))
    heads = [name.replace("_", " ") for name in COLUMNS[1:]]
    print_table(heads, [row[1:] for row in table(report)], what)
    for row in report["transformations"]:
        for flip in row["flips"][:1]:
            print(f"{row['name']}: {flip['changed1']!r} / {flip['changed2']!r}")
            print(f"  is {flip['new_label']}, answered {flip['answer']}")
    for name, why in report["left_out"].items():
        say(f"left out {name}: {why}")
