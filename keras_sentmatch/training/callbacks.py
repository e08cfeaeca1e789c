"""The callbacks of a run: Keras's own, the task's metrics, and the progress display."""

import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.metrics.evaluation import PRIMARY
from keras_sentmatch.training.config import MONITORS, TrainingConfig, f1_label
from keras_sentmatch.training.resume import best_weights, save_weights

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.encoders import PairBatches

LOWER_IS_BETTER = ("val_loss", "loss")
MINUTE = 60  # seconds
MEASURED = 20  # steps, from which the time of the training is estimated
BY_KERAS = ("val_accuracy", "val_macro_f1", "val_loss")  # logged by `fit`


def monitor_of(task: str, monitor: str = "auto") -> tuple[str, str]:
    """Return the value that chooses the best epoch, and "max" or "min"."""
    name = MONITORS[task][0] if monitor == "auto" else monitor
    return name, "min" if name in LOWER_IS_BETTER else "max"


def figure_of(monitor: str, task: str) -> str:
    """Return the metric that a run is judged by: the monitored one, or the primary for a loss."""
    name = monitor.removeprefix("val_")
    return PRIMARY[task] if name == "loss" else name


def patience_of(training: TrainingConfig, steps: int) -> int:
    """Return after how many epochs without a better value training stops."""
    return math.ceil(training.patience_batches / steps) or int(training.patience)


class TaskMetrics(keras.callbacks.Callback):
    """Add the task's validation metrics to the logs: `val_map`, `val_pearson`, ….

    They cannot be averaged over batches, so this predicts the whole validation set. Must come
    before the callbacks that read the metrics. Values that `fit` has logged stay.
    """

    def __init__(
        self, dataset: "PairDataset", batches: "PairBatches", f1_of: str | None = None
    ) -> None:
        super().__init__()
        self.dataset, self.batches, self.f1_of = dataset, batches, f1_of

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is None:
            return
        figures = evaluate_predictions(self.dataset, self.predict(), f1_of=self.f1_of)
        for name, value in figures.items():
            if isinstance(value, float):
                logs.setdefault(f"val_{name}", value)

    def predict(self, once: bool = False) -> np.ndarray:
        """Return the model's outputs in the order of the dataset's rows.

        `once` says that no further call follows, so TensorFlow traces no programs.
        """
        score = self.model.predict_on_batch
        if once and keras.config.backend() == "tensorflow":
            score = partial(self.model, training=False)
        outputs = [np.asarray(score(x)) for x, *_ in self.batches.numpy(0)]
        stacked = np.concatenate(outputs)
        in_order = np.empty_like(stacked)
        in_order[np.concatenate(self.batches.order(0))] = stacked
        return in_order


class BestWeights(keras.callbacks.Callback):
    """Write the weights of each epoch with the best monitored value so far."""

    async_safe = True  # writes at the end of an epoch only

    def __init__(self, folder: Path, monitor: str, mode: str, every_epoch: bool = False) -> None:
        super().__init__()
        self.folder, self.monitor, self.every_epoch = folder, monitor, every_epoch
        self.sign = 1 if mode == "max" else -1
        self.best: float | None = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        value = float((logs or {})[self.monitor])
        first = self.best is None or np.isnan(self.best)
        if first or self.every_epoch or self.sign * (value - (self.best or 0.0)) > 0:
            self.best = value
            save_weights(self.model, best_weights(self.folder, epoch + 1))


class LearningRateLog(keras.callbacks.Callback):
    """Log the learning rate of a schedule (`ReduceLROnPlateau` does so itself)."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            rate = keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)
            logs["learning_rate"] = float(rate)


class EpochLines(keras.callbacks.Callback):
    """Print a line per epoch, and mark the best monitored value so far with `*`. A terminal shows a bar too."""

    async_safe = True  # only shows, so it may run during training steps

    def __init__(self, console: Console, monitor: str, mode: str) -> None:
        super().__init__()
        self.console, self.monitor = console, monitor
        self.sign = 1 if mode == "max" else -1
        self.best = -np.inf
        self.start = self.measured_until = 0.0
        self.bar: Progress | None = None
        self.later_steps = 0  # per epoch, of a training that follows
        self.step_seconds: list[float] = []  # of the first steps
        self.estimated = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.start = self.measured_until = time.perf_counter()
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self.bar = Progress(
                *columns, TimeRemainingColumn(), console=self.console, transient=True
            )
            self.bar.start()
            name = f"epoch {epoch + 1}/{self.params['epochs']}"
            self.bar.add_task(name, total=self.params["steps"])

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self.estimated:
            float((logs or {"loss": 0.0})["loss"])  # waits for the step
            now = time.perf_counter()
            self.step_seconds.append(now - self.measured_until)
            self.measured_until = now
            if batch + 1 == MEASURED:
                self._estimate()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.close()
        logs = logs or {}
        names = dict.fromkeys(("loss", "accuracy", "val_loss", self.monitor, "learning_rate"))
        values = [f"{name} {logs[name]:.4g}" for name in names if name in logs]
        current = self.sign * logs.get(self.monitor, -np.inf)
        mark = " *" if current > self.best else ""
        self.best = max(self.best, current)
        seconds = time.perf_counter() - self.start
        head = f"epoch {epoch + 1}/{self.params['epochs']}  {seconds:.1f}s"
        self._say("  ".join([head, *values]) + mark)
        if not self.estimated and epoch + 1 < self.params["epochs"]:
            self._estimate()

    def _estimate(self) -> None:
        """Say how long the epochs will take, and what would be quicker."""
        self.estimated = True
        epochs, steps, measured = self.params["epochs"], self.params["steps"], self.step_seconds
        step = float(np.median(measured))  # a step that is compiled first takes longer
        remaining = (steps + self.later_steps) * epochs - len(measured)
        each, most = step * steps, sum(measured) + step * remaining
        line = f"about {_time(each)} per epoch"
        if epochs > 1:
            line += f", at most {_time(most)} for {epochs} epochs"
        if most >= MINUTE:
            line += "; quicker: fewer --epochs, fewer pairs (--limit), or the model bag_of_words"
        self._say(line)

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def close(self) -> None:
        """Remove the bar, since an interrupted `fit` calls no end hook."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _time(seconds: float) -> str:
    return f"{seconds / MINUTE:,.0f} min" if seconds >= 2 * MINUTE else f"{seconds:.0f} s"


def make_callbacks(
    folder: Path,
    monitor: str,
    mode: str,
    training: TrainingConfig,
    steps: int,
    validation: "PairDataset | None",
    batches: "PairBatches",
    to_the_end: bool = False,
) -> list[keras.callbacks.Callback]:
    """Return the callbacks of a run, in the order in which they must see the logs.

    They write the best weights. With `to_the_end`, all weights are written and nothing stops the
    training early.
    """
    callbacks: list[keras.callbacks.Callback] = []
    by_task = monitor not in BY_KERAS or (validation is not None and validation.task == "ranking")
    if validation is not None and by_task:
        callbacks.append(TaskMetrics(validation, batches, f1_label(monitor)))
    if training.schedule != "constant":
        callbacks.append(LearningRateLog())
    callbacks.append(BestWeights(folder, monitor, mode, every_epoch=to_the_end))
    if training.plateau_factor < 1:
        callbacks.append(
            keras.callbacks.ReduceLROnPlateau(
                monitor, mode=mode, factor=training.plateau_factor, patience=0, min_delta=0.0
            )
        )
    if not to_the_end:
        patience = patience_of(training, steps)
        callbacks.append(keras.callbacks.EarlyStopping(monitor, mode=mode, patience=patience))
    return callbacks
