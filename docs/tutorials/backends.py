"""
# The same weights on TensorFlow, JAX and PyTorch

A run folder names no backend. Train where it is fastest, serve where it is allowed: the probabilities are the same to
1e-5. The backend is chosen when Keras is first used, so each one gets its own process here.

```bash
pip install -e ".[tensorflow,jax,torch]"
```

## Train on one

`KERAS_BACKEND` names the backend; the command line has `--backend`.
"""

import json
import os
import subprocess
import sys

PAIRS, EPOCHS = 600, 2  # in a test: 90, 1
TRAIN = f"""
from keras_sentmatch.data import natural_logic_pairs
from keras_sentmatch.training import load_recipe, train

splits = {{part: natural_logic_pairs({PAIRS}, seed=0, split=part) for part in ("train", "validation")}}
recipe = load_recipe("re2", "pairs", overrides=["training.epochs={EPOCHS}", "model.units=50"])
train(recipe, splits, "runs/re2")
"""


def run(code: str, backend: str) -> str:
    """Run code in a process with this backend, and return what it prints."""
    environment = os.environ | {"KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


run(TRAIN, "torch")

"""
## Load on all
"""

ASK = """
import json, keras
from keras_sentmatch import Matcher

answer = Matcher.load("runs/re2").predict(sentence1="All dogs run.", sentence2="Some animals move.")
print(json.dumps(answer["probabilities"]))
"""
answers = {
    name: json.loads(run(ASK, name).splitlines()[-1]) for name in ("torch", "tensorflow", "jax")
}
for name, answer in answers.items():
    print(f"{name:10s}", {label: round(p, 6) for label, p in answer.items()})

first = answers["torch"]
worst = max(abs(answer[label] - first[label]) for answer in answers.values() for label in first)
assert worst < 1e-5
print(f"largest difference: {worst:.0e}")

"""
## Which is fastest?

[How fast](../results/how-fast.md) has all models on the three backends. On a CPU none of them is as fast as the ONNX
engine: `keras_sentmatch.load("runs/re2", engine="onnx")`. On JAX the first batches of each length are slow, because XLA
compiles once per shape.
"""
