"""An answer in sentences: the answer first, then the words that decided it."""

from collections.abc import Sequence

from keras_sentmatch.explanations.erasure import Effect, Erasure

Run = tuple[str, bool]  # text, and whether it stands out
MOST_NAMED = 4
NUMBERS = {1: "₁", 2: "₂"}


def summarize(
    label: str | None,
    score: float | None,
    probability: float | None,
    gold: str | float | None,
    erasure: Erasure | None,
    abstained: bool = False,
) -> list[list[Run]]:
    """Lines of runs of text. A small number after a word names its sentence."""
    if probability is None:
        lines = [[("The score is ", False), (f"{score:.4f}", True), (".", False)]]
    else:
        share = f", with a probability of {probability:.1%}."
        start = "No label is sure enough; the likeliest is " if abstained else "The answer is "
        lines = [[(start, False), (str(label), True), (share, False)]]
    if gold is not None:
        lines.append([("The data says ", False), (str(gold), True), (".", False)])
    if erasure is None:
        return lines
    found = erasure.deciding()
    if not found:
        lines.append([("No single word changes it much.", False)])
    for verb, sign in (("support", 1), ("oppose", -1)):
        if mine := [effect for effect in found if effect.change * sign > 0]:
            listed = _join(mine, ", ", numbered=True)
            lines.append([(f"Words that {verb} it: ", False), *listed, (".", False)])
    for answer, effects in erasure.turning():
        line = [("Without ", False), *_join(effects[:1], ""), (", the answer would be ", False)]
        line.append((answer, True))
        if others := effects[1:]:
            line += [("; the same holds for ", False), *_join(others[:MOST_NAMED], ", ")]
            if more := len(others[MOST_NAMED:]):
                line.append((f" and {more} other{'s' * (more > 1)}", False))
        lines.append([*line, (".", False)])
    return lines


def _join(effects: Sequence[Effect], between: str, numbered: bool = False) -> list[Run]:
    runs: list[Run] = []
    for effect in effects:
        number = f" {effect.change:{'+.2f' if abs(effect.change) >= 0.01 else '+.1g'}}"
        runs += [
            (between, False),
            (effect.word, True),
            (NUMBERS[effect.side] + number * numbered, False),
        ]
    return runs[1:]
