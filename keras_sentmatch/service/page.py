"""The page at `/`: two boxes, the answer, what it is based on, and what was asked before."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from keras_sentmatch.display.rendering import content_policy, render_page
from keras_sentmatch.service.limits import Limits

SCRIPT = "service.js"
POLICY = f"{content_policy(SCRIPT, asks=True)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def draw_page(
    runs: Sequence[dict[str, Any]], limits: Limits, examples: Sequence[tuple[str, str]] = ()
) -> str:
    """The page for runs, given by their facts, with pairs to try."""
    return render_page(
        "service.html",
        "Compare two sentences",
        script_file=SCRIPT,
        asks=True,
        runs=runs,
        examples=examples,
        facts={"runs": runs, "limits": asdict(limits)},
    )
