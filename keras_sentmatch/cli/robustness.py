"""`robustness`: the metrics of a run on transformed pairs and on test suites."""

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import Report, print_report, print_table, say, title
from keras_sentmatch.cli.runs import LabeledPairs, Scoring
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.analysis.suites import Suite
    from keras_sentmatch.transformations import Lexicon

log = logging.getLogger(__name__)
Translate = Callable[[list[str]], Sequence[str]]


def robustness(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    transform: Annotated[
        list[str] | None,
        typer.Option(help="A transformation; repeat for more. Default: all that can be applied."),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A test suite (PAWS, AdvGLUE, …); repeat for more. Without --data or --transform "
            "nothing is transformed then.",
        ),
    ] = None,
    lexicon: options.Lexicon = None,
    translate: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="For BackTrans: your function from a list of sentences to their translations into "
            "another language and back.",
        ),
    ] = None,
    opposite: Annotated[
        str | None,
        typer.Option(
            metavar="YES,NO",
            help="The positive and the negative label, if their names are unusual.",
        ),
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Write only words and sentences that training with --augment never sees.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the transformations.")] = 0,
    limit: options.ClassLimit = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for robustness.md, .csv, .json and .png.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measures a run on transformed pairs and on test suites."""
    from keras_sentmatch import robustness as package

    names = [package.get_transformation(name).name for name in transform or ()] or None
    pair = None
    if opposite:
        positive, comma, negative = (part.strip() for part in opposite.partition(","))
        if not comma or "," in negative:
            raise InputError(f"--opposite {opposite!r}: expected two label names, such as yes,no.")
        pair = (positive, negative)
    words = lexicon_or_none(lexicon)
    function = _function(translate) if translate else None
    suites = [found for path in suite or () for found in package.read_suite(path)]
    loaded = scoring.load(run)
    label_names = loaded.class_names("robustness")
    facts: Report = {"run": str(run)}
    pairs = None
    if labeled.data is not None or names or not suites:
        pairs, facts = labeled.read(loaded)
        pairs = loaded.first.relabel(pairs if limit is None else pairs.limit(limit, seed))
    with scoring.working(0 if pairs is None else len(pairs)):
        report = package.robustness_report(
            lambda asked: [
                answer["label"] for answer in scoring.answers(loaded, asked, abstain=False)
            ],
            pairs,
            names=names,
            suites=_suitable(suites, label_names),
            label_names=label_names,
            seed=seed,
            lexicon=words,
            translate=function,
            opposite=pair,
            entries="held_out" if held_out else "all",
        )
    loaded.log_encoding()
    print_report({**facts, **report}, out, package.save_report, as_json, _print)
    if not as_json:
        labeled.suggest_errors(loaded)


def lexicon_or_none(sources: Sequence[str] | None) -> "Lexicon | None":
    """The lexicon that `--lexicon` names; else WordNet, or none where it is not installed."""
    from keras_sentmatch.transformations import Lexicon

    if sources:
        return Lexicon.read(*sources)
    try:
        return Lexicon.wordnet()
    except InputError:
        return None  # what needs a lexicon is left out, or reports that it is missing


def _function(name: str) -> Translate:
    """The function that MODULE:FUNCTION names."""
    module, _, attribute = name.partition(":")
    try:
        found: Translate = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--translate {name!r}: {error}; expected MODULE:FUNCTION of a module that Python finds "
            "(see PYTHONPATH)."
        ) from error
    return found


def _suitable(suites: "list[Suite]", label_names: Sequence[str]) -> "list[Suite]":
    """The suites whose labels are like the run's. Only a task of AdvGLUE may be left out."""
    from keras_sentmatch.analysis.suites import common_names

    names = {suite.name: suite.pairs.label_names or () for suite in suites}
    fit = [s for s in suites if common_names(label_names, names[s.name])]
    if set(label_names) != {"entailment", "not_entailment"}:
        fit = [s for s in fit if s.name != "advglue-qnli"]  # questions and their answers
    for other in (s for s in suites if s not in fit):
        if not other.name.startswith("advglue-"):
            return suites  # the report says why it does not fit
        log.info("%s: left out, its labels are %s", other.name, ", ".join(names[other.name]))
    if suites and not fit:
        raise InputError(
            f"No suite has the labels of the run ({', '.join(label_names)}); give another --suite."
        )
    return fit


def _print(report: Report) -> None:
    from keras_sentmatch.analysis.robustness import COLUMNS, table

    heads = [name.replace("_", " ") for name in COLUMNS[1:]]
    print_table(heads, [row[1:] for row in table(report)], title(report))
    for row in report["transformations"]:
        for flip in row["flips"][:1]:
            say(f"{row['name']}: {flip['changed1']!r} / {flip['changed2']!r}")
            say(f"  is {flip['new_label']}, answered {flip['answer']}")
    for name, why in report["left_out"].items():
        log.info("left out %s: %s", name, why)
