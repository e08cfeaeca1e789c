"""The recipes of docs/streams.md for Ray and Spark, run as they are written there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_sentmatch.applications import ESIM
from keras_sentmatch.data import PairDataset, PairEncoder
from keras_sentmatch.inference import Matcher
from tests.harness import randomize

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.once, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [(f"a dog {i} runs", f"an animal {i % 7} moves") for i in range(3000)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the run and the pairs that the recipes name."""
    home = tmp_path_factory.mktemp("clusters")
    encoder = PairEncoder.fit(PairDataset(*zip(*PAIRS[:50])), features=("word",))
    model = ESIM(vocabulary_size=encoder.vocabulary_size, num_classes=3, embedding_dim=4, units=3)
    names = ("entailment", "neutral", "contradiction")
    Matcher(randomize(model), encoder, names, task="classification").save(
        home / "runs" / "drcn-embedded"
    )
    frame = pandas.DataFrame(PAIRS, columns=["sentence1", "sentence2"])
    frame.assign(id=range(len(PAIRS))).to_parquet(home / "pairs.parquet", row_group_size=500)
    return home


def recipe(name):
    """The block of Python under a heading of the page."""
    section = (ROOT / "docs" / "streams.md").read_text("utf-8").split(f"### {name}\n")[1]
    return re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0]


def run(code, home):
    """Runs a program in that folder, and returns the answers that it wrote."""
    shutil.rmtree(home / "answers", ignore_errors=True)
    (home / "recipe.py").write_text(code)
    variables = {
        "KERAS_BACKEND": keras.config.backend(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    subprocess.run(
        [sys.executable, "recipe.py"], cwd=home, env=os.environ | variables, check=True, timeout=500
    )
    return pandas.read_parquet(home / "answers")


def check(answers, home):
    """No pair is missing or there twice, and each is answered as a matcher does it."""
    assert len(answers) == len(PAIRS)
    found = {(row.sentence1, row.sentence2): row for row in answers.itertuples()}
    assert found.keys() == set(PAIRS)
    matcher = Matcher.load(home / "runs" / "drcn-embedded")
    for pair, expected in zip(PAIRS[::100], matcher.predict(PAIRS[::100])):
        shares = {name: getattr(found[pair], f"probability_{name}") for name in matcher.label_names}
        assert shares == pytest.approx(expected.probabilities, abs=1e-5)


def test_ray(home):
    pytest.importorskip("ray")
    answers = run(recipe("Ray Data"), home)
    check(answers, home)
    assert sorted(answers["id"]) == list(range(len(PAIRS)))


def test_a_worker_of_ray_that_is_killed_loses_nothing(home):
    pytest.importorskip("ray")
    code = recipe("Ray Data").replace("batch_size=4096", "batch_size=250")
    dies = """
import os
from pathlib import Path

class Dies(BatchScorer):
    def __call__(self, table):
        if 1000 in table["id"] and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), 9)
        return super().__call__(table)
"""
    code = code.replace("import BatchScorer\n", f"import BatchScorer\n{dies}")
    code = code.replace("    BatchScorer, fn", "    Dies, fn")
    code = code.replace('Path("died")', repr(home / "died").replace("Posix", ""))
    check(run(code, home), home)
    assert (home / "died").exists()


def test_spark(home):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    check(run(recipe("PySpark"), home), home)
