"""Ensembles: several runs that answer together."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.corpus import best_first
from keras_sentmatch.data import PairDataset, WordEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.matcher import Matcher, Prediction, named_answers
from keras_sentmatch.metrics import (
    apply_temperature,
    calibrate_predictions,
    evaluate_predictions,
)
from keras_sentmatch.metrics.calibration import check_calibration
from keras_sentmatch.pair_input import as_columns, as_dataset
from keras_sentmatch.run_folder import members_of, read_json, write_json
from keras_sentmatch.training.distillation import take_lessons
from keras_sentmatch.training.prepare import check_splits, jit_compile
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics
from keras_sentmatch.training.run import run_identity, train, with_seed

if TYPE_CHECKING:
    from keras_sentmatch.explain import Explanation


class EnsembleMatcher:
    """Answers with the mean of its members' probabilities (or scores).

    Members keep their own encoders and temperatures; they must answer the same label names in the
    same order. The temperature and the threshold of the ensemble are those of the mean: members
    that are calibrated by themselves make a mean that is not sure enough.

    Args:
        members: At least one matcher.
        temperature: As of `Matcher`, of the mean.
        threshold: As of `Matcher`, of the mean.

    Raises:
        InputError: No members, or members that answer different things.

    Example:

    ```python
    from keras_sentmatch.training import EnsembleMatcher

    ensemble = EnsembleMatcher.load("runs/eight")
    ensemble.evaluate(pairs)["accuracy"]
    ```
    """

    def __init__(
        self,
        members: Sequence[Matcher],
        *,
        temperature: float = 1.0,
        threshold: float | None = None,
    ) -> None:
        if not members:
            raise InputError("An ensemble of no matchers; give at least one.")
        for number, member in enumerate(members):
            if (member.label_names, member.task) != (members[0].label_names, members[0].task):
                raise InputError(
                    f"Member {number} answers {member!r}, member 0 {members[0]!r}; the members of "
                    "an ensemble must have the same task and the same labels in the same order."
                )
        self.members = list(members)
        self.label_names = members[0].label_names
        self.task = members[0].task
        check_calibration(temperature, threshold, len(self.label_names or ("score",)))
        self.temperature = temperature
        self.threshold = threshold

    @classmethod
    def load(
        cls,
        folders: str | os.PathLike | Sequence[str | os.PathLike],
        *,
        word_encoder: str | Path | None = None,
    ) -> "EnsembleMatcher":
        """Loads the folder that `train_ensemble` wrote, or several runs.

        Args:
            folders: The folder of an ensemble, with its calibration; or folders of runs.
            word_encoder: As for `Matcher.load`.
        """
        calibration: dict[str, Any] = {}
        if isinstance(folders, str | os.PathLike):
            noted = read_json(Path(folders) / "ensemble.json")
            calibration = {
                name: noted[name] for name in ("temperature", "threshold") if name in noted
            }
            folders = members_of(Path(folders))
        shared = None if word_encoder is None else WordEncoder(word_encoder)
        return cls([Matcher.load(folder, word_encoder=shared) for folder in folders], **calibration)

    def predict(
        self,
        pairs: Any = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        sentence2: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Prediction | list[Prediction]:
        """As `Matcher.predict`, by the mean of the members' scores."""
        dataset, single = as_dataset(pairs, sentence1, sentence2)
        answers = self.answers(self.predict_proba(dataset, batch_size=batch_size))
        return answers[0] if single else answers

    def predict_proba(self, pairs: Any = None, **arguments: Any) -> np.ndarray:
        """The mean of the members' `predict_proba`, whose arguments it takes, at the temperature."""
        return self._tempered(self._mean(pairs, **arguments))

    def answers(self, scores: np.ndarray) -> list[Prediction]:
        """Turns the array of `predict_proba` into named answers."""
        return named_answers(scores, self.label_names, self.threshold)

    def explain(self, pairs: Any = None, **arguments: Any) -> "Explanation | list[Explanation]":
        """As `Matcher.explain`; of an ensemble there is word erasure only, and no look inside."""
        from keras_sentmatch.explain import explain

        return explain(self, pairs, **arguments)

    def rank(
        self,
        query: str,
        candidates: Sequence[str],
        *,
        top_k: int | None = None,
        label: str | None = None,
        batch_size: int = 64,
    ) -> list[dict[str, Any]]:
        """As `Matcher.rank`, by the mean of the members' scores."""
        column = self.members[0].score_column(label)
        first, second = as_columns(query, candidates)
        scores = self.predict_proba(sentence1=first, sentence2=second, batch_size=batch_size)
        return best_first(scores if column is None else scores[:, column], second, top_k)

    def evaluate(self, dataset: PairDataset, *, batch_size: int = 64) -> dict[str, Any]:
        """The task's figures of the mean, as `Matcher.evaluate` gives them."""
        labelled = self.members[0].relabel(dataset)
        scores = self.predict_proba(labelled, batch_size=batch_size)
        return evaluate_predictions(labelled, scores, threshold=self.threshold)

    def calibrate(
        self,
        dataset: PairDataset,
        *,
        temperature: bool = True,
        threshold: str | None = None,
        batch_size: int = 64,
    ) -> dict[str, Any]:
        """As `Matcher.calibrate`, of the mean; the members stay as they are."""
        labelled = self.members[0].labelled_classes(dataset)
        report = calibrate_predictions(
            np.asarray(labelled.labels),
            self._mean(labelled, batch_size=batch_size),
            temperature=temperature,
            threshold=threshold,
        )
        self.temperature, self.threshold = report["temperature"], report["threshold"]
        return report

    def save(self, folder: str | os.PathLike) -> None:
        """Writes what `load` reads: the members into `seed-0`, `seed-1`, …, and `ensemble.json`, which makes it whole, last.

        Args:
            folder: A folder that holds no run yet.

        Raises:
            InputError: It holds one.
        """
        folder = Path(folder)
        if any((folder / name).exists() for name in ("ensemble.json", "matcher.json")):
            raise InputError(f"{folder} already holds a run; name another folder.")
        for number, member in enumerate(self.members):
            member.save(folder / f"seed-{number}")
        found = {"temperature": self.temperature, "threshold": self.threshold}
        write_json(folder / "ensemble.json", {"seeds": list(range(len(self.members))), **found})

    def _mean(self, pairs: Any, **arguments: Any) -> np.ndarray:
        return np.mean([m.predict_proba(pairs, **arguments) for m in self.members], axis=0)

    def _tempered(self, scores: np.ndarray) -> np.ndarray:
        return scores if self.label_names is None else apply_temperature(scores, self.temperature)

    def export(
        self, folder: str | os.PathLike, format: str = "saved_model", **options: Any
    ) -> dict[str, Any]:
        """Writes one artefact that answers with the members' mean; as `Matcher.export`."""
        from keras_sentmatch.export import export

        return export(self, folder, format, **options)


def train_ensemble(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    seeds: Sequence[int],
    **arguments: Any,
) -> tuple[EnsembleMatcher, dict[str, Any]]:
    """Trains one run a seed into `out/seed-N`, and measures each, their mean ± sd, and the
    ensemble.

    Args:
        recipe: What `load_recipe` gives.
        splits: As for `train`.
        out: Folder of the runs; gets `ensemble.json` too.
        seeds: Different seeds, at least one.
        **arguments: Further arguments of `train`. The baseline is trained once, with the first
            seed. With `resume` the seeds that are finished are kept, and the next one goes on.

    Returns:
        The ensemble, and what `ensemble.json` holds: the `seeds` trained, whether Ctrl-C ended it
        early (`interrupted`: the best of each seed so far is kept), and for each labelled split
        `members` (figures of each seed), `mean`, `sd` (of the sample, absent for one seed) and
        `ensemble`.

    Raises:
        InputError: No seeds, the same one twice, or what `train` refuses.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe, train_ensemble

    pairs = load_pairs("embedded")
    ensemble, figures = train_ensemble(load_recipe("drcn", "embedded"), pairs, "runs/e", range(8))
    ```
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds={seeds}; expected different seeds, at least one.")
    baseline = arguments.pop("baseline", True)
    results: list[tuple[Matcher, dict[str, Any]]] = []
    finished = read_json(Path(out) / "ensemble.json")
    if finished and not finished.get("interrupted"):
        raise InputError(f"{out} already holds an ensemble that is finished; name another folder.")
    if recipe.training["teacher"]:
        unlabelled = arguments.pop("unlabelled", None)
        check_splits(splits)
        arguments["lessons"] = take_lessons(
            recipe.training, splits, unlabelled, arguments.get("progress", True)
        )
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}"
        first = baseline and seed == seeds[0]
        done = finished_metrics(folder) if arguments.get("resume") else None
        if done is None:
            result = train(recipe, splits, folder, seed=seed, baseline=first, **arguments)
            results.append((result.matcher, result.metrics))
        else:
            lessons = arguments.get("lessons")
            check_identity(
                folder,
                done.get("identity", {}),
                run_identity(with_seed(recipe, seed), splits, lessons=lessons),
            )
            results.append((_as_trained(folder, recipe), done))
        if results[-1][1]["interrupted"]:
            break
    ensemble = EnsembleMatcher([matcher for matcher, _ in results])
    interrupted = results[-1][1]["interrupted"]
    report: dict[str, Any] = {"seeds": seeds[: len(results)], "interrupted": interrupted}
    for role in ("validation", "test"):
        if all(role in metrics for _, metrics in results):
            members = [metrics[role] for _, metrics in results]
            report[role] = {**_spread(members), "ensemble": ensemble.evaluate(splits[role])}
    write_json(Path(out) / "ensemble.json", report)
    return ensemble, report


def _as_trained(folder: Path, recipe: Recipe) -> Matcher:
    """The matcher of a run, compiled as it was in training: it gives the same figures."""
    matcher = Matcher.load(folder)
    matcher.model.jit_compile = jit_compile(recipe.training)
    return matcher


def _spread(members: list[dict[str, Any]]) -> dict[str, Any]:
    names = [n for n in members[0] if all(isinstance(m.get(n), float) for m in members)]
    values = {name: [member[name] for member in members] for name in names}
    spread: dict[str, Any] = {
        "members": members,
        "mean": {name: float(np.mean(v)) for name, v in values.items()},
    }
    if len(members) > 1:
        spread["sd"] = {name: float(np.std(v, ddof=1)) for name, v in values.items()}
    return spread
