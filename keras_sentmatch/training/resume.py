"""Checkpoints of a training run, and how it goes on from one.

Keras's `BackupAndRestore` brings back the weights, the optimizer and the epoch, but not what the other callbacks
remember (the best value, the patience used up), not the history, and not the states of dropout's random numbers; and it
writes its two files one after the other, so that a kill between them pairs the weights of one epoch with the number of
another. Here one file holds it all.
"""

import csv
import io
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json
from keras_sentmatch.safety import COPY, check_types, inside, parse_json, read_arrays, weight_sizes
from keras_sentmatch.training.seeds import generator_states, set_generator_states

GENERATIONS = ("resume-0.npz", "resume-1.npz")  # the last and the one before, in turn
BEST_WEIGHTS = "best-{epoch:04d}.weights.h5"  # epochs count from 1; ModelCheckpoint fills it in
REMEMBERED = ("best", "best_epoch", "wait", "cooldown_counter")  # of Keras's callbacks and ours
_TEMPORARY = ".resume.npz"
_KINDS = {
    "epochs": int,
    "stopped": bool,
    "best": int,
    "seconds": float,
    "history": dict,
    "callbacks": dict,
    "identity": dict,
}
VARIABLE, GENERATOR = "variable", "generator_"  # how names of arrays begin


@dataclass
class State:
    """Where a run stood at the end of an epoch.

    Attributes:
        epochs: Epochs done.
        stopped: Whether training was over for want of better values.
        best: The epoch (from 1) of the best weights.
        seconds: What `fit` had taken.
        history: Values by name, one an epoch.
        callbacks: What each callback remembers, by the name of its class (the second: `"NAME 2"`).
        identity: What the run was of, as `identity_of` gives it.
        arrays: The variables of model and optimizer, and the states of random generators.
    """

    epochs: int
    stopped: bool
    best: int
    seconds: float
    history: dict[str, list[float]]
    callbacks: dict[str, dict[str, Any]]
    identity: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)

    def save(self, path: Path) -> None:
        """Writes beside the file and renames: whenever the process dies, `path` is whole."""
        plain = {name: value for name, value in vars(self).items() if name != "arrays"}
        temporary = path.with_name(_TEMPORARY)
        with open(temporary, "wb") as file:
            text = np.frombuffer(json.dumps(plain).encode(), np.uint8)
            np.savez(file, state=text, **self.arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: Path) -> "State":
        """Reads what `save` wrote; the checksums of the zip file tell where it is damaged.

        Raises:
            InputError: A damaged file.
            FileNotFoundError: No such file.
        """
        arrays = read_arrays(inside(path.parent, path.name))
        plain = parse_json(arrays.pop("state", np.empty(0, np.uint8)).tobytes(), path)
        names = [field.name for field in fields(cls) if field.name != "arrays"]
        if not isinstance(plain, dict) or sorted(plain) != sorted(names):
            raise InputError(f"{path} is damaged: it is no checkpoint of a run: {COPY}.")
        check_types(plain, _KINDS, path)
        state = cls(**plain, arrays=arrays)
        wrong = state.wrong()
        if wrong:
            raise InputError(f"{path} is damaged: {wrong}: {COPY}.")
        return state

    def wrong(self) -> str:
        """What cannot be in a checkpoint of this one; empty where all is well."""
        training = self.identity.get("training")
        whole = training.get("epochs") if isinstance(training, dict) else None
        if type(whole) is not int or not 1 <= self.best <= self.epochs <= whole:
            return f"{self.epochs} of {whole!r:.20} epochs, the best {self.best!r:.20}"
        if not all(_is_series(values, self.epochs) for values in self.history.values()):
            return f"the history has not a number for each of its {self.epochs} epochs"
        for name, memory in self.callbacks.items():
            if not isinstance(memory, dict) or not all(
                key in REMEMBERED and isinstance(value, float if key == "best" else int)
                for key, value in memory.items()
            ):
                return f"{name!r:.60} remembers {memory!r:.60}"
        if not all(a.dtype == np.uint8 for n, a in self.arrays.items() if n.startswith(GENERATOR)):
            return "the states of its random generators are no bytes"
        return ""

    def restore(self, model: keras.Model) -> None:
        """Gives a compiled model and its optimizer the values of then.

        Raises:
            InputError: The model has other variables.
        """
        variables = variables_of(model)
        values = [self.arrays[n] for n in self.arrays if n.startswith(VARIABLE)]
        values = [v.view("bfloat16") if v.dtype == "V2" else v for v in values]  # as NumPy reads it
        numbers = all(value.dtype.kind in "fiub" or value.dtype == "bfloat16" for value in values)
        if not numbers or [tuple(v.shape) for v in variables] != [v.shape for v in values]:
            raise InputError(
                "The model of the checkpoint has other variables than this one (another version of "
                "the library, other word vectors?): delete the folder and train anew."
            )
        for variable, value in zip(variables, values):
            variable.assign(value)


def variables_of(model: keras.Model) -> list[Any]:
    """Of model and optimizer, the states of dropout's random numbers among them."""
    model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


class Checkpoint(keras.callbacks.Callback):
    """Writes a `State` at the end of each epoch. Stands last, when the others have seen the epoch.

    Args:
        folder: Run folder.
        identity: What `identity_of` gives.
        history: The callback that records the values.
        others: The callbacks whose memory is kept.
        state: Where to go on: the others get back what they remembered when training begins.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, Any],
        history: keras.callbacks.History,
        others: Sequence[keras.callbacks.Callback],
        state: State | None = None,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.identity = identity
        self.history = history
        self.others = others
        self.state = state
        self.start = time.perf_counter()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.state is not None:
            for name, callback in _by_name(self.others).items():
                vars(callback).update(self.state.callbacks.get(name, {}))
            states = self.state.arrays
            set_generator_states({n: states[n] for n in states if n.startswith(GENERATOR)})

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        before, variables = self.state, variables_of(self.model)
        now = time.perf_counter()
        state = State(
            epochs=epoch + 1,
            stopped=bool(self.model.stop_training),
            best=max(best_epochs(self.folder)),
            seconds=now - self.start + (0.0 if before is None else before.seconds),
            history={k: [float(v) for v in values] for k, values in self.history.history.items()},
            callbacks={n: found for n, c in _by_name(self.others).items() if (found := _memory(c))},
            identity=self.identity,
            arrays={
                **{f"{VARIABLE}{i}": ops.convert_to_numpy(v) for i, v in enumerate(variables)},
                **{GENERATOR + name: bytes_ for name, bytes_ in generator_states().items()},
            },
        )
        state.save(self.folder / GENERATIONS[state.epochs % 2])
        self.start, self.state = now, state
        state.arrays = {}
        kept = {state.best, state.best if before is None else before.best}
        for old in set(best_epochs(self.folder)) - kept:
            best_weights(self.folder, old).unlink()


def _is_series(values: Any, length: int) -> bool:
    numbers = isinstance(values, list) and all(type(v) in (int, float) for v in values)
    return numbers and len(values) == length


def _by_name(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    names = [type(callback).__name__ for callback in callbacks]
    return {
        f"{name} {count}" if (count := names[: i + 1].count(name)) > 1 else name: callback
        for i, (name, callback) in enumerate(zip(names, callbacks))
    }


def _memory(callback: keras.callbacks.Callback) -> dict[str, Any]:
    values = {name: vars(callback).get(name) for name in REMEMBERED}
    return {
        name: float(v) if name == "best" else int(v) for name, v in values.items() if v is not None
    }


def best_weights(folder: Path, epoch: int) -> Path:
    """The file of the best weights as of an epoch, from 1."""
    return folder / BEST_WEIGHTS.format(epoch=epoch)


def best_epochs(folder: Path) -> list[int]:
    """The epochs whose weights lie in a folder as the best of their time."""
    names = (
        re.fullmatch(r"best-([0-9]{4,9})\.weights\.h5", path.name) for path in folder.glob("*")
    )
    return sorted(int(name[1]) for name in names if name)


def identity_of(recipe: Any, data: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """What must be the same for a run to go on: recipe, pairs, backend.

    Args:
        recipe: The recipe, its seed included.
        data: Datasets by part.
        backend: Keras's backend.
    """
    pairs = {f"{part} pairs": f"{len(d):,} ({d.fingerprint()[:12]})" for part, d in data.items()}
    found = {"backend": backend, "name": recipe.name, **recipe.tables(), **pairs}
    return json.loads(json.dumps(found, default=str))  # as it will be read


def difference(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two identities, in words."""
    found = []
    for key in dict.fromkeys((*then, *now)):
        a, b = then.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += difference(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} was {_shown(a)}, now {_shown(b)}")
    return found


def _shown(value: Any) -> str:
    return "absent" if value is None else value if isinstance(value, str) else json.dumps(value)


def begin(folder: Path, identity: Mapping[str, Any], resume: bool) -> State | None:
    """Looks at a folder before training: where to go on, or None to begin anew.

    Raises:
        InputError: A finished run; an unfinished one without `resume`, or of something else.
    """
    state = latest(folder)
    if state is None:
        if (folder / "matcher.json").exists():
            more = (
                "there is nothing to resume"
                if resume
                else "name another folder, or delete this one"
            )
            raise InputError(f"{folder} already holds a run that is finished; {more}.")
        return None
    done = f"{state.epochs} of {state.identity['training']['epochs']} epochs"
    if not resume:
        raise InputError(
            f"{folder} already holds a run, which is not finished ({done}): go on with --resume (resume=True), name "
            "another folder, or delete this one."
        )
    check_identity(folder, state.identity, identity)
    best = inside(folder, best_weights(folder, state.best).name)
    if not best.is_file():
        raise InputError(f"{best} is missing, the best of the run so far: {COPY}, or train anew.")
    weight_sizes(best, best)
    return state


def check_identity(folder: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to go on with another run, and says what differs."""
    if differing := difference(then, now):
        raise InputError(
            f"{folder} holds another run: {'; '.join(differing)}. Give the same command as then and "
            "--resume, or name another folder."
        )


def finished_metrics(folder: Path) -> dict[str, Any] | None:
    """What metrics.json says of a finished run; None where there is none, or an unfinished one."""
    if not (folder / "matcher.json").exists() or any((folder / g).exists() for g in GENERATIONS):
        return None
    path = folder / "metrics.json"
    metrics = read_json(path)
    kinds = {"identity": dict, "interrupted": bool}
    if missing := [name for name in kinds if name not in metrics]:
        raise InputError(f"{path} lacks {', '.join(missing)}: {COPY}, or train anew.")
    check_types(metrics, {**kinds, "validation": dict, "test": dict}, path)
    return metrics


def latest(folder: Path) -> State | None:
    """The last checkpoint, or the one before it where the last is damaged; None where there is none.

    Raises:
        InputError: All there is is damaged.
    """
    found, broken = [], []
    for path in (folder / name for name in GENERATIONS):
        try:
            found.append(State.load(path))
        except FileNotFoundError:
            continue
        except InputError as error:
            broken.append(str(error).removesuffix(f": {COPY}."))
    if broken and not found:
        raise InputError(
            f"The checkpoints in {folder} are damaged ({'; '.join(broken)}): delete the folder and train anew."
        )
    return max(found, key=lambda state: state.epochs, default=None)


def prepare(folder: Path, state: State | None) -> None:
    """Takes away what came after the checkpoint: the epoch that was cut off runs again."""
    for epoch in best_epochs(folder):
        if state is None or epoch > state.epochs:
            best_weights(folder, epoch).unlink()
    if state is not None:
        text = io.StringIO(newline="")
        writer = csv.writer(text)  # as Keras's CSVLogger writes
        names = sorted(state.history)
        writer.writerow(["epoch", *names])
        writer.writerows(zip(range(state.epochs), *(state.history[name] for name in names)))
        (folder / "history.csv").write_text(text.getvalue(), encoding="utf-8", newline="")


def clear(folder: Path) -> None:
    """Takes the checkpoints away: the run is finished. They go first: they need the best weights."""
    for name in (*GENERATIONS, _TEMPORARY):
        (folder / name).unlink(missing_ok=True)
    for epoch in best_epochs(folder):
        best_weights(folder, epoch).unlink()
