"""
# Repeat a paper's table and look inside

Each table and figure of the five papers is one command. The real data are some clicks away (see
[Data](../data.md)); here a table runs on generated pairs, which shows the way but not the paper's numbers.

## A table

A data set is a folder with its official files. This one has generated pairs in the files of SICK.
"""

from pathlib import Path

from keras_sentmatch.data import natural_logic_pairs

SIZES, EPOCHS = (800, 150, 300), 3  # in a test: (60, 30, 30), 1
FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
Path("data/sick").mkdir(parents=True)
for part, file, size in zip(("train", "validation", "test"), FILES, SIZES):
    pairs = natural_logic_pairs(size, seed=0, split=part)
    lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
    for one, two, label in zip(pairs.sentence1, pairs.sentence2, pairs.labels):
        lines.append(f"{len(lines)}\t{one}\t{two}\t3.0\t{pairs.label_names[label].upper()}")
    Path("data/sick", file).write_text("\n".join(lines) + "\n")

"""
An artefact is a TOML file, so a table of your own is one, too. This one asks what the co-attention of a small DRCN is
good for, with a single seed.
"""

from keras_sentmatch.reproduction import list_artefacts, reproduce

print(len(list_artefacts()), "artefacts of the papers, such as", *list_artefacts()[:3])
Path("table.toml").write_text(
    """
title = "Co-attention in DRCN"
place = "ours"
seeds = 1
columns = [
  {name = "accuracy", data = "sick", part = "test", metric = "accuracy"},
  {name = "parameters", data = "sick", metric = "parameters"},
]
rows = [
  {name = "DRCN, 2 layers", model = "drcn", set = ["model.depth=2", "model.units=32"]},
  {name = "without attention", model = "drcn", set = ["model.depth=2", "model.units=32", "model.attention=false"]},
]
"""
)
reproduce("table.toml", "data", "made", epochs=EPOCHS, progress=False)
print(Path("made/table.md").read_text().partition("\n")[2].strip())

"""
On the command line: `keras-sentmatch reproduce drcn/table-6 --data data --on sick --seeds 3`. It trains each row, writes
the table next to the paper's numbers, and continues where it was stopped. [The papers' tables](../papers/index.md) has what
came out.

## Inside the model

`explain` shows what a prediction is based on: the words whose removal changes it, and the model's own attention.
"""

from keras_sentmatch import Matcher, explain

runs = sorted(Path("made").glob("**/matcher.json"), key=lambda path: path.stat().st_mtime)
matcher = Matcher.load(runs[0].parent)  # of the first row
explanation = explain(matcher, "All dogs are running.", "No animal is moving.")
print(explanation.summary())
explanation.save("explanation.html")

"""
`explanation.html` is the whole page. The arrays are there, too: this is the attention of the last layer from the words
of sentence 1 to those of sentence 2.
"""

from matplotlib.figure import Figure

attention = explanation.values["attention_1"][-1]
figure = Figure(figsize=(5, 3), layout="constrained")
axis = figure.subplots()
axis.imshow(attention, cmap="Blues")
axis.set_xticks(range(attention.shape[1]), explanation.tokens["2"], rotation=45)
axis.set_yticks(range(attention.shape[0]), explanation.tokens["1"])
figure.savefig("attention.png", dpi=110)

"""
## Does it act?

A picture of attention looks the same whether the model needs it or not. `probe` replaces a mechanism by its mean and
counts the predictions that change.
"""

from keras_sentmatch.explanations import probe

report = probe(matcher, natural_logic_pairs(200, seed=5, split="test"))
print("\n".join(report.summary()))
