"""Which parameters the scores of a search depend on."""

import importlib.util
from dataclasses import dataclass

import numpy as np

from keras_sentmatch.tuning.trials import Trials

LEAST_TRIALS = 20  # that finished; below, a forest learns the luck of the draws
FOLDS = 5
TREES = 100
REPEATS = 10


@dataclass
class Importance:
    """How far a random forest predicts the scores, and by what."""

    explained: float  # share of the variance of scores of trials that it did not learn from
    shares: dict[str, float]  # of the variance, by parameter, the largest first


def importance_of(trials: Trials) -> tuple[Importance | None, str]:
    """The importance of each parameter; or None, and why not.

    A random forest learns the scores from four fifths of the trials at a time. The share of a
    parameter is half of what the forest's squared error on the other fifth grows by when the
    parameter's values are shuffled there: the variance that goes with it, alone or together with
    others (Sobol's total index). A value of a list counts as its place, -1 where it did not matter;
    a score of what did not learn as `Trials.worst`.
    """
    names = [name for name in trials.searched if len(trials.tried(name)) > 1]
    if len(names) < 2:
        return None, "Fewer than two parameters took different values."
    if len(trials.completed) < LEAST_TRIALS:
        return None, (
            f"{len(trials.completed)} completed trials are too few to tell parameters from luck: "
            f"at least {LEAST_TRIALS} are needed."
        )
    if importlib.util.find_spec("sklearn") is None:
        return None, 'scikit-learn is not installed: pip install "keras-sentmatch[tuner]".'
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import KFold

    values = np.nan_to_num(np.stack([trials.places(name) for name in names], axis=1), nan=-1.0)
    scores = np.array([row["score"] for row in trials.completed])
    scores = np.where(trials.learned(scores), scores, trials.worst)
    variance = float(scores.var())
    if not variance:
        return None, "All trials have the same score."
    error = 0.0
    growth = np.zeros(len(names))
    for learned, held in KFold(FOLDS, shuffle=True, random_state=0).split(values):
        forest = RandomForestRegressor(TREES, random_state=0).fit(values[learned], scores[learned])
        error += float(((forest.predict(values[held]) - scores[held]) ** 2).sum())
        found = permutation_importance(
            forest,
            values[held],
            scores[held],
            scoring="neg_mean_squared_error",
            n_repeats=REPEATS,
            random_state=0,
        )
        growth += len(held) * found.importances_mean
    explained = 1 - error / len(scores) / variance
    if explained <= 0:
        return None, (
            "A random forest does not predict the scores of trials that it did not learn from: what "
            "the scores depend on, these trials do not show."
        )
    shares = dict(zip(names, (growth / len(scores) / variance / 2).tolist()))
    return Importance(explained, dict(sorted(shares.items(), key=lambda item: -item[1]))), ""
