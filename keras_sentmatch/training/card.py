"""The README.md of a run folder: what was trained, and the results."""

from collections.abc import Mapping
from typing import Any

from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.training.recipe import Recipe


def model_card(
    metrics: Mapping[str, Any], recipe: Recipe, label_names: tuple[str, ...] | None
) -> str:
    """The card as Markdown."""
    columns = {role: metrics[role] for role in ("validation", "test") if role in metrics}
    for role, results in metrics.get("baseline", {}).items():
        columns[f"{role}, bag of words"] = results
    names = dict.fromkeys(name for results in columns.values() for name in results)
    rows = [
        [name, *(results.get(name) for results in columns.values())]
        for name in names
        if name != "primary"
    ]
    return render(
        "run_card.md",
        m=metrics,
        answers=", ".join(label_names) if label_names else "one score",
        results="\n".join(markdown_table(["", *columns], rows)),
        recipe=recipe.to_toml().rstrip(),
    )
