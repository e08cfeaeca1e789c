"""Writes the figures that `keras-sentmatch models` shows, from the rows of other benchmarks.

    python benchmarks/model_figures.py

Accuracy on SICK's test pairs: with MiniLM as vectors or encoder where `quality.py` measured that,
else with other vectors; of several settings those with most seeds, of these the shortest. `hybrid`
and `bag_of_words` by the plain command, as `first_hour.py` measured them. Pairs per second in
training with TensorFlow, 64 of 32 words in a batch, from `speed.py`; models without a row keep theirs.
"""

import argparse
import csv
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import measuring

PAGE = Path(__file__).parents[1] / "keras_sentmatch" / "cli" / "figures.csv"
Row = dict[str, str]


def accuracies() -> dict[str, float]:
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in measuring.Results("quality").rows():
        if row["data"] == "sick" and row["backend"] == "tensorflow":
            settings = found.setdefault(row["model"], {})
            values = settings.setdefault((row["vectors"], row["settings"]), [])
            values.append(json.loads(row["test"])["accuracy"])

    def order(settings: dict[tuple[str, str], list[float]]) -> Callable[[tuple[str, str]], object]:
        return lambda key: ("minilm" in key[0], len(settings[key]), -len(key[1]))

    best = {name: settings[max(settings, key=order(settings))] for name, settings in found.items()}
    plain = [
        row
        for row in measuring.Results("first_hour").rows()
        if (row["part"], row["data"], row["size"], row["model"])
        == ("test", "sick", "all", "(default)")
    ]
    if plain:
        best["hybrid"] = [float(row["value"]) for row in plain]
        best["bag_of_words"] = [float(row["bag_of_words"]) for row in plain]
    return {name: 100 * statistics.mean(values) for name, values in best.items()}


def speeds() -> dict[str, float]:
    with open(PAGE, encoding="utf-8", newline="") as file:
        kept = {row["model"]: row["pairs_per_second"] for row in csv.DictReader(file)}
    found = {
        row["model"]: row["train_pairs_per_s"]
        for row in measuring.Results("speed").rows()
        if (row["label"], row["backend"], row["lengths"]) == ("after", "tensorflow", "full")
    }
    return {model: float(rate) for model, rate in (kept | found).items() if rate}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    sick, speed = accuracies(), speeds()
    with open(PAGE, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "sick", "pairs_per_second"])
        for name in sorted(sick.keys() | speed.keys()):
            one = f"{sick[name]:.1f}" if name in sick else ""
            writer.writerow([name, one, f"{speed[name]:.0f}" if name in speed else ""])
    print(PAGE.read_text("utf-8"), end="")


if __name__ == "__main__":
    main()
