"""Which epoch to keep: held-back accuracy of several choices, by five folds of the training pairs.

    python benchmarks/epoch_choice.py --data path/to/data

Of each fold a tenth of the other pairs validates. RE2 with 75 units and the word vectors of the
package trains to its last epoch, with a constant learning rate and with one that falls to zero; every
epoch's weights and their moving average are kept in memory. Then each choice is measured on the fold:
the epoch of the best validation accuracy, of the lowest validation loss, and the last one, of the
weights and of the averages. One row for each data set, schedule, fold and choice; existing rows are
not run again.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import keras
import measuring
import numpy as np

from keras_sentmatch.data import PairDataset, read_pairs, split_pairs
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training import load_recipe, train
from keras_sentmatch.training.folds import fold_splits

RESULTS = measuring.Results("epoch_choice")
KEY = ("data", "schedule", "fold", "choice")
FILES = {"msrp": "msrp/msr_paraphrase_train.txt", "sick": "sick/SICK_train.txt"}
SCHEDULES = {
    "constant": {},
    "falls to zero": {"schedule": "linear_warm_up_decay", "learning_rate": 2e-3},
}
CHOICES = ("best accuracy", "lowest loss", "last epoch")
FOLDS, MOMENTUM = 5, 0.99


class Keep(keras.callbacks.Callback):
    """Keeps the trainable weights of every epoch, and their moving average."""

    def __init__(self) -> None:
        super().__init__()
        self.average: list[np.ndarray] = []
        self.epochs: dict[str, list[list[np.ndarray]]] = {"": [], ", averaged": []}

    def _now(self) -> list[np.ndarray]:
        if keras.config.backend() == "jax":
            self.model.jax_state_sync()
        return [keras.ops.convert_to_numpy(w).copy() for w in self.model.trainable_variables]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = self._now()
        old = self.average or now
        self.average = [MOMENTUM * a + (1 - MOMENTUM) * w for a, w in zip(old, now)]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs[""].append(self._now())
        self.epochs[", averaged"].append(self.average)


def figures_of(matcher: Any, weights: list[np.ndarray], pairs: PairDataset) -> dict[str, float]:
    for variable, value in zip(matcher.model.trainable_variables, weights):
        variable.assign(value)
    return evaluate_predictions(pairs, matcher.predict_proba(pairs))


def measure(
    splits: dict[str, PairDataset], settings: dict[str, Any], epochs: int, fold: int
) -> dict[str, dict[str, Any]]:
    """Of each choice the epoch, its validation accuracy and its accuracy on the fold."""
    kept = Keep()
    plan = load_recipe("re2", "pairs", overrides=["model.units=75"]).with_training(
        epochs=epochs, patience=epochs, folds=0, batch_size=32, seed=fold, **settings
    )
    parts = {name: splits[name] for name in ("train", "validation")}
    with tempfile.TemporaryDirectory() as folder:
        matcher = train(plan, parts, Path(folder) / "run", baseline=False, callbacks=[kept]).matcher
    found = {}
    for suffix, weights in kept.epochs.items():
        curve = [figures_of(matcher, w, splits["validation"]) for w in weights]
        held = [figures_of(matcher, w, splits["held back"])["accuracy"] for w in weights]
        accuracies = [figure["accuracy"] for figure in curve]
        losses = [figure["nll"] for figure in curve]
        epoch_of = (int(np.argmax(accuracies)), int(np.argmin(losses)), len(curve) - 1)
        for choice, epoch in zip(CHOICES, epoch_of):
            found[choice + suffix] = {
                "epoch": epoch + 1,
                "epochs": len(curve),
                "validation": round(accuracies[epoch], 4),
                "held_back": round(held[epoch], 4),
            }
    return found


def run(root: Path, data: str, epochs: int) -> None:
    pairs = read_pairs(root / FILES[data])
    for fold, parts in enumerate(fold_splits(pairs, FOLDS, seed=0)):
        training, validation = split_pairs(parts["train"], [0.9, 0.1], seed=fold)
        splits = {"train": training, "validation": validation, "held back": parts["validation"]}
        for schedule, settings in SCHEDULES.items():
            key = {"data": data, "schedule": schedule, "fold": str(fold)}
            if not RESULTS.has(key):
                found = measure(splits, settings, epochs, fold)
                rows = [key | {"choice": choice} | figures for choice, figures in found.items()]
                RESULTS.replace(rows, KEY)  # all of them at once


def summary() -> tuple[list[str], list[list[str]]]:
    """Means over the folds; the last column is the mean difference from what `train` keeps."""
    groups: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in RESULTS.rows():
        key = (row["data"], row["schedule"], row["choice"])
        groups.setdefault(key, {})[row["fold"]] = row
    lines = []
    for key, rows in sorted(groups.items(), key=lambda item: item[0][:2]):
        cells = []
        for name in ("validation", "held_back"):
            values = [100 * float(row[name]) for row in rows.values()]
            cells.append(measuring.mean_and_deviation(values))
        default = groups.get((key[0], "constant", CHOICES[0]), {})
        gains = [
            100 * (float(row["held_back"]) - float(default[fold]["held_back"]))
            for fold, row in rows.items()
            if fold in default
        ]
        if default is not rows and len(gains) > 1:
            error = statistics.stdev(gains) / len(gains) ** 0.5
            cells.append(f"{statistics.mean(gains):+.1f} ± {error:.1f}")
        epochs = ", ".join(row["epoch"] for row in rows.values())
        lines.append([*key, str(len(rows)), epochs, *cells, *[""] * (3 - len(cells))])
    head = ["data", "schedule", "kept", "folds", "epochs kept", "validation", "held back"]
    return [*head, "difference, ± standard error"], lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--sets", default="msrp,sick")
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    if args.data and not args.show:
        for data in args.sets.split(","):
            run(args.data, data, args.epochs)
    RESULTS.show(*summary(), args.write)


if __name__ == "__main__":
    main()
