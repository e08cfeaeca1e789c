"""Python processes of their own, on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.export.examples import Examples


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs Python on the CPU; what it prints is captured.

    Args:
        *arguments: What comes after `python`.
        **environment: Environment variables, beside those of this process.

    Returns:
        The finished process.
    """
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | quiet | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


def last_lines(done: subprocess.CompletedProcess, count: int = 2) -> str:
    """The end of what a failed process said."""
    lines = (done.stderr or done.stdout).strip().splitlines()[-count:]
    return " / ".join(lines) or f"it ended with {done.returncode} and said nothing"


def ask_stranger(
    script: Path, folder: Path, examples: Examples, work: Path
) -> dict[str, dict[str, Any]]:
    """What a process that knows nothing of this library reads from an artefact.

    Args:
        script: Asks the artefact: reads `sentences.json` and `arrays.npz` in `work` and writes
            `answers.npz` there, an array for each signature and output called SIGNATURE/OUTPUT.
        folder: The artefact.
        examples: The pairs to ask it.
        work: A folder for the questions and the answers.

    Returns:
        Outputs by name, for each signature.

    Raises:
        InputError: The script failed.
    """
    sentences = {"sentence1": examples.sentence1, "sentence2": examples.sentence2}
    (work / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    np.savez(work / "arrays.npz", **examples.arrays)  # type: ignore[arg-type]
    done = run_python("-P", str(script), str(folder), str(work))
    if done.returncode:
        raise InputError(
            f"Nothing was exported, because what was written does not run: {last_lines(done)}."
        )
    found: dict[str, dict[str, Any]] = {}
    with np.load(work / "answers.npz") as answers:
        for name in answers.files:
            signature, output = name.rsplit("/", 1)
            found.setdefault(signature, {})[output] = answers[name]
    return found
