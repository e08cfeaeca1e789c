"""The README.md of a run folder: what was trained, and what was measured. Nothing in it is typed by
hand."""

from collections.abc import Mapping
from typing import Any

from keras_sentmatch.training.recipe import Recipe


def model_card(
    metrics: Mapping[str, Any], recipe: Recipe, label_names: tuple[str, ...] | None
) -> str:
    """The card as Markdown.

    Args:
        metrics: What `metrics.json` holds.
        recipe: The recipe of the run.
        label_names: Names of the classes, or None for a score.

    Returns:
        Markdown text.
    """
    data = metrics["data"] or "own data"
    answers = ", ".join(label_names) if label_names else "one score"
    rows = ", ".join(f"{role} {count:,}" for role, count in metrics["rows"].items())
    vectors = metrics.get("vectors")
    lines = [
        f"# {metrics['model']} on {data}",
        "",
        f"A {metrics['task']} matcher of sentence pairs, trained with keras_sentmatch. "
        f"It answers: {answers}.",
        "",
        "```python",
        "from keras_sentmatch import Matcher",
        "",
        'matcher = Matcher.load("THIS FOLDER")',
        'matcher.predict(sentence1="A dog runs.", sentence2="An animal moves.")',
        "```",
        "",
        "## Measured",
        "",
        *_table(metrics),
        "",
        f"The epoch was chosen by {metrics['monitor']} (epoch {metrics['best_epoch']} of "
        f"{metrics['epochs']}{', stopped by Ctrl-C' if metrics['interrupted'] else ''}); "
        "the figures are those of one run with one seed.",
        "",
        "## Facts",
        "",
        f"- Pairs: {rows}",
        f"- Parameters: {metrics['parameters']:,}, without the word embeddings "
        f"{metrics['parameters_without_word_embeddings']:,}",
        f"- Word vectors: {vectors['source'] + ', ' + vectors['coverage'] if vectors else 'none'}",
        *_teacher(metrics.get("teacher")),
        f"- Sentences: {metrics['encoding']}",
        f"- Backend {metrics['backend']}, seed {metrics['seed']}, {metrics['seconds']} s; "
        + ", ".join(f"{name} {version}" for name, version in metrics["versions"].items()),
        "",
        "## Recipe",
        "",
        "```toml",
        recipe.to_toml().rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _teacher(facts: Mapping[str, Any] | None) -> list[str]:
    if facts is None:
        return []
    figure = facts["validation"]["primary"]
    return [
        f"- Teacher: {', '.join(facts['models'])} ({facts['parameters']:,} parameters; validation {figure} "
        f"{facts['validation'][figure]:.4f}), {facts['weight']} of the loss at temperature {facts['temperature']}"
        + (f", {facts['unlabelled']:,} further pairs without labels" if facts["unlabelled"] else "")
    ]


def _table(metrics: Mapping[str, Any]) -> list[str]:
    columns = {role: metrics[role] for role in ("validation", "test") if role in metrics}
    for role, figures in metrics.get("baseline", {}).items():
        columns[f"{role}, bag of words"] = figures
    names = dict.fromkeys(name for figures in columns.values() for name in figures)
    table = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in names:
        if name != "primary":
            cells = [_cell(figures.get(name)) for figures in columns.values()]
            table.append(f"| {name} | {' | '.join(cells)} |")
    return table


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
