"""Do the papers' mechanisms act? Each setting is trained next to a base, and compared pair by pair.

    python benchmarks/hypotheses.py --data data --question drr_net --seeds 3
    python benchmarks/hypotheses.py --data data --question din --pairs 50000

A question is a model, a data set, the settings of the base, and the settings that vary. Finished trainings lie under
`--out`, and the same command goes on with those that are missing. When a question is complete, its rows are added to
`results/hypotheses.csv`: difference from the base, 95% interval over pairs and seeds, and the verdict.
"""

import argparse
from pathlib import Path
from typing import Any

import measuring

from keras_sentmatch.analysis import ablate
from keras_sentmatch.data import load_pairs, natural_logic_pairs
from keras_sentmatch.training import load_recipe

WORDS = 'encoder.features=["word"]'  # the other features cost half of the time
SMALL = ["model.units=100", "model.depth=1", WORDS]
ALONE = [*SMALL, "model.use_global=false"]
FA, SFA = "model.feature_attention=fa", "model.feature_attention=sfa"
CONFIG = "model.feature_attention_config"
BLOCKS: dict[str, list[str]] = {
    "none": [],
    "fa": [FA],
    "sfa": [SFA],
    "sfa, residual": [SFA, f"{CONFIG}={{residual=true}}"],
    "sfa, softmax of the logits": [SFA, f"{CONFIG}={{pre_sigmoid=true}}"],
    "sfa, no selection": [SFA, f"{CONFIG}={{selection=false}}"],
}
HOSTS = ("re2", "esim", "drcn", "diin", "bimpm", "cafe")
# question: (model, data, epochs, base and variants). The first of the settings is the base.
QUESTIONS: dict[str, tuple[str, str, int, dict[str, list[str]]]] = {
    "drr_net: what is compared": (
        "drr_net", "sick", 12,
        {
            "global and re-read": SMALL,
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
            "T = 6, coverage": [*ALONE, "model.coverage=true"],
            "T = 6, beta = 1": [*ALONE, "model.beta=1.0"],
        },
    ),
    "drcn: autoencoder": (
        "drcn", "sick", 10,
        {
            "autoencoder": [WORDS, "model.units=50"],
            "none": [WORDS, "model.units=50", "model.preset=table6_2_no_autoencoder"],
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
    parser.add_argument("--pairs", type=int, default=10_000, help="Number of generated pairs.")
    parser.add_argument("--out", type=Path, default=Path("hypotheses"))
    given = parser.parse_args()
    results = measuring.Results("hypotheses")
    wanted = tuple(given.question or [""])
    for question, (model, name, epochs, settings) in QUESTIONS.items():
        if question.startswith(wanted):
            answer(question, model, name, epochs, settings, given, results)


def answer(
    question: str,
    model: str,
    name: str,
    epochs: int,
    settings: dict[str, list[str]],
    given: argparse.Namespace,
    results: Any,
) -> None:
    """Train what is missing of a question, and add its rows."""
    if name == "generated":
        sizes = {"train": given.pairs, "validation": 1000, "test": 4000}
        pairs: Any = {
            part: natural_logic_pairs(size, seed=seed, split=part)  # type: ignore[arg-type]
            for seed, (part, size) in enumerate(sizes.items())
        }
        name = f"generated {given.pairs:,}"
    else:
        pairs = load_pairs(f"{name}:{given.data / name}")
    recipes = {
        setting: load_recipe(model, name, overrides=[f"training.epochs={epochs}", *overrides])
        for setting, overrides in settings.items()
    }
    folder = given.out / "".join(c if c.isalnum() else "-" for c in f"{question} {name}")
    report = ablate(recipes, pairs, folder, seeds=given.seeds, folds=given.folds)
    means = {one["name"]: one for one in report["matchers"]}
    base = next(iter(settings))
    for pair in report["pairs"]:
        key = {"question": question, "data": name, "setting": pair["first"], "base": base}
        figures = {key: f"{pair[key]:.4f}" for key in ("difference", "low", "high", "p")}
        accuracies = {
            "accuracy": f"{means[pair['first']]['mean']:.4f}",
            "base_accuracy": f"{means[base]['mean']:.4f}",
        }
        facts = {"seeds": given.seeds, "folds": given.folds, "rows": report["rows"]}
        smallest = f"{report['smallest_difference']:.4f}"
        results.add(
            {
                **key,
                **facts,
                **accuracies,
                **figures,
                "smallest": smallest,
                "verdict": pair["verdict"],
            }
        )


if __name__ == "__main__":
    main()
