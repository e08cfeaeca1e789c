"""Run folders: one matcher, or an ensemble of several."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.sources import OnError, Source
from keras_sentmatch.errors import InputError

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
DataOption = Annotated[
    str | None,
    typer.Option(help="Name or path of labelled pairs. Default: what the run was trained on."),
]
SplitOption = Annotated[
    str | None,
    typer.Option(help="train, validation or test. Default: test; of a single file, all rows."),
]
BatchSizeOption = Annotated[int, typer.Option(help="Most pairs scored at once.")]
WordEncoderOption = Annotated[
    str | None,
    typer.Option(
        help="The encoder that the word vectors were extracted from (a folder or a KerasHub preset): "
        "words never seen in training get their vectors."
    ),
]


@dataclass
class Run:
    """What a run folder holds.

    Attributes:
        matcher: Scores pairs: a `Matcher` or an `EnsembleMatcher`.
        first: The matcher, or the ensemble's first member: its names, encoder and info.
    """

    matcher: Any
    first: Any

    def answers(self, pairs: Any, batch_size: int = 64) -> list[dict[str, Any]]:
        """Named answers in the order of the pairs."""
        return self.matcher.answers(self.matcher.predict_proba(pairs, batch_size=batch_size))


def load_run(folder: Path, word_encoder: str | None = None) -> Run:
    """The run of a folder that `train` wrote, with one seed or with several.

    `word_encoder` as for `Matcher.load`.
    """
    import keras

    from keras_sentmatch.inference.matcher import Matcher
    from keras_sentmatch.inference.run_folder import members_of

    folders = members_of(folder)
    if folders == [folder]:
        matcher: Any = Matcher.load(folder, word_encoder=word_encoder)
        members = [matcher]
    else:
        from keras_sentmatch.inference import EnsembleMatcher

        matcher = EnsembleMatcher.load(folder, word_encoder=word_encoder)
        members = matcher.members
    if keras.config.backend() == "tensorflow":
        for member in members:  # XLA's compilation takes longer than most files of pairs
            member.model.jit_compile = False
    return Run(matcher, members[0])


def check_reading(
    data: str | None, format: str | None, columns: str | None, on_error: OnError
) -> None:
    """Refuses options that say how to read data which is not named."""
    if data is None and (format or columns or on_error is not OnError.RAISE):
        raise InputError(
            "--format, --columns and --on-error say how to read --data, which is missing."
        )


def labelled_pairs(
    loaded: Run,
    run: Path,
    data: str | None,
    split: str | None,
    default: str,
    format: str | None,
    columns: str | None,
    on_error: OnError,
) -> tuple[Any, str]:
    """What a command measures on, and the name of its source.

    Without `data` that is the part `default` of what the run was trained on; of a single file all rows,
    unless `split` names a part.
    """
    if data is not None:
        source = Source(data, format, columns, on_error)
        whole = split is None and Path(source.data).is_file()
    elif noted := loaded.first.info.get("source"):
        source, whole = noted_source(noted, run), False
    else:
        raise InputError(f"{run} does not say what it was trained on: give --data.")
    return source.rows() if whole else source.split(split or default), source.data


def noted_source(noted: Any, run: Path) -> Source:
    """The source that a run noted (`Source.facts`), checked: the file may come from anywhere."""
    from keras_sentmatch.safety import check_types

    place = f"info.source in {run / 'matcher.json'}"
    text = (str, None)
    kinds = {"data": str, "format": text, "columns": text, "on_error": str}
    if not isinstance(noted, dict) or "data" not in noted or not noted.keys() <= kinds.keys():
        raise InputError(f"{place} is {noted!r:.60}, expected {', '.join(kinds)}: give --data.")
    check_types(noted, kinds, place)
    known = re.fullmatch(r"(?!tfds:).*|tfds:\w+(/[\w.+-]+)?", noted["data"])
    if not known or noted.get("on_error", "raise") not in list(OnError):
        raise InputError(f"{place} is {noted!r:.80}, which is no source of pairs: give --data.")
    return Source(**noted)
