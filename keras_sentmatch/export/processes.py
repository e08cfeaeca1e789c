"""Fresh Python processes, on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.export.examples import Examples

SCRIPT = Path(__file__).with_name("fresh_process.py")


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS…` on the CPU with these environment variables; captures its output."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"} | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


def last_lines(done: subprocess.CompletedProcess[str], count: int = 2) -> str:
    """The last lines that a failed process printed."""
    lines = (done.stderr or done.stdout).strip().splitlines()[-count:]
    return " / ".join(lines) or f"it ended with status {done.returncode} and no message"


def ask_artifact(folder: Path, examples: Examples, work: Path) -> dict[str, dict[str, np.ndarray]]:
    """The answers of an artifact in a process that has only its runtime and NumPy.

    Args:
        folder: The artifact.
        examples: The pairs to answer.
        work: A folder for the questions and the answers.

    Returns:
        Outputs by name, for each signature.

    Raises:
        InputError: The artifact does not run.
    """
    sentences = {"sentence1": examples.sentence1, "sentence2": examples.sentence2}
    (work / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    np.savez(work / "arrays.npz", **examples.arrays)  # type: ignore[arg-type] # its allow_pickle
    done = run_python("-P", str(SCRIPT), str(folder), str(work))
    if done.returncode:
        raise InputError(f"Nothing was exported: the artifact does not run: {last_lines(done)}.")
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(work / "answers.npz") as answers:
        for name, array in answers.items():
            signature, output = name.rsplit("/", 1)
            found.setdefault(signature, {})[output] = array
    return found
