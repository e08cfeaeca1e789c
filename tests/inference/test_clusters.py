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
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference import Matcher
from tests.case import randomize

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow

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
    (home / "recipe.py").write_text(code)
    variables = {
        "KERAS_BACKEND": keras.config.backend(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "RAY_worker_niceness": "0",  # the normal priority, so that other tests do not starve them
    }
    subprocess.run(
        [sys.executable, "recipe.py"], cwd=home, env=os.environ | variables, check=True, timeout=500
    )


def check(home, name="answers"):
    """No pair is missing or there twice, and each is answered as a matcher does it."""
    answers = pandas.read_parquet(home / name)
    shutil.rmtree(home / name)
    assert len(answers) == len(PAIRS)
    found = {(row.sentence1, row.sentence2): row for row in answers.itertuples()}
    assert found.keys() == set(PAIRS)
    matcher = Matcher.load(home / "runs" / "drcn-embedded")
    for pair, expected in zip(PAIRS[::100], matcher.predict(PAIRS[::100])):
        shares = {name: getattr(found[pair], f"probability_{name}") for name in matcher.label_names}
        assert shares == pytest.approx(expected.probabilities, abs=1e-5)


# The second time, one of the workers is killed.
KILL = """
import os
from pathlib import Path

note = Path("died").resolve()

class Dies(BatchScorer):
    def __call__(self, table):
        if 1000 in table["id"] and not note.exists():
            note.touch()
            os.kill(os.getpid(), 9)
        return super().__call__(table)

answers = pairs.map_batches(
    Dies,
    fn_constructor_args=("runs/drcn-embedded",),
    compute=ray.data.ActorPoolStrategy(size=2),
    batch_size=250,
)
answers.write_parquet("again")
"""


def test_ray(home):
    pytest.importorskip("ray")
    run(recipe("Ray Data") + KILL, home)
    assert (home / "died").exists()
    check(home)
    check(home, "again")


def test_spark(home):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    run(recipe("PySpark"), home)
    check(home)
