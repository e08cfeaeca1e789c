"""Do the papers' mechanisms act? Each setting is trained next to a base, and compared pair by pair.

    python benchmarks/hypotheses.py --data data --question drr_net --seeds 3
    python benchmarks/hypotheses.py --data data --question din --pairs 10000,50000
    python benchmarks/hypotheses.py --data data --question 'feature attention: re2' --on msrp --folds 5
    python benchmarks/hypotheses.py --data data --question dabert --pairs 1000 --backbone FOLDER

A question is a model, a data set, the settings of the base, and the settings that vary. A setting that begins with the
name of a model is of this model. Finished trainings lie under `--out`, and the same command goes on with those that are
missing. A complete question adds rows to `results/hypotheses.csv`: difference from the base, 95% interval, verdict.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import measuring

from keras_sentmatch.analysis import ablate
from keras_sentmatch.applications import get_model_class
from keras_sentmatch.data import load_pairs, natural_logic_pairs
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import joined_splits

WORDS = 'encoder.features=["word"]'  # the other features cost half of the time
SMALL = ["model.units=100", "model.depth=1", WORDS]
ALONE = [*SMALL, "model.use_global=false"]
CONNECTED = ["model.units=50", "model.depth=3", "model.embedding_dropout=0.2", WORDS]
CONNECTED.append("training.batch_size=32")
FA, SFA = "model.feature_attention=fa", "model.feature_attention=sfa"
CONFIG = "model.feature_attention_config"
BLOCKS: dict[str, list[str]] = {
    "none": [WORDS],
    "fa": [FA, WORDS],
    "sfa": [SFA, WORDS],
    "sfa, residual": [SFA, WORDS, f"{CONFIG}={{residual=true}}"],
    "sfa, softmax of the logits": [SFA, WORDS, f"{CONFIG}={{pre_sigmoid=true}}"],
    "sfa, no selection": [SFA, WORDS, f"{CONFIG}={{selection=false}}"],
}

# The new layers' own rate next to a tenth of it for the backbone.
PLAIN, OWN = "training.learning_rate=1e-4", "training.backbone_learning_rate=1e-4"
HOSTS = ("re2", "esim", "drcn", "diin", "bimpm", "cafe")
# question: (model, data, epochs, base and variants). The first of the settings is the base.
QUESTIONS: dict[str, tuple[str, str, int, dict[str, list[str]]]] = {
    "drr_net: what is compared": (
        "drr_net", "sick", 12,
        {
            "global and re-read": SMALL,
            "global and re-read, beta = 1": [*SMALL, "model.beta=1.0"],
            "re-read alone": ALONE,
            "global alone": [*SMALL, "model.use_dynamic=false"],
        },
    ),
    "drr_net: steps, re-read alone": (
        "drr_net", "sick", 12,
        {
            "T = 1": [*ALONE, "model.steps=1"],
            "T = 2": [*ALONE, "model.steps=2"],
            "T = 6": ALONE,
            "T = 6, beta = 1": [*ALONE, "model.beta=1.0"],
        },
    ),
    "dabert: rates": (
        "dabert", "sick", 3,
        {
            "plain encoder": ["cross_encoder", PLAIN],
            "one rate": [PLAIN],
            "own rate 5e-4": [OWN, "training.learning_rate=5e-4"],
            "own rate 1e-3": [OWN, "training.learning_rate=1e-3"],
            "own rate 5e-4, random start": [
                OWN, "training.learning_rate=5e-4", "model.output_stddev=0.02"],
            "own rate 5e-4, random start, cross": [
                OWN, "training.learning_rate=5e-4", "model.output_stddev=0.02", "model.cross=true"],
        },
    ),
    "ladra_net: rates": (
        "ladra_net", "sick", 3,
        {
            "plain encoder": ["cross_encoder", PLAIN],
            "one rate": [PLAIN, "training.backbone_learning_rate=0"],
            "own rate 3e-4": [OWN, "training.learning_rate=3e-4"],
            "own rate 1e-3": [OWN, "training.learning_rate=1e-3"],
        },
    ),
    "drcn: autoencoder": (
        "drcn", "sick", 6,
        {
            "autoencoder": CONNECTED,
            "none": [*CONNECTED, "model.preset=table6_2_no_autoencoder"],
        },
    ),
    "din: dynamic weights": (
        "din", "generated", 10,
        {
            "static": ["model.preset=table2_static_20", WORDS],
            "dynamic": ["model.preset=table2_din1_20", WORDS],
            "dynamic, split": ["model.preset=table2_din1_20", "model.concat=split", WORDS],
        },
    ),
    **{f"feature attention: {host}": (host, "sick", 8, BLOCKS) for host in HOSTS},
}  # fmt: skip


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="Folder of the data sets.")
    parser.add_argument("--question", action="append", help="Beginning of a name. Default: all.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=0, help="For data without a test part.")
    parser.add_argument("--on", help="Data set, or generated. Default: that of the question.")
    parser.add_argument("--setting", action="append", help="A setting to compare. Default: all.")
    parser.add_argument("--pairs", default="0", help="Numbers of training pairs. 0: all.")
    parser.add_argument("--backbone", help="Folder or preset of the pretrained network.")
    parser.add_argument("--out", type=Path, default=Path("hypotheses"))
    given = parser.parse_args()
    results = measuring.Results("hypotheses")
    wanted = tuple(given.question or [""])
    for question, (model, name, epochs, settings) in QUESTIONS.items():
        if not question.startswith(wanted):
            continue
        base, *others = settings
        chosen = {one: settings[one] for one in (base, *(given.setting or others))}
        for count in map(int, given.pairs.split(",")):
            data = parts_of(given.on or name, count, given.data, bool(given.folds))
            answer(question, model, given.on or name, epochs, chosen, data, given, results)


def parts_of(name: str, count: int, root: Path, folds: bool) -> Any:
    """Return the parts of a data set with at most `count` training pairs; for folds, one part.

    That part has the training and validation pairs.
    """
    if name == "generated":
        sizes = {"train": count or 10_000, "validation": 1000, "test": 4000}
        return {
            part: natural_logic_pairs(size, seed=seed, split=part)  # type: ignore[arg-type]
            for seed, (part, size) in enumerate(sizes.items())
        }
    parts = dict(load_pairs(f"{name}:{root / name}"))
    if folds:
        parts["train"] = joined_splits(parts)
    if count:
        parts["train"] = parts["train"].limit(count)
    return parts["train"] if folds else parts


def answer(
    question: str,
    model: str,
    name: str,
    epochs: int,
    settings: dict[str, list[str]],
    data: Any,
    given: argparse.Namespace,
    results: Any,
) -> None:
    """Train what is missing of a question, and add its rows."""
    recipes = {
        setting: recipe_of(model, name, [f"training.epochs={epochs}", *overrides], given.backbone)
        for setting, overrides in settings.items()
    }
    pairs = len(data if given.folds else data["train"])
    folder = given.out / "".join(c if c.isalnum() else "-" for c in f"{question} {name} {pairs}")
    report = ablate(recipes, data, folder, seeds=given.seeds, folds=given.folds)
    means = {one["name"]: one for one in report["matchers"]}
    base = next(iter(settings))
    for pair in report["pairs"]:
        figures = {key: f"{pair[key]:.4f}" for key in ("difference", "low", "high", "p")}
        results.add(
            {
                **{"question": question, "data": name, "pairs": pairs},
                **{"setting": pair["first"], "base": base},
                **{"seeds": given.seeds, "folds": given.folds, "rows": report["rows"]},
                **accuracy_of("", means[pair["first"]]),
                **accuracy_of("base_", means[base]),
                **figures,
                "smallest": f"{report['smallest_difference']:.4f}",
                "verdict": pair["verdict"],
            }
        )


def accuracy_of(kind: str, matcher: dict[str, Any]) -> dict[str, str]:
    """Return the mean over the seeds, and its standard deviation."""
    sd = "" if matcher["sd"] is None else f"{matcher['sd']:.4f}"
    return {f"{kind}accuracy": f"{matcher['mean']:.4f}", f"{kind}sd": sd}


def recipe_of(model: str, data: str, overrides: list[str], backbone: str | None) -> Recipe:
    """Return the recipe of a setting; one without `=` among its overrides names its model."""
    names = [one for one in overrides if "=" not in one]
    name = names[0] if names else model
    changes = [one for one in overrides if "=" in one]
    if "backbone" in get_model_class(name).arguments() and backbone:
        changes.append(f"model.backbone={json.dumps(backbone)}")
    return load_recipe(name, data, overrides=changes)


if __name__ == "__main__":
    main()
