"""Files of strangers run no code, lead nowhere else, and are refused if they are far too large."""

import gzip
import io
import json
import os
import random
import shutil
import stat
import time
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_sentmatch.cli.runs import recorded_source
from keras_sentmatch.data import load_pairs, read_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import keep_calibration, keep_in_card, members_of
from keras_sentmatch.safety import (
    check_config,
    check_types,
    inside,
    limit,
    parse_json,
    read_arrays,
    read_bytes,
    replace_file,
    weight_sizes,
    working_folder,
)
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.resume import CHECKPOINT, latest
from keras_sentmatch.vectors.files import read_vectors
from tests import mutants
from tests.toys import matchers


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    home = tmp_path_factory.mktemp("samples")
    mutants.make_samples(home)
    return home


@pytest.fixture
def run(samples, tmp_path):
    """A run of a functional model."""
    return shutil.copytree(samples / "plain", tmp_path / "run")


def edit_model(folder, change, compression=zipfile.ZIP_STORED):
    """Changes the members of model.keras, `{name: bytes}`, in place."""
    path = folder / "model.keras"
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(files["config.json"])
    change(files, config)
    files["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def edit_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refuses_to_load(folder, message):
    with pytest.raises(InputError, match=message):
        Matcher.load(folder)


def layer(config, kind):
    return next(item for item in config["config"]["layers"] if item["class_name"] == kind)


# === What a model's config names ===


FOREIGN = [
    {"module": "os", "class_name": "function", "config": "system"},
    {"module": "builtins", "class_name": "eval", "config": {}},
    {"module": "subprocess", "class_name": "Popen", "config": {"args": "x"}},
    {"module": "keras.layers", "class_name": "Lambda", "config": {}},
    {"module": "keras.layers", "class_name": "TFSMLayer", "config": {}},
    {"module": "keras.layers", "class_name": "StringLookup", "config": {}},
    {"module": "keras.utils", "class_name": "get_file", "config": {}},
    {"module": "keras.src.utils.torch_utils", "class_name": "TorchModuleWrapper", "config": {}},
    {"module": None, "class_name": "__lambda__", "config": {"value": []}},
    {"class_name": "__lambda__", "config": {}, "registered_name": "keras_sentmatch>ESIM"},
    {"class_name": "Own", "config": {}, "registered_name": "nobody>Own"},
]


def test_foreign_classes_and_functions_are_refused():
    import keras_sentmatch.applications  # noqa: F401

    for found in FOREIGN:
        with pytest.raises(InputError, match="place names .*which is neither a layer"):
            check_config({"layers": [{"deep": found}]}, "place")


def test_own_registered_classes_may_be_named():
    found = {"module": "nobody", "class_name": "Mine", "registered_name": "nobody>Mine"}
    with pytest.raises(InputError, match="import its module first"):
        check_config(found, "place")
    keras.saving.get_custom_objects()["nobody>Mine"] = keras.layers.Layer
    try:
        check_config(found, "place")
    finally:
        keras.saving.get_custom_objects().pop("nobody>Mine")


def test_a_model_names_neither_files_nor_modules_of_its_folder(run, monkeypatch):
    (run / f"{mutants.CANARY}.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(run)
    change = {"module": mutants.CANARY, "class_name": "Dense", "registered_name": None}
    edit_model(run, lambda files, config: layer(config, "Dense").update(change))
    refuses_to_load(run, f"names '{mutants.CANARY}.Dense'")
    edit_model(run, lambda files, config: layer(config, "Dense").update(backbone="hf://evil"))
    refuses_to_load(run, "names a file under backbone .'hf://evil'")


# === How much a model asks for ===


def test_a_model_larger_than_its_weights_is_not_built(run):
    plain = keras.Layer.add_weight
    large = {"output_dim": 10**4}
    edit_model(run, lambda files, config: layer(config, "Embedding")["config"].update(large))
    refuses_to_load(run, "asks for more weights than its")
    assert keras.Layer.add_weight is plain


SECONDS = 5
HUGE_ARGUMENTS = [
    ("drcn", "depth", 10**6),
    ("re2", "blocks", 10**9),
    ("drcn", "units", 10**7),
    ("diin", "blocks", 10**9),
    ("drr_net", "steps", 10**9),
    ("din", "hidden_layers", 10**4),
]


def try_to_load(samples, folder, name, place, number):
    """Load a model with another number; return the seconds of the processor, and the error."""
    if not folder.exists():
        matchers.make.__wrapped__(name).save(folder)
    shutil.copytree(folder, samples / "huge", dirs_exist_ok=True)

    def change(files, config):
        for key in place[:-1]:
            config = config[key]
        config[place[-1]] = number

    edit_model(samples / "huge", change)
    start, error = time.process_time(), ""
    try:
        Matcher.load(samples / "huge")
    except InputError as refused:
        error = str(refused)
    return time.process_time() - start, error


def test_a_huge_number_is_refused(samples, tmp_path):
    for name, argument, number in HUGE_ARGUMENTS:
        found = try_to_load(samples, tmp_path / name, name, ("config", argument), number)
        assert f"{argument} is {number:,}. Expected at most" in found[1]
        assert found[0] < SECONDS and "\n" not in found[1]


def integers(config, place=()):
    """The places of all integers in a config."""
    items = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in items:
        if type(value) is int:
            yield (*place, key)
        elif isinstance(value, dict | list):
            yield from integers(value, (*place, key))


@pytest.mark.slow
@pytest.mark.parametrize("name", matchers.SIZES)
def test_every_integer_of_every_model(samples, tmp_path, name):
    """It is refused in one line, or changes nothing that is loaded."""
    matchers.make.__wrapped__(name).save(tmp_path / name)
    with zipfile.ZipFile(tmp_path / name / "model.keras") as archive:
        config = json.loads(archive.read("config.json"))
    for place in integers(config["config"], ("config",)):
        for number in (10**3, 10**6, 10**9):
            seconds, error = try_to_load(samples, tmp_path / name, name, place, number)
            assert "\n" not in error and seconds < SECONDS, (place, number, error)


def test_a_tokenizer_has_no_weights(samples, tmp_path):
    from keras_hub.models import BertBackbone

    run = shutil.copytree(samples / "pieces", tmp_path / "run")
    backbone = BertBackbone(vocabulary_size=9, num_layers=1, num_heads=1, hidden_dim=2, intermediate_dim=2)  # fmt: skip
    described = keras.saving.serialize_keras_object(backbone)
    described["config"]["vocabulary_size"] = 1_000_000
    (run / "encoder" / "tokenizer" / "tokenizer.json").write_text(json.dumps(described))
    refuses_to_load(run, "tokenizer cannot be loaded .its config asks for more weights")


def model(change, compression=zipfile.ZIP_STORED):
    """A change of the members of model.keras."""
    return lambda run: edit_model(run, lambda files, config: change(files), compression)


def card(**changes):
    return lambda run: edit_json(run / "matcher.json", **changes)


def encoder(**changes):
    return lambda run: edit_json(run / "encoder" / "encoder.json", **changes)


def flip_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


ZEROS = {"model.weights.h5": bytes(10_000_000)}
BROKEN = [
    (shutil.rmtree, "no such folder"),
    (lambda run: (run / "matcher.json").unlink(), "not a run folder .*no matcher.json"),
    (lambda run: (run / "matcher.json").write_text('{"format": 1,'), "matcher.json is damaged"),
    (lambda run: (run / "matcher.json").write_text("[1]"), "holds .*Expected a JSON object"),
    (card(format=True), "format True .*reads format 2"),
    (card(versions=[], format=9), "has format 9"),
    (card(info=[]), "info is ... Expected dict"),
    (card(label_names="no"), "label_names is 'no'. Expected a list of str or null"),
    (card(label_names=["a", "b", "c"]), "has 2 classes"),
    (card(threshold="0.5"), "threshold is '0.5'. Expected float or null"),
    (card(temperature=float("nan")), "temperature=nan"),
    (card(temperature=0), "temperature=0"),
    (card(temperature=1e-320), "temperature=1e-320 is out of range. Expected a number from"),
    (card(temperature=10**400), "temperature=1000.*from 0.001 to 1000"),
    (card(vocabulary_size=1), "mixes files of two runs"),
    (lambda run: (run / "model.keras").unlink(), "model.keras is missing"),
    (lambda run: (run / "model.keras").write_bytes(b"nothing"), "model.keras is damaged"),
    (lambda run: flip_bit(run / "model.keras"), "model.keras"),
    (model(lambda files: files.pop("metadata.json")), "damaged .it holds"),
    (model(lambda files: files.update({"../x": b""})), "damaged .it holds .*Expected a model"),
    (model(lambda files: files.update({"model.weights.h5": b"HDF"})), "weights.h5 in .*damaged"),
    (model(lambda files: files.update(ZEROS), zipfile.ZIP_DEFLATED), "compressed, which Keras"),
    (lambda run: shutil.rmtree(run / "encoder"), "encoder is missing"),
    (lambda run: (run / "encoder" / "encoder.json").unlink(), "encoder.json cannot be read"),
    (encoder(format=True), "encoder.json is damaged: format is True"),
    (encoder(max_word_length=10**9), "max_word_length is 1000000000. Expected an integer from 1"),
    (encoder(max_length=True), "max_length is True"),
    (encoder(max_length=2.5), "max_length is 2.5"),
    (encoder(antonyms="/etc/passwd"), "is '/etc/passwd'. Expected a list of a list of str"),
    (encoder(antonyms=[["a"]]), "Expected pairs of words"),
    (encoder(features="word"), "features is 'word'. Expected a list of str"),
    (encoder(features=["wurd"]), "encoder.json does not describe an encoder: features"),
    (encoder(lowercase=1), "lowercase is 1. Expected bool"),
    (encoder(tagger="spacy:/tmp/evil"), "names the tagger 'spacy:/tmp/evil'"),
]


def test_a_broken_run_is_explained(samples, tmp_path):
    edit = model(lambda files: files.update({"config.json": files["config.json"]}))
    for number, (change, message) in enumerate([(edit, None), *BROKEN]):
        run = shutil.copytree(samples / "plain", tmp_path / f"run-{number}")
        change(run)
        if message is None:
            Matcher.load(run)
        else:
            refuses_to_load(run, message)


def weights(change):
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5["layers/dense/vars/0"] = np.zeros((3, 2), "float32")
        change(h5)
    return file.getvalue()


def test_weights_are_looked_through():
    assert weight_sizes(weights(lambda h5: None), "x") == (1, 6)

    def bomb(h5):
        h5.create_dataset("bomb", (10**6, 10**6), "float32", chunks=(10, 10))

    def bombs(h5):
        """Many arrays, each of which claims little."""
        for number in range(300):
            h5.create_dataset(f"small/{number}", (100, 100), "float32", chunks=(10, 10))

    def elsewhere(h5):
        h5.create_dataset("far", (3,), "float32", external=[("/etc/passwd", 0, 12)])

    def link(h5):
        h5["link"] = h5py.ExternalLink("/etc/passwd", "/")

    for change, message in (
        (bomb, "its arrays claim more than 4,000,000,000,0.. bytes"),
        (bombs, "its arrays claim more than 1.,...,... bytes"),
        (elsewhere, "far has its values elsewhere"),
        (link, "link is a link"),
        (lambda h5: h5.update({"soft": h5py.SoftLink("/layers")}), "soft is a link"),
    ):
        with pytest.raises(InputError, match=f"x is damaged .{message}"):
            weight_sizes(weights(change), "x")
    assert weight_sizes(weights(lambda h5: h5.update({"layers/up": h5["/"]})), "x") == (1, 6)


def test_not_a_number_is_no_answer(run):
    def spoil(files, config):
        file = io.BytesIO(files["model.weights.h5"])
        with h5py.File(file, "r+") as h5:
            h5["layers/dense/vars/0"][...] = np.nan
        files["model.weights.h5"] = file.getvalue()

    edit_model(run, spoil)
    with pytest.raises(
        InputError, match="returned .nan, nan. for pair 0 .*Expected probabilities that sum to 1"
    ):
        Matcher.load(run).predict(sentence1="a", sentence2="b")


# === Paths ===


@pytest.mark.parametrize("name", ["matcher.json", "encoder/vocabulary.txt", "extra"])
@pytest.mark.parametrize("kind", ["link", "inside", "dead link", "pipe"])
def test_a_folder_with_links_or_pipes_is_not_read(run, tmp_path, name, kind):
    path = run / name
    if path.exists():
        shutil.move(path, tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        targets = {"link": tmp_path / "elsewhere", "inside": run / "encoder", "dead link": "x"}
        path.symlink_to(targets[kind])
    with pytest.raises(InputError, match="Expected only files and folders|is not a run folder"):
        Matcher.load(run)
    if path.name != "matcher.json":
        with pytest.raises(InputError, match="Expected only files and folders"):
            keep_calibration(run, {"temperature": 2.0, "threshold": None, "abstain_below": None})


def test_what_is_written_follows_no_link(run, tmp_path):
    """Not even one that is made meanwhile, under the name of a temporary file."""
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (run / "README.md").write_text("# Run\n")
    for name in ("matcher.json", "metrics.json", "README.md"):
        (run / f".{name}").symlink_to(secret)
    report = {"temperature": 2.0, "threshold": None, "abstain_below": None}
    with pytest.raises(InputError, match="Expected only files and folders"):
        keep_calibration(run, report)
    (run / ".matcher.json").unlink()
    replace_file(run / ".README.md", "# Calibration\n")
    replace_file(run / ".metrics.json", b"{}")
    assert secret.read_text() == "mine" and not (run / ".README.md").is_symlink()
    keep_in_card(run, "# Calibration\n")
    keep_calibration(run, report)
    (tmp_path / "link").symlink_to(run)  # the folder itself may be reached by a link
    assert Matcher.load(tmp_path / "link").temperature == 2
    assert (run / "README.md").read_text() == "# Run\n\n# Calibration\n"
    left = {path.name for path in run.iterdir()} - {".README.md", ".metrics.json"}
    assert left == {"README.md", "encoder", "matcher.json", "metrics.json", "model.keras"}


def test_names_stay_inside(tmp_path):
    assert inside(tmp_path, "a/../b") == tmp_path / "a/../b"
    for name in ("../x", "/etc/passwd"):
        with pytest.raises(InputError, match="leads out of its folder"):
            inside(tmp_path, name)


def test_the_members_of_an_ensemble_are_those_that_it_names(samples, tmp_path):
    folder = shutil.copytree(samples / "ensemble", tmp_path / "ensemble")
    edit_json(folder / "ensemble.json", seeds=[1])
    assert members_of(folder) == [folder / "seed-1"]  # seed-0 may be of a run that was given up
    for seeds, message in (
        ([0, 1, 2], "ensemble.json names missing runs .seed-2.. Copy the whole folder"),
        ([], "ensemble.json names no runs"),
        (["../x"], "seeds is .*Expected a list of int"),
        ([1] * 100_000, "names 100,000 runs, 1 different"),
        ([*range(100_000)], "Expected at most 1,000 different runs"),
    ):
        edit_json(folder / "ensemble.json", seeds=seeds)
        with pytest.raises(InputError, match=message):
            members_of(folder)
    (folder / "seed-0").rename(tmp_path / "away")
    (folder / "seed-0").symlink_to(tmp_path / "away")
    with pytest.raises(InputError, match="seed-0 is a link"):
        members_of(folder)


# === The descriptions ===


def test_encoder_and_model_must_fit(samples, tmp_path):
    run = shutil.copytree(samples / "cafe", tmp_path / "run")
    described = run / "encoder" / "encoder.json"
    text = described.read_text()
    edit_json(described, max_word_length=6)
    refuses_to_load(run, "makes char_ids_1 of shape .*6.* takes .*5")
    described.write_text(text)
    with open(run / "encoder" / "characters.txt", "a") as file:
        file.write("ß\n")
    refuses_to_load(run, "the encoder has char_vocabulary_size")


def test_the_source_that_a_run_noted_is_checked(tmp_path):
    good = {"data": "embedded", "format": None, "columns": None, "on_error": "skip"}
    assert recorded_source(good, tmp_path).data == "embedded"
    for bad in ("x", {}, {**good, "x": 1}, {**good, "data": 3}, {**good, "on_error": "x"},
                {**good, "data": "tfds:evil:code"}):  # fmt: skip
        with pytest.raises(InputError, match="info.source in .*matcher.json (is|names)"):
            recorded_source(bad, tmp_path)


def test_types_are_named():
    kinds = {"a": float, "b": [[float]], "c": (int, None)}
    check_types({"a": 1, "b": [[1.5]], "c": None}, kinds, "x")
    for value, kind, message in (
        (True, int, "a is True. Expected int"),
        ([1, "x"], [int], "Expected a list of int"),
        ("x", (int, None), "Expected int or null"),
    ):
        with pytest.raises(InputError, match=message):
            check_types({"a": value}, {"a": kind}, "x")


def test_json_may_be_neither_deep_nor_large(tmp_path, monkeypatch):
    for text in ("[" * 100_000, "[" * 200 + "]" * 200, '{"a":' * 101 + "1" + "}" * 101, "9" * 5000, "{"):  # fmt: skip
        with pytest.raises(InputError, match="x is damaged"):
            parse_json(text, "x")
    assert parse_json(b"[" * 99 + b"]" * 99, "x")
    (tmp_path / "x").write_text("12345")
    assert read_bytes(tmp_path / "x", "JSON_BYTES") == b"12345"
    monkeypatch.setenv("SENTMATCH_MAX_JSON_BYTES", "4")
    with pytest.raises(InputError, match="larger than 4 bytes.*SENTMATCH_MAX_JSON_BYTES"):
        read_bytes(tmp_path / "x", "JSON_BYTES")
    monkeypatch.setenv("SENTMATCH_MAX_JSON_BYTES", "many")
    with pytest.raises(InputError, match="SENTMATCH_MAX_JSON_BYTES='many'"):
        limit("JSON_BYTES")


def test_damaged_pairs_that_a_run_learned_from(samples, tmp_path):
    run = shutil.copytree(samples / "esim", tmp_path / "run")
    good = read_arrays(run / "learned.npz")
    scores = good["scores"]
    for change in (
        {"keys": good["keys"][:2]},
        {"keys": np.zeros(5)},
        {"scores": scores[:, :2]},
        {"scores": scores[:, 0]},
        {"scores": scores * np.nan},
        {"labels": [0, 1, 3]},
        {"labels": [0, 1]},
        {"groups": [[1], [2], [3]]},
        {"more": [1, 2, 3]},
    ):
        np.savez(run / "learned.npz", **good | change)
        refuses_to_load(run, "learned.npz is damaged: training writes other arrays")


def test_recipes_may_not_be_deep(tmp_path):
    path = tmp_path / "recipe.toml"
    for text in (
        "[model]\nx = " + "[" * 5000,
        "[model]\n" + "a." * 500 + "a = 1",
        f"x = {'9' * 5000}",
    ):
        path.write_text(text)
        with pytest.raises(InputError, match="recipe.toml"):
            load_recipe("esim", file=path)


# === Arrays and checkpoints ===


def test_arrays_are_held_against_their_headers(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3), b=np.array(2.5), c=np.zeros((2, 0)))
    found = read_arrays(path)
    assert list(found) == ["a", "b", "c"] and found["a"].tolist() == [0, 1, 2]
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        a = archive.read("a.npy")
    for new, message in (
        (a.replace(b"(3,)", b"(9**9,)"), "damaged"),
        (a.replace(b"(3,), }", b"(999,)}"), r"says it is int64 \(999,\), but has 24 bytes"),
        (a.replace(b"<i8", b"|O8"), "damaged"),
        (b"", "damaged"),
    ):
        assert new != a
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", new)
        with pytest.raises(InputError, match=message):
            read_arrays(path)
    np.savez_compressed(path, a=np.zeros(1000))
    with pytest.raises(InputError, match="is compressed"):
        read_arrays(path)
    path.write_bytes(content[:-30])
    with pytest.raises(InputError, match="x.npz is damaged"):
        read_arrays(path)


def test_a_checkpoint_remembers_numbers_only(samples, tmp_path):
    folder = shutil.copytree(samples / "resume", tmp_path / "run")
    assert latest(folder).epochs == 2
    for changes in (
        {"callbacks": {"EarlyStopping": {"on_epoch_end": 1}}},
        {"callbacks": {"EarlyStopping": {"best": "x"}}},
        {"history": {"loss": [0.1] * 5}},
        {"best": 3},
        {"identity": {}},
        {"seconds": "1"},
        {"more": 1},
    ):
        with np.load(samples / "resume" / CHECKPOINT) as file:
            arrays = {n: file[n] for n in file.files}
        plain = json.loads(arrays.pop("state").tobytes()) | changes
        arrays["state"] = np.frombuffer(json.dumps(plain).encode(), np.uint8)
        np.savez(folder / CHECKPOINT, **arrays)
        with pytest.raises(InputError, match="resume.npz is damaged"):
            latest(folder)


# === Pairs and vectors ===


def test_what_a_gzip_file_comes_to_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sentmatch.safety._FREE", 1000)
    rows = "a\tb\n" * 20_000
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(f"s1\ts2\n{rows}".encode()))
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"a 1 2\n" * 20_000))
    for read in (
        lambda: read_pairs(tmp_path / "x.tsv.gz"),
        lambda: read_vectors(tmp_path / "v.txt.gz", ["a"]),
    ):
        with pytest.raises(InputError, match="expands from .* to more than .*MAX_EXPANSION"):
            read()
    monkeypatch.setenv("SENTMATCH_MAX_EXPANSION", "2000")
    assert len(read_pairs(tmp_path / "x.tsv.gz")) == 20_000
    assert len(read_vectors(tmp_path / "v.txt.gz", ["a"])) == 1


def test_pairs_are_not_read_from_devices(tmp_path):
    (tmp_path / "x.tsv").symlink_to("/dev/zero")
    for reader in (read_pairs, load_pairs):
        with pytest.raises(InputError, match="is a device or a pipe"):
            reader(tmp_path / "x.tsv")


def test_lines_are_limited(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTMATCH_MAX_LINE_BYTES", "20")
    (tmp_path / "x.tsv").write_text(f"s1\ts2\na\tb\n{'x' * 50}\tb\n")
    with pytest.raises(InputError, match="x.tsv:3: the line has more than 20 characters"):
        read_pairs(tmp_path / "x.tsv")
    (tmp_path / "v.txt").write_text(f"a 1 2\nb 1 {'2' * 50}\n")
    with pytest.raises(InputError, match="v.txt:2: the line has more than 20 bytes"):
        read_vectors(tmp_path / "v.txt", ["a"])
    (tmp_path / "x.tsv").write_text(f"s1\ts2\n{'a' * 18}\tb\n")
    with pytest.raises(InputError, match="x.tsv:2: the line has more than 20 characters"):
        read_pairs(tmp_path / "x.tsv")


@pytest.mark.parametrize("head", ["2 1000000000000", "2 " + "9" * 5000, "9" * 30 + " 2"])
def test_the_first_line_of_vectors_asks_for_no_memory(tmp_path, head):
    (tmp_path / "v.txt").write_text(f"{head}\na 1 2\n")
    with pytest.raises(InputError, match="[Ee]xpected|numbers per word"):
        read_vectors(tmp_path / "v.txt", ["a"] * 10)


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"s1": "a", "s2": ' + "[" * 100_000, "x.jsonl:1: .*recursion"),
        ('{"s1": "a", "s2": ' + "[" * 300 + "]" * 300 + "}", "more than 100 deep"),
        ('{"s1": ' + "9" * 5000 + "}", "x.jsonl:1: .*digits"),
        (r'{"s1": "\ud800", "s2": "b"}', "half a character"),
    ],
)
def test_odd_json_lines_are_bad_rows(tmp_path, line, message):
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": "a", "candidates": ["x"], "answers": 3}\n')
    with pytest.raises(
        InputError, match="x.jsonl:1: the answers are 3. Expected numbers of candidates"
    ):
        read_pairs(path)
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_pairs(path)
    path.write_text(f"[{line}]")
    with pytest.raises(InputError, match="x.jsonl"):
        read_pairs(path)


# === Everything at once ===


def test_mutants_are_read_or_refused(samples, tmp_path):
    """As `python -m benchmarks.faults --damaged N`, for a few files."""
    kinds = mutants.KINDS
    for kind in kinds:
        copy = shutil.copytree(samples / kind, tmp_path / kind)
        mutants.read(kind, copy, random.Random(0), sorted(copy.glob("**/*.t*")))
    answered = refused = 0
    for number in range(6 * len(kinds)):
        rng = random.Random(f"test {number}")
        kind, folder = kinds[number % len(kinds)], tmp_path / "case"
        said, damaged = mutants.mutate(samples / kind, folder, rng)
        try:
            mutants.read(kind, folder, rng, damaged)
            answered += 1
        except InputError as error:
            assert len(str(error)) > 20, said
            refused += 1
        except Exception as error:
            raise AssertionError(f"case {number}, {kind}: {said}") from error
        shutil.rmtree(folder)
    assert answered > 5 and refused > 20


@pytest.mark.parametrize("moment", ["while it is made", "while it is used"])
def test_a_working_folder_does_not_outlive_an_interrupt(tmp_path, monkeypatch, moment):
    mkdir = Path.mkdir

    def interrupted(path, *args, **kwargs):
        mkdir(path, *args, **kwargs)
        raise KeyboardInterrupt

    if moment == "while it is made":
        monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), working_folder(tmp_path, "x") as made:
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        (made / "file").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
