"""The callbacks of a run. Keras's own where it has one; `TaskMetrics` and the progress display are
ours."""

import importlib.util
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training.resume import BEST_WEIGHTS

if TYPE_CHECKING:
    from keras_sentmatch.data import PairBatches, PairDataset

LOWER_IS_BETTER = ("val_loss", "loss")
MONITORS = {"classification": "val_accuracy", "ranking": "val_map", "regression": "val_pearson"}


def monitor_of(task: str, monitor: str = "auto") -> tuple[str, str]:
    """The value that chooses the best epoch, and "max" or "min".

    Example:

    ```python
    from keras_sentmatch.training.callbacks import monitor_of

    monitor_of("ranking")  # ("val_map", "max")
    ```
    """
    name = MONITORS[task] if monitor == "auto" else monitor
    return name, "min" if name in LOWER_IS_BETTER else "max"


class TaskMetrics(keras.callbacks.Callback):
    """Puts the task's figures on validation data in the logs of each epoch: `val_map`,
    `val_pearson`, ….

    Grouped and rank figures cannot be averaged over batches, and batches that do not come out even on
    several devices can't be given to `fit`, so the model predicts the whole validation set. Stands
    before every callback that reads them. What `fit` has put there itself (`val_accuracy`, …) stays.

    Args:
        dataset: Labeled validation pairs.
        batches: Their batches, in an order that `batches.order(0)` tells.
        devices: Among how many devices a batch is shared out (`keras_sentmatch.training.devices.data_parallel`).
    """

    def __init__(self, dataset: "PairDataset", batches: "PairBatches", devices: int = 1) -> None:
        super().__init__()
        self.dataset = dataset
        self.batches = batches
        self.devices = devices

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is None:
            return
        outputs = self.predict()
        figures = evaluate_predictions(self.dataset, outputs)
        if self.devices > 1:  # fit was given no validation data
            # Row by row: Keras divides the mean by the number of devices on TensorFlow.
            losses = self.model.loss.call(self.batches.targets, outputs)
            figures["loss"] = float(keras.ops.convert_to_numpy(losses).mean()) + self.penalty()
        for name, value in figures.items():
            if isinstance(value, float):
                logs.setdefault(f"val_{name}", value)

    def penalty(self) -> float:
        """What the regularizers add to the loss."""
        weights = (v for v in self.model.trainable_variables if v.regularizer is not None)
        return sum(float(keras.ops.convert_to_numpy(v.regularizer(v))) for v in weights)

    def predict(self) -> np.ndarray:
        """The model's outputs in the order of the dataset's rows."""
        outputs, order = [], self.batches.order(0)
        inputs: Any
        for (inputs, *_), rows in zip(self.batches.numpy(0), order):
            more = -len(rows) % self.devices  # JAX wants the same number of rows on each device
            filled = {n: np.concatenate([x, x[:1].repeat(more, 0)]) for n, x in inputs.items()}
            # On TensorFlow each device answers the whole batch, one after the other.
            outputs.append(self.model.predict_on_batch(filled)[: len(rows)])
        rows = np.concatenate(order)
        stacked = np.concatenate(outputs)
        in_order = np.empty_like(stacked)
        in_order[rows] = stacked
        return in_order


class LearningRateLog(keras.callbacks.Callback):
    """Puts the learning rate of the next batch in the logs of each epoch, for optimizers with a schedule.

    `ReduceLROnPlateau` does so itself.
    """

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            rate = keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)
            logs["learning_rate"] = float(rate)


class EpochLines(keras.callbacks.Callback):
    """Prints one plain line an epoch: for files, pipes and notebooks' logs.

    Args:
        console: Where to.
        monitor: The monitored value; its best so far is marked with `*`.
        mode: `"max"` or `"min"`.
    """

    def __init__(self, console: Console, monitor: str, mode: str) -> None:
        super().__init__()
        self.console = console
        self.monitor = monitor
        self.sign = 1 if mode == "max" else -1
        self.best = -np.inf
        self.start = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        names = dict.fromkeys(("loss", "accuracy", "val_loss", self.monitor, "learning_rate"))
        values = [f"{name} {logs[name]:.4g}" for name in names if name in logs]
        current = self.sign * logs.get(self.monitor, -np.inf)
        mark = " *" if current > self.best else ""
        self.best = max(self.best, current)
        seconds = time.perf_counter() - self.start
        head = f"epoch {epoch + 1}/{self.params['epochs']}  {seconds:.1f}s"
        line = "  ".join([head, *values]) + mark
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)


class EpochBar(EpochLines):
    """`EpochLines`, and under them a bar with the step and the running loss of the current
    epoch."""

    async_safe = True  # only shows: may run beside the training steps

    def __init__(self, console: Console, monitor: str, mode: str) -> None:
        super().__init__(console, monitor, mode)
        columns = (
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=console, transient=True)
        self.bar: TaskID | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self.progress.start()
        name = f"{epoch + 1}/{self.params['epochs']}"
        self.bar = self.progress.add_task("", total=self.params["steps"], epoch=name, loss="-")

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.bar is not None and logs:
            loss = f"{float(logs['loss']):.4f}"
            self.progress.update(self.bar, completed=batch + 1, loss=loss)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.close()
        super().on_epoch_end(epoch, logs)

    def close(self) -> None:
        """Takes the bar away; `fit` calls no end hook when it is interrupted."""
        if self.bar is not None:
            self.progress.remove_task(self.bar)
            self.bar = None
        self.progress.stop()


def make_callbacks(
    folder: Path,
    *,
    monitor: str,
    mode: str,
    patience: int,
    plateau_factor: float,
    first: Iterable[keras.callbacks.Callback] = (),
    resumed: bool = False,
) -> list[keras.callbacks.Callback]:
    """The callbacks of a run, in the order in which they must see an epoch's logs.

    Args:
        folder: Gets the best weights (`BEST_WEIGHTS`), `history.csv`, and `logs/` for TensorBoard (on the
            TensorFlow backend, where `tensorboard` is installed).
        monitor: The value that decides, as `monitor_of` gives it.
        mode: `"max"` or `"min"`.
        patience: Epochs without a better value before training stops.
        plateau_factor: Times the learning rate after every epoch without a better value; 1 leaves
            it.
        first: Callbacks that add to the logs.
        resumed: Whether `history.csv` is there and goes on.

    Returns:
        A list for `fit`.
    """
    plain = str(folder).replace("{", "{{").replace("}", "}}")  # ModelCheckpoint formats it
    best = keras.callbacks.ModelCheckpoint(
        f"{plain}/{BEST_WEIGHTS}",
        monitor=monitor,
        mode=mode,
        save_best_only=True,
        save_weights_only=True,
    )
    best.async_safe = True  # saves at the end of an epoch only
    callbacks = [*first, best, *stopping_callbacks(monitor, mode, patience, plateau_factor)]
    callbacks.append(keras.callbacks.CSVLogger(folder / "history.csv", append=resumed))
    if keras.config.backend() == "tensorflow" and importlib.util.find_spec("tensorboard"):
        logs = str(folder / "logs")
        callbacks.append(keras.callbacks.TensorBoard(logs, write_graph=False))
    return callbacks


def stopping_callbacks(
    monitor: str, mode: str, patience: int, plateau_factor: float
) -> list[keras.callbacks.Callback]:
    """Those that lower the learning rate and end training where the monitored value gets no better."""
    found: list[keras.callbacks.Callback] = []
    if plateau_factor < 1:
        found.append(
            keras.callbacks.ReduceLROnPlateau(
                monitor, mode=mode, factor=plateau_factor, patience=0, min_delta=0.0
            )
        )
    return [*found, keras.callbacks.EarlyStopping(monitor, mode=mode, patience=patience)]


def progress_callback(monitor: str, mode: str) -> EpochLines:
    """A bar on a terminal, plain lines elsewhere; on standard error, so that output stays clean."""
    console = Console(stderr=True)
    return (EpochBar if console.is_terminal else EpochLines)(console, monitor, mode)
