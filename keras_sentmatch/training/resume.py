"""Checkpoints of a training run, how to resume from them, and a lock on its folder.

Keras's `BackupAndRestore` keeps neither the history nor the states of other callbacks and of
dropout, and it writes two files that a kill can separate. Here one file has everything.
"""

import csv
import io
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import check_place, read_json
from keras_sentmatch.safety import (
    COPY,
    check_tree,
    check_types,
    inside,
    parse_json,
    read_arrays,
    replace_file,
)
from keras_sentmatch.training.recipe import Recipe

try:
    import fcntl
except ImportError:  # on Windows folders are not locked
    fcntl = None  # type: ignore[assignment]

CHECKPOINT = "resume.npz"
LOCK = ".lock"  # the locked file; the system unlocks it when the process ends
BEST_WEIGHTS = "best-{epoch:04d}.npz"  # epochs count from 1
REMEMBERED = ("best", "best_epoch", "wait", "cooldown_counter")  # of Keras's callbacks and ours
_KINDS = {
    "epochs": int,
    "stopped": bool,
    "best": int,
    "seconds": float,
    "history": dict,
    "callbacks": dict,
    "identity": dict,
}
VARIABLE, GENERATOR = "variable", "generator_"  # prefixes of names of arrays
Identity = dict[str, Any]  # JSON; what `run_identity` returns


@dataclass
class State:
    """The state of a run at the end of an epoch."""

    epochs: int  # finished
    stopped: bool  # whether training stopped early
    best: int  # epoch (from 1) of the best weights
    seconds: float  # spent in `fit`
    history: dict[str, list[float]]  # values by name, one per epoch
    callbacks: dict[str, dict[str, Any]]  # by name of the class and number
    identity: Identity  # see `run_identity`
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)  # variables, random states

    def save(self, path: Path) -> None:
        """Write the file that `load` reads."""
        plain = {name: value for name, value in vars(self).items() if name != "arrays"}
        text = np.frombuffer(json.dumps(plain).encode(), np.uint8)
        write_arrays(path, {"state": text, **self.arrays})

    @classmethod
    def load(cls, path: Path) -> "State":
        """Read the file that `save` wrote; raise `InputError` if it is damaged."""
        arrays = read_arrays(inside(path.parent, path.name))
        plain = parse_json(arrays.pop("state", np.empty(0, np.uint8)).tobytes(), path)
        names = [field.name for field in fields(cls) if field.name != "arrays"]
        if not isinstance(plain, dict) or sorted(plain) != sorted(names):
            raise InputError(f"{path} is damaged: it is no checkpoint of a run. {COPY}.")
        check_types(plain, _KINDS, path)
        state = cls(**plain, arrays=arrays)
        if problem := state.problem():
            raise InputError(f"{path} is damaged: {problem}. {COPY}.")
        return state

    def problem(self) -> str:
        """Describe what is inconsistent in this state; return an empty string if nothing is."""
        training = self.identity.get("training")
        whole = training.get("epochs") if isinstance(training, dict) else None
        if type(whole) is not int or not 1 <= self.best <= self.epochs <= whole:
            return (
                f"it has {self.epochs} of {whole!r:.20} epochs, and the best is {self.best!r:.20}"
            )
        for values in self.history.values():
            series = isinstance(values, list) and all(type(v) in (int, float) for v in values)
            if not series or len(values) != self.epochs:
                return f"its history does not have one number per epoch ({self.epochs})"
        for memory in self.callbacks.values():
            known = isinstance(memory, dict) and memory.keys() <= set(REMEMBERED)
            if not known or any(type(v) not in (int, float) for v in memory.values()):
                return f"the state of a callback is {memory!r:.60}"
        if not all(a.dtype == np.uint8 for n, a in self.arrays.items() if n.startswith(GENERATOR)):
            return "its random states are not bytes"
        return ""

    def restore(self, model: keras.Model) -> None:
        """Restore a compiled model and its optimizer, which must have the same variables."""
        _assign(variables_of(model), self.arrays)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an `.npz` file under another name and rename it, so that `path` is always complete."""
    # HDF5 would end the process with a segmentation fault if the disk is full.
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".npz", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def named_arrays(variables: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return the values of variables, by names that `_assign` knows."""
    return {f"{VARIABLE}{i}": ops.convert_to_numpy(v) for i, v in enumerate(variables)}


def snapshot(model: keras.Model) -> dict[str, np.ndarray]:
    """Return the variables of a compiled model and of its optimizer, and the random states."""
    states = {GENERATOR + name: bytes_ for name, bytes_ in generator_states().items()}
    return {**named_arrays(variables_of(model)), **states}


def restore(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore what `snapshot` returned for a model with the same variables."""
    _assign(variables_of(model), arrays)
    set_generator_states({n: a for n, a in arrays.items() if n.startswith(GENERATOR)})


def _assign(variables: Sequence[Any], arrays: Mapping[str, np.ndarray]) -> None:
    values = [array for name, array in arrays.items() if name.startswith(VARIABLE)]
    values = [v.view("bfloat16") if v.dtype == "V2" else v for v in values]  # as NumPy reads it
    numbers = all(value.dtype.kind in "fiub" or value.dtype == "bfloat16" for value in values)
    if not numbers or [tuple(v.shape) for v in variables] != [v.shape for v in values]:
        raise InputError(
            "The checkpoint has other variables than this model. Another version of the library or "
            "other word vectors may have written it. Delete the folder and train again."
        )
    for variable, value in zip(variables, values):
        variable.assign(value)


def save_weights(model: keras.Model, path: Path) -> None:
    """Write the weights of a model to an `.npz` file."""
    write_arrays(path, named_arrays(model.weights))


def load_weights(model: keras.Model, path: Path) -> None:
    """Restore the weights that `save_weights` wrote."""
    _assign(model.weights, read_arrays(inside(path.parent, path.name)))


def variables_of(model: keras.Model) -> list[Any]:
    """Return the variables of model and optimizer, including dropout's random states."""
    model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


class Checkpoint(keras.callbacks.Callback):
    """Write a `State` at the end of each epoch. Must be the last callback.

    With a state to resume from, the other callbacks get their states back when training starts.
    Best weights of earlier epochs are deleted, unless `keeps_all`.
    """

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        history: keras.callbacks.History,
        others: Sequence[keras.callbacks.Callback],
        state: State | None = None,
        keeps_all: bool = False,
    ) -> None:
        super().__init__()
        self.folder, self.identity, self.state = folder, identity, state
        self.history, self.others, self.keeps_all = history, others, keeps_all
        # The first `fit` of a model draws numbers before it begins to train.
        arrays = {} if state is None else state.arrays
        found = {n: array for n, array in arrays.items() if n.startswith(GENERATOR)}
        self.generators = found or generator_states()
        self.start = time.perf_counter()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.state is not None:
            for name, callback in by_name(self.others).items():
                vars(callback).update(self.state.callbacks.get(name, {}))
        set_generator_states(self.generators)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        before, now = self.state, time.perf_counter()
        state = State(
            epochs=epoch + 1,
            stopped=bool(self.model.stop_training),
            best=max(best_epochs(self.folder)),
            seconds=now - self.start + (0.0 if before is None else before.seconds),
            history={k: [float(v) for v in values] for k, values in self.history.history.items()},
            callbacks={n: found for n, c in by_name(self.others).items() if (found := _memory(c))},
            identity=self.identity,
            arrays=snapshot(self.model),
        )
        write_history(self.folder, state)
        state.save(self.folder / CHECKPOINT)
        self.start, self.state = now, state
        state.arrays = {}
        if not self.keeps_all:
            keep_only(self.folder, state.best)


def by_name(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    names = [type(callback).__name__ for callback in callbacks]
    return {f"{n} {names[:i].count(n)}": c for i, (n, c) in enumerate(zip(names, callbacks))}


def _memory(callback: keras.callbacks.Callback) -> dict[str, Any]:
    values = {name: vars(callback).get(name) for name in REMEMBERED}
    return {n: (float if n == "best" else int)(v) for n, v in values.items() if v is not None}


def best_weights(folder: Path, epoch: int) -> Path:
    """Return the path of the best weights up to an epoch (from 1)."""
    return folder / BEST_WEIGHTS.format(epoch=epoch)


def best_epochs(folder: Path) -> list[int]:
    """Return the epochs whose weights are in a folder."""
    found = (re.fullmatch(r"best-([0-9]{4,9})\.npz", path.name) for path in folder.glob("*"))
    return sorted(int(name[1]) for name in found if name)


def keep_only(folder: Path, epoch: int, since: float = math.inf) -> None:
    """Delete the weights of all other epochs before the epoch `since`."""
    for other in best_epochs(folder):
        if other != epoch and other < since:
            best_weights(folder, other).unlink()


def run_identity(recipe: Recipe, splits: Mapping[str, PairDataset]) -> Identity:
    """Return what must be the same for a run to be resumed: recipe, pairs and backend."""
    pairs = {f"{part} pairs": f"{len(d):,} ({d.fingerprint()[:12]})" for part, d in splits.items()}
    found = {"backend": keras.config.backend(), "name": recipe.name, **recipe.tables(), **pairs}
    identity: Identity = json.loads(json.dumps(found, default=str))  # as it will be read
    return identity


def difference(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Describe the differences between two identities."""
    found = []
    for key in dict.fromkeys((*then, *now)):
        a, b = then.get(key, "absent"), now.get(key, "absent")
        if isinstance(a, dict) and isinstance(b, dict):
            found += difference(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} was {a}, now {b}")
    return found


def check_folder(folder: Path, identity: Identity, resume: bool) -> State | None:
    """Return the state to resume from, or None to start from the beginning; refuse another run."""
    check_tree(folder)
    check_place(folder)
    state = latest(folder)
    if state is None:
        if (folder / "matcher.json").exists():
            how = "There is nothing to resume" if resume else "Name another folder, or delete it"
            raise InputError(f"{folder} already holds a finished run. {how}.")
        return None
    if not resume:
        raise InputError(
            f"{folder} already holds an unfinished run ({state.epochs} epochs done). Continue it "
            "with --resume (resume=True), name another folder, or delete this one."
        )
    check_identity(folder, state.identity, identity)
    best = inside(folder, best_weights(folder, state.best).name)
    if not best.is_file():
        raise InputError(
            f"{best}, with the best weights so far, is missing. {COPY}, or train again."
        )
    return state


def check_identity(
    folder: Path, then: Mapping[str, Any], now: Mapping[str, Any], kind: str = "run"
) -> None:
    """Refuse to resume another run; the message names the differences."""
    if differing := difference(then, now):
        raise InputError(
            f"{folder} holds another {kind}: {'; '.join(differing)}. Resume with the same arguments as "
            "before, or name another folder."
        )


def finished_metrics(folder: Path) -> dict[str, Any] | None:
    """Return `metrics.json` of a finished run; None if there is no run or it is unfinished."""
    if not (folder / "matcher.json").exists() or (folder / CHECKPOINT).exists():
        return None
    path = folder / "metrics.json"
    metrics = read_json(path)
    kinds = {"identity": dict, "interrupted": bool}
    if missing := [name for name in kinds if name not in metrics]:
        raise InputError(f"{path} has no {' and no '.join(missing)}. {COPY}, or train again.")
    check_types(metrics, {**kinds, "validation": dict, "test": dict}, path)
    return metrics


def latest(folder: Path) -> State | None:
    """Return the checkpoint in a folder, or None."""
    return State.load(folder / CHECKPOINT) if (folder / CHECKPOINT).exists() else None


def discard_later_files(folder: Path, state: State | None) -> None:
    """Delete what was written after the checkpoint, since the interrupted epoch runs again."""
    for epoch in best_epochs(folder):
        if state is None or epoch > state.epochs:
            best_weights(folder, epoch).unlink()
    if state is not None:
        write_history(folder, state)


def write_history(folder: Path, state: State) -> None:
    """Write the values of all epochs as `history.csv`; Keras's `CSVLogger` can only append."""
    names = sorted(state.history)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["epoch", *names])
    writer.writerows(zip(range(state.epochs), *(state.history[name] for name in names)))
    replace_file(folder / "history.csv", text.getvalue())


def finish_folder(folder: Path) -> None:
    """Delete the checkpoints of a finished run."""
    for path in (folder / CHECKPOINT, *folder.glob(".*.npz")):
        path.unlink(missing_ok=True)
    for epoch in best_epochs(folder):  # last, since the checkpoints refer to them
        best_weights(folder, epoch).unlink()


def generator_states() -> dict[str, np.ndarray]:
    """Return the states of PyTorch's random generators, as bytes by name.

    On TensorFlow and JAX the result is empty: Keras's dropout keeps its state in a variable.
    """
    if keras.config.backend() != "torch":
        return {}
    import torch

    states = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    return {f"torch{i}": state.numpy() for i, state in enumerate(states)}


def set_generator_states(states: dict[str, np.ndarray]) -> None:
    """Restore the states that `generator_states` returned, for the GPUs that exist now."""
    if keras.config.backend() != "torch":
        return
    import torch

    first, *gpus = (torch.from_numpy(state.copy()) for state in states.values())
    torch.set_rng_state(first)
    torch.cuda.set_rng_state_all(gpus[: torch.cuda.device_count()])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder. A folder that stays empty is removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with nullcontext() if fcntl is None else _lock(folder):
            yield
    finally:
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    path = folder / LOCK
    with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder} is in use by another process. Wait for it, or name another folder."
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
