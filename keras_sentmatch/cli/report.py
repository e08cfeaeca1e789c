"""`report`: where a run errs, and how its predictions change with the pairs."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import Report, print_report, print_table, say, title
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import LabeledPairs, Scoring, source_of, suggest_explain
from keras_sentmatch.cli.sources import example_of
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset


def report(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    transform: Annotated[
        list[str] | None,
        option(
            "Measure on pairs changed by a rule, such as SwapAnt, or by `all`. Repeatable.",
            metavar="NAME",
        ),
    ] = None,
    lexicon: Annotated[
        list[str] | None,
        option(
            "File named antonyms… or synonyms…, a folder of them, or wordnet. Default: wordnet.",
            metavar="PATH",
        ),
    ] = None,
    translate: options.Translate = None,
    opposite: Annotated[
        str | None,
        option(
            "The positive and the negative label, if their names are unusual.", metavar="YES,NO"
        ),
    ] = None,
    held_out: Annotated[
        bool,
        option(
            "Transformations write only words and sentences that training.augment never uses.",
            "--held-out",
        ),
    ] = False,
    annotations: Annotated[
        Path | None,
        option("Categories by pair id, given by people, instead of the rules.", exists=True),
    ] = None,
    baselines: Annotated[bool, option("Train three baselines on the run's training pairs.")] = True,
    limit: Annotated[int | None, option("Maximum number of pairs.", min=1)] = None,
    out: Annotated[Path | None, option("Folder for report.md, .csv and .json.")] = None,
    as_json: options.Json = False,
) -> None:
    """Show where a run errs: by linguistic category, next to baselines, and on changed pairs."""
    if not transform and (translate or opposite or held_out):
        raise InputError("--translate, --opposite and --held-out need --transform.")
    from keras_sentmatch.transformations import Lexicon
    from keras_sentmatch.transformations.transform import get_transformation

    names: list[str] | str = "all"
    if "all" not in (transform or ()):
        names = [get_transformation(name).name for name in transform or ()]
    pair = _labels(opposite) if opposite else None
    words = Lexicon.read(*lexicon) if lexicon else None
    function = options.translator(translate) if translate else None
    pairs, facts = labeled.read(run)
    if words is None:
        with contextlib.suppress(InputError):  # not installed
            words = Lexicon.wordnet()
    splits, left_out = _splits(run, labeled) if baselines else (None, {})
    loaded = scoring.load(run)
    from keras_sentmatch.analysis.reporting import report as analyze
    from keras_sentmatch.analysis.reporting import save_report

    loaded.class_names("a report")
    pairs = loaded.first.relabel(pairs if limit is None else pairs.limit(limit))
    with scoring.working(pairs):
        found = analyze(
            loaded.matcher,
            pairs,
            splits=splits,
            transformations=names,
            lexicon=words,
            translate=function,
            opposite=pair,
            entries="held_out" if held_out else "all",
            annotations=annotations,
            batch_size=scoring.batch_size,
        )
    loaded.log_encoding()
    found = {**found, **facts, "left_out": {**left_out, **found["left_out"]}}
    print_report(found, out, save_report, as_json, _print)
    if not as_json:
        worst = found["errors"][0] if found["errors"] else None
        pair = (worst["sentence1"], worst["sentence2"]) if worst else example_of(pairs)
        suggest_explain(run, *pair)


def _splits(
    run: Path, labeled: LabeledPairs
) -> "tuple[dict[str, PairDataset] | None, dict[str, str]]":
    """Return the pairs that baselines learn from: the run's, or the training pairs of `--data`."""
    splits = labeled.parts
    if labeled.named is not None and labeled.named.is_file:
        source = source_of(run)
        if source is None:
            return None, {"baselines": "the run does not record what it was trained on"}
        splits = source.splits()
    if missing := {"train", "validation"} - splits.keys():
        return None, {"baselines": f"the data has no {' and no '.join(sorted(missing))} part"}
    return splits, {}


def _labels(opposite: str) -> tuple[str, str]:
    positive, comma, negative = (part.strip() for part in opposite.partition(","))
    if not comma or "," in negative:
        raise InputError(f"--opposite is {opposite!r}. Expected two label names, such as yes,no.")
    return positive, negative


def _print(report: Report) -> None:
    from keras_sentmatch.analysis.reporting import report_sections

    say(title(report))
    for section in report_sections(report, short=True):
        if section.columns:
            print_table(section.columns, section.rows, section.title)
        if section.text:
            say(section.text)
