"""
# From a table of pairs to a service

Ten minutes from a file with two columns of sentences and one of labels to a service that answers only where it is
right nine times out of ten. Everything runs on a CPU.

```bash
pip install -e ".[tensorflow,frames,serve]"
```

## The pairs

Take your own file, or this one: questions of a help desk, of which some ask the same in other words. One label in
twenty-five is wrong, as in real files. The names of the columns are up to you.
"""

import random

import pandas as pd

PAIRS, EPOCHS = 1000, 3  # in a test: 300, 1
ACTIONS = {
    "change": ("change", "update", "edit"),
    "delete": ("delete", "remove", "get rid of"),
    "find": ("find", "look up", "see"),
    "send": ("send", "forward", "email"),
    "print": ("print", "get a paper copy of", "make a printout of"),
}
THINGS = "address invoice order password profile ticket photo contract card report".split()
FRAMES = ("How do I {}?", "How can I {}?", "I would like to {}.", "Is there a way to {}?")
choose = random.Random(0).choice


def question(action: str, thing: str) -> str:
    return choose(FRAMES).format(f"{choose(ACTIONS[action])} my {thing}")


rows = []
for _ in range(PAIRS):
    action, thing = choose(list(ACTIONS)), choose(THINGS)
    other = choose([(action, thing), (choose(list(ACTIONS)), thing), (action, choose(THINGS))])
    same = (other == (action, thing)) != (choose(range(25)) == 0)
    verdict = "same" if same else "different"
    rows.append((question(action, thing), question(*other), verdict))
frame = pd.DataFrame(rows, columns=["question", "other", "verdict"])
frame.to_csv("questions.csv", index=False)
print(frame.head(4).to_string(index=False))

"""
## Train

`load_pairs` splits the file into training, validation and test pairs. Three in ten pairs validate here, because a
later step needs them. `train` writes a run folder: the model, its words and labels, the metrics and a model card.
"""

from keras_sentmatch.data import load_pairs
from keras_sentmatch.training import load_recipe, train

splits = load_pairs(
    "questions.csv",
    sentence1="question",
    sentence2="other",
    label="verdict",
    fractions=[0.6, 0.3, 0.1],
)
recipe = load_recipe("hybrid", "questions", overrides=[f"training.epochs={EPOCHS}"])
result = train(recipe, splits, "runs/questions")
for part in ("validation", "test"):
    print(part, "accuracy", round(result.metrics[part]["accuracy"], 3))

"""
The same on the command line: `keras-sentmatch train --data questions.csv --columns question,other,verdict --out
runs/questions`. It also prints the accuracy of a bag of words: a model that is no better has learned nothing about
pairs.

## Ask

A run folder is loaded on any backend. Predictions have names, not numbers.
"""

from keras_sentmatch import Matcher

matcher = Matcher.load("runs/questions")
print(matcher.predict(sentence1="How do I edit my order?", sentence2="I want to change my order."))
answered = matcher.predict(frame[:4], sentence1="question", sentence2="other")
print(answered[["question", "other", "label"]].to_string(index=False))

"""
## Answer only when confident

`calibrate` fits a temperature, so that a probability of 0.9 means nine in ten, and finds for each label the
probability from which predictions reach the precision asked for. Below it the matcher abstains. The test pairs took
no part in this, so they show what to expect.
"""

from keras_sentmatch import InputError

try:
    matcher.calibrate(splits["validation"], precision=0.9)
except InputError as error:
    print(error)  # too few pairs, or a precision that no threshold reaches
else:
    matcher.save("runs/questions")
metrics = matcher.evaluate(splits["test"])
print({name: round(metrics[name], 3) for name in ("coverage", "accuracy") if name in metrics})

"""
## Serve

`keras-sentmatch serve runs/questions` answers over HTTP, and has a page to try pairs. Here it is started from Python and
asked once.
"""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PORT = 8017
command = Path(sys.executable).with_name("keras-sentmatch")
service = subprocess.Popen([command, "serve", "runs/questions", "--port", str(PORT)])
request = urllib.request.Request(
    f"http://127.0.0.1:{PORT}/predict",
    json.dumps(
        {"sentence1": "Can I delete my photo?", "sentence2": "How do I print my photo?"}
    ).encode(),
    {"Content-Type": "application/json"},
)
try:
    while service.poll() is None:
        try:
            print(urllib.request.urlopen(request).read().decode())
            break
        except OSError:  # not yet there
            time.sleep(0.5)
    else:
        raise SystemExit("The service has ended.")
finally:
    service.terminate()
    service.wait()

"""
## Next

- [Explain](../explain.md) a prediction; [audit](../audit.md) the labels before you collect more.
- [Export](../export.md) the run as a TensorFlow SavedModel or to ONNX, which answer without this library.
- [Serving](../serving.md) has limits, keys and metrics; [security](../security.md) says what they protect from.
"""
