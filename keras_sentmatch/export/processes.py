"""Python processes of their own, on the CPU."""

import os
import subprocess
import sys


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
