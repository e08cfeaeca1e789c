"""Run folders: one matcher, or an ensemble of several."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.errors import InputError

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
BatchSizeOption = Annotated[int, typer.Option(help="Most pairs scored at once.")]


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
        return self.first.answers(self.matcher.predict_proba(pairs, batch_size=batch_size))


def load_run(folder: Path) -> Run:
    """The run of a folder that `train` wrote, with one seed or with several."""
    import keras

    from keras_sentmatch.matcher import Matcher

    if not (folder / "ensemble.json").is_file():
        matcher: Any = Matcher.load(folder)
        members = [matcher]
    else:
        from keras_sentmatch.training import EnsembleMatcher

        folders = sorted(path.parent for path in folder.glob("seed-*/matcher.json"))
        if not folders:
            raise InputError(f"{folder} has an ensemble.json, but no seed-* runs: copy it whole.")
        matcher = EnsembleMatcher.load(folders)
        members = matcher.members
    if keras.config.backend() == "tensorflow":
        for member in members:  # XLA's compilation takes longer than most files of pairs
            member.model.jit_compile = False
    return Run(matcher, members[0])
