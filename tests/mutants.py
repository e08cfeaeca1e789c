"""Damaged and hostile files: small good ones, seeded changes to them, and what becomes of reading them.

`make_samples` writes the good files, `mutate` damages a copy of one, `read` does with it what users do. The property
test and `benchmarks/faults.py` share them.
"""

import gzip
import io
import json
import marshal
import random
import re
import shutil
import string
import warnings
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

CANARY = "sentmatch_canary_7f3a"  # stands in all code that is smuggled in
FIRST = ["a dog runs", "no cat sleeps in the park", "two cats", "the café opens", "it rains"]
SECOND = ["an animal moves", "a cat sleeps", "cats", "it is open", "the sun shines"]
NAMES = ("entailment", "neutral", "contradiction")
PAIRS = {"sentence1": [*FIRST, "", "x " * 50], "sentence2": [*SECOND, "a dog", "\u202eab"]}
WORDS = ["a", "dog", "cat", "cats", "paris", "the"]
SHARED = {"fractions": (0.4, 0.3, 0.3)}
PIECES = ["a", "dog", "run", "cat", "##s", "no", "it", "the", "move", "animal", "park"]
WORD_MODELS: dict[str, dict[str, Any]] = {
    "esim": {"units": 2},
    "cafe": {"char_filters": 2, "char_dim": 2, "units": 2},
    "diin": {
        "max_length": 8, "blocks": 1, "layers_per_block": 1, "growth_rate": 2, "char_filters": 2,
        "char_dim": 2,
    },
}  # fmt: skip
# How often a kind of sample is damaged, of 100 cases
SHARES = {
    "esim": 7, "cafe": 7, "diin": 6, "plain": 6, "pieces": 8, "ensemble": 5, "resume": 8,
    "recipe": 6, "lexicon": 2, "data": 31, "vectors": 14,
}  # fmt: skip

# Those that can be made with what is installed
KINDS = [kind for kind in SHARES if kind != "pieces" or find_spec("keras_hub")]

# === Good files ===


def make_samples(home: Path, kinds: Any = KINDS) -> None:
    """Writes a folder with good files for each of the kinds."""
    for kind in kinds:
        folder = home / kind
        folder.mkdir(parents=True)
        if kind in WORD_MODELS:
            _words(folder, kind)
        else:
            globals()[f"_{kind}"](folder)


def _encoder(**options: Any) -> Any:
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.encoders import PairEncoder

    return PairEncoder.fit(PairDataset(FIRST, SECOND), max_length=8, max_word_length=5, **options)


def _random(model: Any) -> Any:
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "float" in str(weight.dtype):
            weight.assign(rng.normal(0, 0.3, weight.shape))
    return model


def _words(folder: Path, name: str) -> None:
    """A run of one of the library's models on words, as training leaves it."""
    from keras_sentmatch.applications import build_model
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.inference.learned import LearnedPairs, pair_keys
    from keras_sentmatch.inference.matcher import Matcher

    features = ("word",) if name == "esim" else ("word", "char")
    encoder = _encoder(features=features)
    chars = {"char_vocabulary_size": len(encoder.characters), "max_word_length": 5}
    model = build_model(
        name,
        vocabulary_size=encoder.vocabulary_size,
        num_classes=3,
        embedding_dim=3,
        **(chars if "char" in features else {}),
        **WORD_MODELS[name],
    )
    source = {"data": "embedded", "format": None, "columns": None, "on_error": "raise"}
    keys, scores = pair_keys(PairDataset(FIRST, SECOND)), np.full((3, 3), 1 / 3, "float32")
    matcher = Matcher(
        _random(model),
        encoder,
        NAMES,
        task="classification",
        info={"source": source},
        learned=LearnedPairs(keys, scores, np.arange(3), np.arange(3)),
    )
    matcher.save(folder)
    metrics = {"identity": {"seed": 0}, "interrupted": False, "test": {"accuracy": 0.5}}
    (folder / "metrics.json").write_text(json.dumps(metrics))


def _plain(folder: Path) -> None:
    """A functional model of Keras's own layers, for two classes with a threshold."""
    from keras_sentmatch.inference.matcher import Matcher
    from tests.toys.training import build_tiny

    encoder = _encoder(features=("word",))
    model = build_tiny(
        "tiny", vocabulary_size=encoder.vocabulary_size, num_classes=2, embedding_dim=3
    )
    Matcher(_random(model), encoder, ("no", "yes"), task="ranking", threshold=0.4).save(folder)


def _pieces(folder: Path) -> None:
    """A cross-encoder on a tiny BERT."""
    from keras_hub.models import BertBackbone, BertTokenizer

    from keras_sentmatch.applications import build_model
    from keras_sentmatch.encoders import SubwordPairEncoder
    from keras_sentmatch.inference.matcher import Matcher

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertTokenizer([*specials, *PIECES], lowercase=True)
    backbone = BertBackbone(
        vocabulary_size=len(specials) + len(PIECES), num_layers=1, num_heads=2, hidden_dim=4,
        intermediate_dim=8, max_sequence_length=16,
    )  # fmt: skip
    model = build_model("cross_encoder", num_classes=3, backbone=backbone)
    encoder = SubwordPairEncoder(tokenizer, max_length=16)
    Matcher(_random(model), encoder, NAMES, task="classification").save(folder)


def _ensemble(folder: Path) -> None:
    """Two runs of a tiny model."""
    for seed in (0, 1):
        _plain(folder / f"seed-{seed}")
    report = {"seeds": [0, 1], "interrupted": False, "temperature": 1.5, "threshold": 0.5}
    (folder / "ensemble.json").write_text(json.dumps(report))


def _resume(folder: Path) -> None:
    """What a run that was cut off after two epochs leaves."""
    from keras_sentmatch.training.resume import (
        CHECKPOINT,
        State,
        best_weights,
        generator_states,
        save_weights,
        variables_of,
    )

    model = resumed_model()
    variables = {f"variable{i}": np.asarray(v) for i, v in enumerate(_numpy(variables_of(model)))}
    states = {f"generator_{name}": value for name, value in generator_states().items()}
    for epochs in (1, 2):
        history = {"loss": [0.5, 0.4][:epochs], "val_accuracy": [0.1, float("nan")][:epochs]}
        memory = {"EarlyStopping": {"best": 0.1, "wait": 1, "best_epoch": 0}}
        identity = {"training": {"epochs": 3}, "backend": "x"}
        state = State(epochs, False, 1, 0.1, history, memory, identity, {**variables, **states})
        state.save(folder / CHECKPOINT)
    save_weights(model, best_weights(folder, 1))


def resumed_model() -> Any:
    """The model of the run that was cut off."""
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.1)])
    model.compile("adam", "mse")
    return model


def _numpy(variables: list[Any]) -> list[np.ndarray]:
    from keras import ops

    return [ops.convert_to_numpy(v) for v in variables]


def _recipe(folder: Path) -> None:
    from keras_sentmatch.training import load_recipe

    (folder / "recipe.toml").write_text(load_recipe("esim", "snli").to_toml(), encoding="utf-8")


def _lexicon(folder: Path) -> None:
    (folder / "pairs.txt").write_text("hot cold\nbig small\n")


def _vectors(folder: Path) -> None:
    rows = [(w, np.arange(i, i + 4, dtype="<f4")) for i, w in enumerate([*WORDS, "Paris", "le"])]
    text = "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in rows)
    (folder / "glove.txt").write_text(text)
    (folder / "crawl.vec").write_text(f"{len(rows)} 4\n{text}")
    (folder / "crawl.vec.gz").write_bytes(gzip.compress(text.encode()))


def _data(folder: Path) -> None:
    """A folder for each format, with one file or its parts."""
    labels = [NAMES[i % 3] for i in range(len(FIRST))]
    plain = list(zip(FIRST, SECOND, labels)) * 4
    rows = [(f"{a} {i // 2}", b, label) for i, (a, b, label) in enumerate(plain)]
    parses = "(ROOT (NP (DT a) (NN dog)))"

    def table(head: str, line: Callable[[int, tuple], str]) -> str:
        return f"{head}\n" * bool(head) + "".join(f"{line(i, r)}\n" for i, r in enumerate(rows))

    def lines(record: Callable[[int, tuple], dict]) -> str:
        return "".join(json.dumps(record(i, r)) + "\n" for i, r in enumerate(rows))

    def nli(i: int, r: tuple) -> dict:
        sides = {"sentence1": r[0], "sentence2": r[1], "gold_label": r[2], "pairID": str(i)}
        return {**sides, "sentence1_parse": parses, "sentence2_parse": parses}

    scores = table("pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
                   lambda i, r: f"{i}\t{r[0]}\t{r[1]}\t4.5\t{r[2].upper()}")  # fmt: skip
    official = table("gold_label\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tpairID",
                     lambda i, r: f"{r[2]}\t{parses}\t{parses}\t{r[0]}\t{r[1]}\t{i}")  # fmt: skip
    answers = [
        {"question": q, "candidates": list(SECOND), "answers": [i]} for i, q in enumerate(FIRST)
    ]
    trecqa = "".join(
        f"<QApairs id='{i}'>\n<question>\n{q}\nx\n</question>\n<positive>\n{a}\n</positive>\n"
        f"<negative>\n{b}\n</negative>\n</QApairs>\n"
        for i, (q, a, b) in enumerate(zip(FIRST, SECOND, SECOND[::-1]))
    )
    wiki = table("QuestionID\tQuestion\tDocumentID\tSentence\tLabel",
                 lambda i, r: f"Q{i // 3}\t{r[0]}\tD1\t{r[1]}\t{i % 2}")  # fmt: skip
    quoted = table("premise,hypothesis,label", lambda i, r: f'"{r[0]}, ""yes""","{r[1]}\nx",{r[2]}')
    files = {
        "own/train.tsv": table("premise\thypothesis\tlabel", lambda i, r: "\t".join(r)),
        "own/test.tsv": table("premise\thypothesis\tlabel", lambda i, r: "\t".join(r)),
        "csv/train.csv": quoted,
        "scores/train.tsv": table("s1\ts2\tscore", lambda i, r: f"{r[0]}\t{r[1]}\t{i / 7}"),
        "jsonl/train.jsonl": lines(lambda i, r: {"text_a": r[0], "text_b": r[1], "label": i % 2}),
        "list/train.json": json.dumps([nli(i, r) for i, r in enumerate(rows)], indent=1),
        "answers/SelQA-ass-train.json": json.dumps(answers),
        "snli/snli_1.0_train.jsonl": lines(nli),
        "snli/snli_1.0_test.txt": official,
        "multinli/multinli_1.0_train.txt": official,
        "sick/SICK_train.txt": scores,
        "sick/SICK_trial.txt": scores,
        "msrp/msr_paraphrase_train.txt": table("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
                                               lambda i, r: f"{i % 2}\t1\t2\t{r[0]}\t{r[1]}"),
        "trecqa/train.xml": trecqa,
        "trecqa/dev.xml": trecqa,
        "wikiqa/WikiQA-train.tsv": wiki,
        "quora/train.tsv": table("", lambda i, r: f"{i % 2}\t{r[0]}\t{r[1]}\t{i}"),
        "stsb/sts-train.csv": table("", lambda i, r: f"main\tf\t2\t{i}\t3.2\t{r[0]}\t{r[1]}"),
        "parallel/s1.train": "\n".join(r[0] for r in rows),
        "parallel/s2.train": "\n".join(r[1] for r in rows),
        "parallel/labels.train": "\n".join(r[2] for r in rows),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("own/train.tsv", "snli/snli_1.0_train.jsonl"):
        path = folder / "packed" / f"{Path(name).name}.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress((folder / name).read_bytes()))


# === Changes ===

HUGE = (2**31, 2**63, 10**9, 10**12, 10**18, 10**30, 1e308, -1e308)
ODD = (0, -1, -(10**9), 1, 2, 3, 7, 100_000, 0.5, True, False, None, float("nan"), float("inf"))
PATHS = ("/etc/passwd", "../../x", "/dev/zero", "C:\\x", "hf://evil/model", f"/tmp/{CANARY}")
CODE = f"__import__('os').system('touch /tmp/{CANARY}')"
CLASSES = (
    ("os", "system"), ("builtins", "eval"), ("builtins", "exec"), ("subprocess", "Popen"),
    ("keras.layers", "Lambda"), ("keras.layers", "TFSMLayer"), (CANARY, "Evil"), ("posix", "system"),
    ("keras.utils", "get_file"), ("keras.src.utils.torch_utils", "TorchModuleWrapper"),
    ("keras.layers", "StringLookup"), ("numpy", "load"), ("pickle", "loads"),
    ("keras_hub.src.tokenizers.word_piece_tokenizer", "WordPieceTokenizer"),
)  # fmt: skip


BYTES = tuple(b'\0 \r \n " \xef\xbb\xbf \xed\xa0\x80 \xff\xff\xff\x7f'.split(b" ")) + (b"\xff" * 8,)
ENCODINGS = "utf-16 utf-16-le utf-8-sig latin-1 utf-7 utf-32 cp037".split()
NUMBERS = (b"nan", b"-1", b"1e999", b"9" * 5000, b"-", b"", b"maybe", b"0x1")
TOML = (
    b"1e999", b"-1", b"nan", b"inf", b'"x"', b"[]", b"{x = 1}", b"[" * 20_000 + b"]" * 20_000,
    b"9" * 5000, b"true", b"1979-05-27", b'"/etc/passwd"', b"[1, 'x']",
)  # fmt: skip
SHAPES = (
    b"(1000000000000,)",
    b"(-1,)",
    b"(3, 1000000000)",
    b"()",
    b"(2, 2)",
    b"[1]",
    CODE.encode(),
)


def odd_value(rng: random.Random) -> Any:
    """A value of any type that does not belong."""
    nested: Any = []
    for _ in range(rng.choice((3, 150, 5000))):
        nested = [nested] if rng.random() < 0.5 else {"x": nested}
    texts = ("", "x", "\ud800", "\0", "a" * 10_000, "float99", "[MASK]", CODE, *PATHS)
    return rng.choice(
        (rng.choice(HUGE), rng.choice(ODD), rng.choice(texts), [], {}, ["x"], [1, [2]], {"x": 1}, nested)
    )  # fmt: skip


def smuggled(rng: random.Random) -> dict[str, Any]:
    """The config of an object that would run code."""
    module, name = rng.choice(CLASSES)
    code = marshal.dumps(compile(CODE, CANARY, "eval")).hex()
    config: Any = rng.choice((
        {"name": "x", "function": {"class_name": "__lambda__", "config": {"value": [code, None, None]}}},
        {"args": CODE, "filepath": f"/tmp/{CANARY}", "vocabulary": "/etc/passwd", "name": "x"},
        CODE,
    ))  # fmt: skip
    kind = rng.choice((name, "function", "__lambda__", "__typespec__"))
    if kind == "function":
        config = name
    found = {"module": module, "class_name": kind, "config": config, "registered_name": name}
    return {**found, "spec_name": name} if kind == "__typespec__" else found


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Where a value stands: (its container, the key in it)."""
    found, waiting = [], [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            keys = list(item) if isinstance(item, dict) else range(len(item))
            found += [(item, key) for key in keys]
            waiting += [item[key] for key in keys]
    return found


def change_json(text: bytes, rng: random.Random, hostile: bool = False) -> bytes:
    """Changes a value by its type, a key, or the nesting."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # it was damaged before
        return change_bytes(text, rng)
    places = _places(value)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not places:
            break
        item, key = rng.choice(places)
        if isinstance(key, int) and key >= len(item) or isinstance(item, dict) and key not in item:
            continue
        old = item[key]
        number = isinstance(old, int | float) and not isinstance(old, bool)
        choice = rng.random()
        if hostile and choice < 0.4:
            new: Any = smuggled(rng)
        elif hostile and choice < 0.6 and isinstance(old, str):
            new = rng.choice([word for pair in CLASSES for word in pair])
        elif number and choice < 0.7:
            new = rng.choice((*HUGE, *ODD, old + 1, -old, old * 2, str(old)))
        elif isinstance(old, list) and choice < 0.5:
            new = rng.choice((dict(enumerate(map(str, range(len(old))))), old * 2, old[::-1], old[:-1], [old]))  # fmt: skip
        elif isinstance(old, str) and choice < 0.5:
            new = rng.choice((*PATHS, old[::-1], old.upper(), old + "x", None, [old], 3))
        else:
            new = odd_value(rng)
        if rng.random() < 0.12 and isinstance(item, dict):
            new = item.pop(key)
            if rng.random() < 0.5:
                item[rng.choice(("x", str(key).upper(), "class_name", "__init__", ""))] = new
        else:
            item[key] = new
    return _dump(value).encode()


def _dump(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return '{"x":' * 100_000 + "1" + "}" * 100_000


def deep_json(rng: random.Random) -> bytes:
    """Lists 10⁵ deep, or numbers of 10⁵ digits."""
    n = 100_000
    objects = b'{"a":' * n + b"1" + b"}" * n, b"{" + b'"x":1,' * n + b'"y":2}'
    return rng.choice((b"[" * n + b"]" * n, b"[" * n, b"9" * n, *objects))


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flips, cuts, doubles, splices, deletes or inserts bytes."""
    if not data:
        return rng.randbytes(rng.randrange(1, 50))
    a = rng.randrange(len(data))
    b = min(len(data), a + rng.choice((1, 4, 64, 1024)))
    kind = rng.randrange(9)
    if kind == 0:
        new = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 30))):
            new[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(new)
    if kind == 1:
        return data[:a]
    if kind == 2:
        return data[:b] + data[a:b] * rng.choice((1, 3, 100)) + data[b:]
    if kind == 3:
        c = rng.randrange(len(data))
        return data[:a] + data[c : c + b - a] + data[b:]
    if kind == 4:
        return data[:a] + data[b:]
    if kind == 5:
        return data[:a] + rng.randbytes(b - a) + data[b:]
    if kind == 6:
        return data[:a] + bytes(b - a) + data[b:]
    if kind == 7:
        return data[:a] + rng.choice(BYTES) + data[b:]
    return rng.choice((b"", b"\0" * 100, data[::-1], data + data, rng.randbytes(200)))


def change_text(data: bytes, rng: random.Random) -> bytes:
    """Changes lines, columns, quotes, labels, line ends and encodings."""
    kind = rng.randrange(12)
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if kind == 0:
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\x0b")))
    if kind == 1:
        mixed = (line + rng.choice((b"\n", b"\r\n", b"\r")) for line in lines)
        return b"".join(mixed)
    if kind == 2:
        return data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")
    if kind == 3:
        times = rng.choice((1, 5000, 2_000_000))
        lines[at] = rng.choice((b"x", b"\t", b",", b"\0", b'"', b"a b ")) * times
    elif kind == 4:
        lines[at] = lines[at].replace(b"\t", rng.choice((b"", b"\t\t", b",")), rng.choice((1, -1)))
    elif kind == 5:
        lines[0] = rng.choice((lines[-1], lines[0][::-1], b"", lines[0] * 2, lines[0].upper()))
    elif kind == 6:
        old, new = rng.choice(b"ea'\"< "), rng.choice(b"\"'\0\t<>{\\")
        lines[at] = lines[at].replace(bytes([old]), bytes([new]))
    elif kind == 7:
        lines[at] = re.sub(rb"[\w.-]+$", rng.choice(NUMBERS), lines[at])
    elif kind == 8:
        lines = [re.sub(rb"[\w.]+$", str(rng.random()).encode(), line) for line in lines]
    elif kind == 9:
        rng.shuffle(lines)
    elif kind == 10:
        lines[at] = bytes(rng.choice(string.printable.encode()) for _ in range(rng.randrange(300)))
    else:
        del lines[at : at + rng.choice((1, 3, len(lines)))]
    return b"\n".join(lines)


def change_zip(data: bytes, rng: random.Random, inner: Callable[[str, bytes], bytes]) -> bytes:
    """Changes a member of a zip file (with right checksums again), or the archive itself."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except Exception:
        return change_bytes(data, rng)
    kind = rng.randrange(10)
    method = zipfile.ZIP_STORED
    if kind < 6:
        name = rng.choice(list(files))
        files[name] = inner(name, files[name])
    elif kind == 6:
        files.pop(rng.choice(list(files)))
    elif kind == 7:
        files[rng.choice((*PATHS, "assets/x.txt", "x.npy", f"{CANARY}.py"))] = CODE.encode()
    elif kind == 8:
        name, method = rng.choice(list(files)), zipfile.ZIP_DEFLATED
        files[name] = rng.choice((bytes(60_000_000), files[name] * 3, files[name]))
    else:
        a, b = rng.choice(list(files)), rng.choice(list(files))
        files[a], files[b] = files[b], files[a]
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(out, "w", method, compresslevel=1) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
                if rng.random() < 0.02:
                    archive.writestr(name, content)
    made = out.getvalue()
    return change_bytes(made, rng) if rng.random() < 0.1 else made


def change_npy(name: str, data: bytes, rng: random.Random) -> bytes:
    """Changes the header of an array, its values, or makes it an object array."""
    kind = rng.randrange(4)
    if kind == 0:
        file = io.BytesIO()
        np.save(file, np.array([{CANARY: CODE}, _Evil()], object), allow_pickle=True)
        return file.getvalue()
    if kind == 1:
        shape = re.search(rb"'shape': \([^)]*\)", data)
        if shape:
            return data.replace(shape[0], b"'shape': " + rng.choice(SHAPES))
    if kind == 2:
        return data.replace(b"<f4", rng.choice((b"|O8", b"<f8", b"<c8", b"|S9", b"<M8", b"|V4")))
    if name == "state.npy" and kind == 3 and b"\n" in data:
        head = data.index(b"\n") + 1
        text = change_json(data[head:], rng)
        file = io.BytesIO()
        np.save(file, np.frombuffer(text, np.uint8))
        return file.getvalue()
    return change_bytes(data, rng)


class _Evil:
    def __reduce__(self) -> Any:
        return exec, (CODE,)


def change_h5(data: bytes, rng: random.Random) -> bytes:
    """Changes the bytes of an HDF5 file, mostly of its headers, or its contents with h5py."""
    if rng.random() < 0.5:
        new = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(min(len(new), rng.choice((100, 2000, len(new)))))
            new[at] = rng.choice((0, 0xFF, rng.randrange(256), new[at] ^ 1))
        return bytes(new)
    import h5py

    file = io.BytesIO(data)
    try:
        with h5py.File(file, "r+") as h5:
            items: list[Any] = []
            h5.visititems(lambda _, item: items.append(item))
            arrays = [item.name for item in items if isinstance(item, h5py.Dataset)]
            groups = [item for item in items if isinstance(item, h5py.Group)]
            group, name = rng.choice(groups or [h5]), rng.choice(arrays or ["x"])
            kind, shape = rng.randrange(8), h5[name].shape
            if kind == 1:
                links = h5py.SoftLink(name), h5py.SoftLink("/nowhere")
                group["x"] = rng.choice((h5py.ExternalLink("/etc/passwd", "/"), *links))
            elif kind == 3:
                h5[name][...] = rng.choice((np.nan, np.inf, 1e38, -1e38))
            elif kind == 6:
                group["round"] = h5["/"]
            elif kind == 7:
                h5.move(name, name + "x")
            else:
                del h5[name]
            if kind == 2:
                h5.create_dataset(name, (10**6, 10**6), "float32", chunks=(10, 10))
            elif kind == 4:
                odd = np.zeros((*shape, 2)), np.zeros(shape, "S3"), np.zeros(shape, "complex64")
                h5[name] = rng.choice((*odd, np.float32(0)))
            elif kind == 5:
                far = [("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
                h5.create_dataset(name, shape, "float32", external=far)
    except Exception:
        return change_bytes(data, rng)
    return file.getvalue()


def change_gz(data: bytes, rng: random.Random, inner: Callable[[bytes], bytes]) -> bytes:
    """Changes what is in a gzip file, or the file."""
    kind = rng.randrange(4)
    try:
        plain = gzip.decompress(data)
    except Exception:  # it was damaged before
        return change_bytes(data, rng)
    if kind == 0:
        return gzip.compress(inner(plain), 1)
    if kind == 1:
        return data + rng.choice((data, b"\0" * 10, b"x", gzip.compress(b"x y\n")))
    if kind == 2:
        return plain
    return change_bytes(data, rng)


def change_file(path: Path, rng: random.Random) -> str:
    """Damages one file; says how."""
    data, name = path.read_bytes(), path.name
    whole = rng.random()
    if whole < 0.03:
        path.unlink()
        return f"{name} deleted"
    if whole < 0.06:
        path.unlink()
        target = rng.choice((*PATHS[:3], path.parent.parent, "/", "."))
        if rng.random() < 0.2:
            path.mkdir()
            return f"{name} a folder"
        path.symlink_to(target)
        return f"{name} a link to {target}"
    if whole < 0.15:
        path.write_bytes(change_bytes(data, rng))
        return f"bytes of {name}"
    if name.endswith((".keras", ".npz", ".zip")):

        def member(inner: str, content: bytes) -> bytes:
            if inner.endswith(".h5"):
                return change_h5(content, rng)
            if inner.endswith(".json"):
                return deep_json(rng) if rng.random() < 0.05 else change_json(content, rng, True)
            if inner.endswith(".npy"):
                return change_npy(inner, content, rng)
            return change_text(content, rng)

        new = change_zip(data, rng, member)
    elif name.endswith(".h5"):
        new = change_h5(data, rng)
    elif name.endswith(".gz"):
        new = change_gz(data, rng, lambda inner: change_text(inner, rng))
    elif name.endswith((".json", ".jsonl")) and whole < 0.8:
        if whole < 0.2:
            new = deep_json(rng)
        elif name.endswith(".jsonl"):
            lines = data.splitlines() or [b""]
            at = rng.randrange(len(lines))
            lines[at] = deep_json(rng) if rng.random() < 0.1 else change_json(lines[at], rng)
            new = b"\n".join(lines)
        else:
            new = change_json(data, rng, name in ("tokenizer.json", "config.json"))
    elif name.endswith(".toml") and whole < 0.8:
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        key = lines[at].split(b"=")[0]
        value = rng.choice(TOML)
        lines[at] = rng.choice((key + b"= " + value, b"a." * 5000 + b"a = 1", b"[for.x]", b"[[model]]"))  # fmt: skip
        new = b"\n".join(lines)
    else:
        new = change_text(data, rng)
    path.write_bytes(new)
    return f"content of {name}"


def mutate(sample: Path, copy: Path, rng: random.Random) -> tuple[str, list[Path]]:
    """Copies a sample and damages it, in one place or two; says how, and which files."""
    shutil.copytree(sample, copy)
    said, damaged = [], []
    if rng.random() < 0.1:
        (copy / f"{CANARY}.py").write_text(f"{CODE}\nEvil = eval\n")
    for _ in range(rng.choice((1, 1, 1, 1, 2))):
        files = sorted(path for path in copy.rglob("*") if path.is_file() and not path.is_symlink())
        files = [path for path in files if path.suffix != ".py"]
        if not files:
            break
        path = rng.choice(files)
        damaged.append(path)
        if rng.random() < 0.04 and len(files) > 1:
            other = rng.choice(files)
            a, b = path.read_bytes(), other.read_bytes()
            path.write_bytes(b)
            other.write_bytes(a)
            said.append(f"{path.name} and {other.name} swapped")
        else:
            said.append(change_file(path, rng))
    return "; ".join(said), damaged


# === What users do ===


def read(kind: str, folder: Path, rng: random.Random, damaged: list[Path]) -> None:
    """Reads a sample and uses it; of pairs and vectors a file that is damaged.

    Raises:
        InputError: It is damaged, and the library says so.
        AssertionError: It was read, and answers what is not finite.
    """
    from keras_sentmatch.data import load_pairs, read_pairs
    from keras_sentmatch.inference.matcher import Matcher
    from keras_sentmatch.text.tokens import read_word_pairs
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.vectors.files import read_vectors

    if kind in (*WORD_MODELS, "plain", "pieces"):
        matcher = Matcher.load(folder)
        answer = matcher.predict_proba(**PAIRS)
        assert answer.shape[0] == 7 and np.isfinite(answer).all()
        if kind in WORD_MODELS:
            _evaluate(folder, matcher)
    elif kind == "ensemble":
        from keras_sentmatch.cli.runs import Run

        answer = Run.load(folder).matcher.predict_proba(**PAIRS)
        assert answer.shape[0] == 7 and np.isfinite(answer).all()
    elif kind == "resume":
        _go_on(folder)
    elif kind == "recipe":
        load_recipe("esim", "snli", file=folder / "recipe.toml").to_toml()
    elif kind == "lexicon":
        read_word_pairs(folder / "pairs.txt")
    elif kind == "vectors":
        path = rng.choice(damaged)
        vectors = read_vectors(path, WORDS, progress=False)
        assert np.isfinite(vectors.matrix).all()
    else:
        on_error = rng.choice(("raise", "skip"))
        source = rng.choice(damaged)
        if rng.random() < 0.4 or source.name in ("s2.train", "labels.train"):
            source = source.parent
        if source.is_dir():
            datasets = list(load_pairs(source, on_error=on_error, **SHARED).values())
        else:
            datasets = [read_pairs(source, on_error=on_error)]
        encoder = _encoder(features=("word", "char"))
        for data in datasets:
            data.fingerprint()
            encoder.encode(data.sentence1, data.sentence2)


def _evaluate(folder: Path, matcher: Any) -> None:
    """What `evaluate` and a finished seed of an ensemble read besides."""
    from keras_sentmatch.cli.runs import recorded_source
    from keras_sentmatch.training.resume import finished_metrics

    if noted := matcher.info.get("source"):
        recorded_source(noted, folder)
    finished_metrics(folder)
    if matcher.learned is not None and matcher.learned.scores is not None:
        matcher.evaluate()


def _go_on(folder: Path) -> None:
    """What `train --resume` reads."""
    from keras_sentmatch.training import resume
    from keras_sentmatch.training.resume import set_generator_states

    identity = {"training": {"epochs": 3}, "backend": "x"}
    state = resume.check_folder(folder, identity, resume=True)
    if state is None:
        return
    model = resumed_model()
    state.restore(model)
    generators = {n: a for n, a in state.arrays.items() if n.startswith(resume.GENERATOR)}
    set_generator_states(generators)
    resume.discard_later_files(folder, state)
    resume.load_weights(model, resume.best_weights(folder, state.best))
