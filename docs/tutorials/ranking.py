"""
# Ranking answers with kept encodings

A question and many candidate answers: which answers it? Models that read each sentence alone before the two meet can
encode the candidates once and reuse the encodings for every question.
"""

import time

from keras_sentmatch.data import natural_logic_pairs
from keras_sentmatch.training import load_recipe, train

PAIRS, CANDIDATES, EPOCHS = 1200, 600, 3  # in a test: 90, 40, 1
splits = {
    "train": natural_logic_pairs(PAIRS, seed=0),
    "validation": natural_logic_pairs(300, seed=1, split="validation"),
}
settings = [f"training.epochs={EPOCHS}", "model.units=100"]
matcher = train(
    load_recipe("infersent", "pairs", overrides=settings), splits, "runs/ranker"
).matcher
print("can be split:", matcher.model.can_split)

"""
## Rank

The score of a candidate is the probability of a label.
"""

pairs = natural_logic_pairs(3 * CANDIDATES, seed=3)
candidates = list(dict.fromkeys(pairs.sentence2))[:CANDIDATES]
query = pairs.sentence1[0]
print("query:", query)
for best in matcher.rank(query, candidates, top_k=3, label="entailment"):
    print(f"{best['score']:.2f}  {best['sentence']}")

"""
## Encode once

`encode` runs the first half of the model over all candidates. `rank` accepts the result in the place of the
sentences. The scores are the same.
"""


def seconds(texts) -> float:
    """Processor time of the second query: the first one prepares the model."""
    for _ in range(2):
        start = time.process_time()
        ranked = matcher.rank(query, texts, top_k=3, label="entailment")
    assert ranked[0]["score"] > 0
    return time.process_time() - start


corpus = matcher.encode(candidates)
ratio = seconds(candidates) / seconds(corpus)
print(f"with encodings one query takes 1/{ratio:.0f} of the time")

"""
## A catalog on disk

With more than some ten thousand candidates, do not score all. An index on disk finds 100 candidates per query in
milliseconds, and the matcher scores these.
"""

from keras_sentmatch.corpus import Index

Index.build(candidates, "catalog", columns={"id": [f"no. {i}" for i in range(len(candidates))]})
index = Index("catalog", matcher)
for best in index.rank(query, top_k=3, label="entailment"):
    print(f"{best.score:.2f}  {best.id:8s}  {best.sentence}")

"""
## Train for ranking

Pairs with a column `question_id` train a ranking model, which is chosen by mean average precision: `keras-sentmatch
train esim --data answers.tsv`. Models that can be split are listed in [Models](../models.md#ranking), indexes in
[Corpora](../corpora.md#a-catalog-on-disk), and the speed of a million candidates in
[Results](../results/how-fast.md#ranking-a-catalog).
"""
