"""The TensorFlow process that exports what another backend saved: `python -m … JOB.json`."""

import json
import sys
from pathlib import Path

from keras_sentmatch.errors import InputError
from keras_sentmatch.exports.exporting import WRITERS
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher


def main(path: str) -> None:
    """Loads the runs of the job, writes the artifact, and then a report."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        members = [Matcher.load(run) for run in job["runs"]]
        ensemble = EnsembleMatcher(members, **job["calibration"])
        report = WRITERS[job["format"]](ensemble, Path(job["folder"]))
    except InputError as error:
        report = {"error": str(error)}
    Path(job["report"]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
