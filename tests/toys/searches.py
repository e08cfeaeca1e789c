"""The trials of a search that never ran, so that its report is known."""

import numpy as np

from keras_sentmatch.tuning._trials import Trials

SPACE = {
    "training.learning_rate": [2e-4, 5e-3],  # a range
    "model.kind": ["none", "soft", "hard"],
    "model.size": [4.0, 2.0],  # matters where there is a kind
    "model.steps": [1, 2, 3, 4, 5, 6, 7, 8],
}
NAMES = {
    "training.learning_rate": "learning_rate",
    "model.kind": "k",
    "model.size": "size",
    "model.steps": "T",
}


def made_up_rows(trials, failed=(), running=(), noise=0.001, seed=0):
    """Trials at random: the score is best at T = 5, a little better with a kind."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(trials):
        steps, kind = int(rng.integers(1, 9)), str(rng.choice(SPACE["model.kind"]))
        status = "failed" if number in failed else "running" if number in running else "completed"
        true = 0.8 - 0.01 * abs(steps - 5) + 0.004 * (kind != "none")
        score = true + noise * float(rng.standard_normal())
        row = {"trial": f"{number:04d}", "status": status, "score": score}
        row |= {"epochs": 8, "parameters": 100_000 * steps + 7, "seconds": 20.5}
        if status != "completed":
            row = {n: v if n in ("trial", "status") else None for n, v in row.items()}
        row |= {
            "training.learning_rate": float(np.exp(rng.uniform(np.log(2e-4), np.log(5e-3)))),
            "model.kind": kind,
            "model.size": None if kind == "none" else float(rng.choice(SPACE["model.size"])),
            "model.steps": steps,
            "error": "MemoryError: too | large" if status == "failed" else "",
        }
        rows.append(row)
    return rows


def made_up_trials(folder, rows, objective="val_accuracy"):
    """Return the trials of a search that never ran."""
    return Trials(folder, "drr_net", "random", objective, SPACE, NAMES, rows)
