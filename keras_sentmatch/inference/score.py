"""Scores pairs of raw sentences with the model next to this file. Needs NumPy and onnxruntime.

    python score.py "A dog runs." "An animal moves."

A model.tflite needs ai-edge-litert or TensorFlow instead of onnxruntime, and a saved_model.pb needs
TensorFlow. Byte pairs (RoBERTa) also need tokenizers, and SentencePiece (XLM-RoBERTa and others)
sentencepiece.
"""

import json
import re
import runpy
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Pairs = Sequence[tuple[str, str]]
Arrays = dict[str, np.ndarray]


class Words:
    """Turns sentences into the ids of words and their characters."""

    def __init__(self, facts: dict[str, Any], folder: Path) -> None:
        self.facts = facts
        self.clean = {int(code): text for code, text in facts["clean"].items()}
        self.ids, self.characters = (
            {entry: i for i, entry in enumerate(read_lines(folder / name)) if i > 1}
            for name in ("vocabulary.txt", "characters.txt")
        )
        self.lent: dict[str, int] = {}  # unseen words, with rows behind the vocabulary
        self.antonyms = {pair for a, b in facts["antonyms"] for pair in ((a, b), (b, a))}

    def arrays(self, pairs: Pairs, inputs: Sequence[str]) -> Arrays:
        """Return the arrays of the `inputs` by name."""
        facts, arrays = self.facts, {}
        sides = [
            [self.tokens(text)[: facts["max_length"]] for text in side] for side in zip(*pairs)
        ]
        length = max([1, *(len(tokens) for side in sides for tokens in side)])
        for name in inputs:
            kind, _, side = name.rpartition("_")
            these, others = sides if side == "1" else sides[::-1]
            letters = facts["max_word_length"]
            depth = (letters,) if kind == "char_ids" else ()
            found = arrays[name] = np.zeros((len(pairs), length, *depth), "int32")
            for row, (tokens, other) in enumerate(zip(these, others)):
                if kind == "word_ids":
                    ids = self.ids | self.lent if self.lent else self.ids
                    found[row, : len(tokens)] = [ids.get(token, 1) for token in tokens]
                    continue
                for i, token in enumerate(tokens):
                    if kind == "antonym":
                        found[row, i] = any((token, word) in self.antonyms for word in other)
                    else:
                        kept = token[:letters]
                        found[row, i, : len(kept)] = [self.characters.get(c, 1) for c in kept]
        return arrays

    def tokens(self, text: str) -> list[str]:
        """Split a sentence into words by the rules that the model was trained with."""
        text = unicodedata.normalize(self.facts["normalization"], text).translate(self.clean)
        for pattern, replacement in self.facts["rules"]:
            text = re.sub(pattern, replacement, text)
        return text.split()

    def unseen(self, pairs: Pairs) -> list[str]:
        """Return the words of pairs that are not in the vocabulary."""
        texts = (text for pair in pairs for text in pair)
        words = (w for text in texts for w in self.tokens(text)[: self.facts["max_length"]])
        special = "[PAD]", "[UNK]"
        return [w for w in dict.fromkeys(words) if w not in self.ids and w not in special]


class UnseenWords:
    """Fills the spare rows of the model's word tables for words outside the vocabulary."""

    def __init__(self, facts: dict[str, Any], folder: Path, words: Words) -> None:
        module = runpy.run_path(str(folder / "word_lookup.py"))
        self.lookup = module["WordLookup"](**module["read_lookup"](folder / "word_table.npz"))
        self.facts, self.words = facts, words
        self.size = len(read_lines(folder / "vocabulary.txt"))
        content = (folder / "model.onnx").read_bytes()
        self.tables = {
            name: np.frombuffer(content, "<f4", int(np.prod(shape)), start).reshape(shape).copy()
            for name, (start, shape) in facts["places"].items()
        }

    def lend(self, words: list[str]) -> Arrays:
        """Give words the spare rows; return the tables."""
        known, vectors = self.lookup.extract(words)
        self.words.lent = {word: self.size + i for i, word in enumerate(known)}
        negations = self.words.facts["negations"]
        facts = [(0, word.lower() in negations, any(map(str.isdigit, word))) for word in known]
        rows = {"vectors": vectors, "facts": np.reshape(np.array(facts, "float32"), (-1, 3))}
        for name, role in self.facts["tables"].items():
            self.tables[name][self.size : self.size + len(known)] = rows.get(role, 0)
        return self.tables


class Pieces:
    """Turns pairs of sentences into ids of pieces, as one sequence: [CLS] a [SEP] b [SEP]."""

    def __init__(self, facts: dict[str, Any], folder: Path) -> None:
        self.facts = facts

    def sentence(self, text: str) -> list[int]:
        """Return the ids of a sentence."""
        raise NotImplementedError

    def arrays(self, pairs: Pairs, inputs: Sequence[str]) -> Arrays:
        """Return the arrays of the `inputs` by name."""
        facts, rows = self.facts, []
        between = [facts["end"]] * facts["separators"]
        room = facts["max_length"] - 2 - len(between)
        for pair in pairs:
            a, b = map(self.sentence, pair)
            first = min(len(a), max(room - room // 2, room - len(b)))  # truncate the longer one
            a, b = a[:first], b[: room - first]
            rows.append(([facts["start"], *a, *between], [*b, facts["end"]]))
        length = max(len(a) + len(b) for a, b in rows)
        ids = np.full((len(rows), length), facts["padding"], "int32")
        segments, real = np.zeros_like(ids), np.zeros_like(ids)
        for row, (a, b) in enumerate(rows):
            end = len(a) + len(b)
            ids[row, :end], real[row, :end] = a + b, 1
            segments[row, len(a) : end] = facts["segments"]
        arrays = {"token_ids": ids, "segment_ids": segments, "padding_mask": real}
        return {name: arrays[name] for name in inputs}


class WordPieces(Pieces):
    """BERT's word pieces."""

    def __init__(self, facts: dict[str, Any], folder: Path) -> None:
        super().__init__(facts, folder)
        self.ids = {piece: i for i, piece in enumerate(read_lines(folder / "vocabulary.txt"))}
        self.clean = {int(code): text for code, text in facts["clean"].items()}
        ranges = (f"\\U{low:08x}-\\U{high:08x}" for low, high in facts["separating"])
        self.separating = re.compile(f"[{''.join(ranges)}]")
        self.unknown = [facts["unknown"]]
        self.known: dict[str, list[int]] = {}  # pieces of earlier words

    def sentence(self, text: str) -> list[int]:
        ids = []
        text = "".join(char for char in text if ord(char) <= self.facts["last"])
        text = self.separating.sub(r" \g<0> ", text.translate(self.clean))
        for word in text.split():
            if word not in self.known:
                if len(self.known) >= 100_000:
                    self.known.clear()
                self.known[word] = self.pieces(word)
            ids += self.known[word]
        return ids

    def pieces(self, word: str) -> list[int]:
        if len(word.encode("utf-8")) > 100:
            return self.unknown
        ids: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = (self.facts["suffix"] if start else "") + word[start:end]
                if piece in self.ids:
                    break
            else:
                return self.unknown
            ids.append(self.ids[piece])
            start = end
        return ids


class BytePairs(Pieces):
    """RoBERTa's byte pairs; needs the package tokenizers."""

    def __init__(self, facts: dict[str, Any], folder: Path) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers

        super().__init__(facts, folder)
        pairs = json.loads((folder / "byte_pairs.json").read_text("utf-8"))
        merges = [tuple(merge) for merge in pairs["merges"]]
        unknown = "<unk>" if "<unk>" in pairs["vocabulary"] else None
        self.bpe = Tokenizer(models.BPE(pairs["vocabulary"], merges, unk_token=unknown))
        self.bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=facts["prefix_space"])

    def sentence(self, text: str) -> list[int]:
        found: list[int] = self.bpe.encode(encodable(text)).ids
        return found


class SentencePieces(Pieces):
    """SentencePiece, as in XLM-RoBERTa; needs the package sentencepiece."""

    def __init__(self, facts: dict[str, Any], folder: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        super().__init__(facts, folder)
        content = (folder / "sentence_pieces.model").read_bytes()
        self.processor = SentencePieceProcessor(model_proto=content)
        self.plain = {facts[name] for name in ("start", "end", "padding")}

    def sentence(self, text: str) -> list[int]:
        facts, none = self.facts, self.processor.unk_id()
        text = encodable(text)
        if facts["without_accents"]:
            text = unicodedata.normalize("NFD", unicodedata.normalize("NFKD", text))
            text = "".join(char for char in text if unicodedata.category(char) != "Mn")
        text = text.lower() if facts["lowercase"] else text
        ids = [
            facts["unknown"] if i == none else i + facts["shift"]
            for i in self.processor.encode(text)
        ]
        return [facts["unknown"] if i in self.plain else i for i in ids]


ENCODERS: dict[str, Any] = {
    "words": Words,
    "word pieces": WordPieces,
    "byte pairs": BytePairs,
    "sentence pieces": SentencePieces,
}


def encodable(text: str) -> str:
    """Replace each lone surrogate by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


class Scorer:
    """The model of a folder: `Scorer()([("A dog runs.", "An animal moves.")])`."""

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        folder = Path(folder)
        self.facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        rules = self.facts["encoder"]
        self.encoder: Words | Pieces = ENCODERS[rules["kind"]](rules, folder)
        self.run = load_model(folder, self.facts["shape"])
        self.unseen_words = None
        if self.facts["spare_rows"] and isinstance(self.encoder, Words):
            self.unseen_words = UnseenWords(self.facts, folder, self.encoder)

    def scores(self, pairs: Pairs) -> np.ndarray:
        """Return probabilities [pairs, classes], or scores [pairs]."""
        tables: Arrays = {}
        if self.unseen_words is not None:
            unseen, rows = self.unseen_words.words.unseen(pairs), self.facts["spare_rows"]
            if len(unseen) > rows and len(pairs) > 1:
                half = len(pairs) // 2
                return np.concatenate([self.scores(pairs[:half]), self.scores(pairs[half:])])
            tables = self.unseen_words.lend(unseen[:rows])
        return self.run(self.encoder.arrays(pairs, self.facts["inputs"]) | tables)

    def __call__(self, pairs: Pairs) -> list[dict[str, Any]]:
        """Return one prediction per pair."""
        names, threshold = self.facts["label_names"], self.facts["threshold"]
        least = self.facts["abstain_below"]
        answers: list[dict[str, Any]] = []
        for row in self.scores(pairs).astype(float) if pairs else ():
            if names is None:
                answers.append({"score": row})
                continue
            chosen = row.argmax() if threshold is None else int(row[1] > threshold)
            answer = {"label": names[chosen], "probabilities": dict(zip(names, row))}
            if least and (abstained := bool(row[chosen] < least[chosen])):
                answer["label"] = None
            answers.append(answer | ({"abstained": abstained} if least else {}))
        return answers


def load_model(
    folder: Path, shape: tuple[int | None, int | None]
) -> Callable[[Arrays], np.ndarray]:
    """Return a function from arrays by name to the outputs of the model in a folder.

    A model that takes only one pair at a time gets the pairs one by one, padded to its length.
    """
    run, (pairs, length) = runtime(folder), shape
    if pairs is None:
        return run

    def one_by_one(arrays: Arrays) -> np.ndarray:
        rows = []
        for i in range(len(next(iter(arrays.values())))):
            row = {name: x[i : i + 1] for name, x in arrays.items()}
            if length is not None:
                row = {
                    name: np.pad(x, [(0, 0), (0, length - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
                    for name, x in row.items()
                }
            rows.append(run(row))
        return np.concatenate(rows)

    return one_by_one


def runtime(folder: Path) -> Callable[[Arrays], np.ndarray]:
    """Return a function that runs the model on arrays as they are."""
    if (folder / "model.onnx").exists():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # starting a thread takes longer than a pair
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        return lambda arrays: np.asarray(session.run(None, arrays)[0])
    if (folder / "saved_model.pb").exists():
        import tensorflow as tf

        loaded = tf.saved_model.load(str(folder))  # which holds the variables of its functions
        serve = loaded.signatures["serving_default"]

        def serving(arrays: Arrays, loaded: Any = loaded) -> np.ndarray:
            found = serve(**{name: tf.constant(x) for name, x in arrays.items()})
            return np.asarray(next(iter(found.values())).numpy())

        return serving
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        import tensorflow

        Interpreter = tensorflow.lite.Interpreter
    interpreter = Interpreter(model_path=str(folder / "model.tflite"))
    run = interpreter.get_signature_runner()
    return lambda arrays: next(iter(run(**arrays).values()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pair = sys.argv[1], sys.argv[2]
    print(json.dumps(Scorer()([pair])[0], ensure_ascii=False, indent=2))
