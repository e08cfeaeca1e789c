"""What a search shows while it runs."""

import logging
from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

log = logging.getLogger(__name__)


class SearchProgress:
    """A log message for each trial, and on a terminal a bar of trials and one of the epochs."""

    def __init__(self, shown: bool, objective: str, total: int | None) -> None:
        self.shown = shown
        self.objective = objective
        self.console = Console(stderr=True)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self.trials = self.bars.add_task("trials", total=total, note="")
        self.epochs = self.bars.add_task("epochs", total=None, note="", visible=False)

    def __enter__(self) -> "SearchProgress":
        if self.shown and self.console.is_terminal:
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bars.live.is_started:
            self.bars.stop()

    def begin(self, name: str, epochs: int) -> keras.callbacks.Callback:
        """A trial begins; the callback shows its epochs."""
        self.bars.reset(self.epochs, total=epochs, visible=True, description=f"trial {name}")

        def show(epoch: int, logs: dict[str, Any] | None) -> None:
            note = (
                f"{self.objective} {logs[self.objective]:.4f}"
                if logs and self.objective in logs
                else ""
            )
            self.bars.update(self.epochs, completed=epoch + 1, note=note)

        callback = keras.callbacks.LambdaCallback(on_epoch_end=show)
        callback.async_safe = True  # only shows
        return callback

    def end(self, row: dict[str, Any], configuration: str, done: int, best: str) -> None:
        """A trial ended."""
        score, seconds = row["score"], row["seconds"]
        outcome = row["error"] if score is None else f"{self.objective} {score:.4f}"
        took = f", {seconds:.0f} s" if seconds is not None else ""
        log.info(f"trial {row['trial']}  {configuration}  {outcome}{took}")
        self.bars.update(self.trials, completed=done, note=best)
        self.bars.update(self.epochs, visible=False)
