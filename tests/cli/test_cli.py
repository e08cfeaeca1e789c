"""The command line, from what is typed to what is printed, written and returned."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import keras
import pytest

from keras_sentmatch import __version__, applications, training
from keras_sentmatch.applications import Sentence
from keras_sentmatch.cli import backend as backend_module
from keras_sentmatch.cli import catalog, main
from keras_sentmatch.cli.options import OnError
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.answer_file import as_text
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.ops import masked_mean

TINY = "--set encoder.max_length=8 --set vectors.dim=4 --epochs 1 --batch-size 16".split()
COLUMNS = ["--columns", "claim,answer,verdict"]


@keras.saving.register_keras_serializable("tests")
class Means(applications.PairModel):
    """Means of word vectors, compared by a dense layer: it compiles fast, on every backend."""

    def __init__(self, vocabulary_size, num_classes, embedding_dim, **kwargs):
        self.embed = keras.layers.Embedding(vocabulary_size, embedding_dim)
        activation = "softmax" if num_classes > 1 else None
        self.answer = keras.layers.Dense(num_classes, activation=activation, name="answer")
        super().__init__(**kwargs)

    def encode(self, sentence):
        return Sentence(mean=masked_mean(self.embed(sentence.word_ids), sentence.mask))

    def interact(self, one, two):
        return self.answer(keras.ops.concatenate([one.mean, two.mean], axis=-1))

    def count_params_without_word_embeddings(self):
        return self.layers[-1].count_params()


def build(name, vocabulary_size, num_classes, embedding_dim, **others):
    assert name == "drcn"
    return Means(vocabulary_size, num_classes, embedding_dim)


@pytest.fixture(scope="module", autouse=True)
def small_model():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applications, "build_model", build)
        yield


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    """The commands set these two; pytest puts them back."""
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")


def run(*arguments) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    return exit_.value.code or 0


def error_of(capsys, *arguments) -> str:
    """The one line on stderr of a command that must fail with code 2."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert captured.out == "" and lines[-1].startswith("error: ")
    assert "Traceback" not in captured.err
    return lines[-1]


def write_pairs(path, rows=60, label=True):
    subjects = ("dog", "cat", "bird", "man", "horse")
    with path.open("w", encoding="utf-8") as file:
        file.write("claim\tanswer" + ("\tverdict\n" if label else "\n"))
        for i in range(rows):
            first, second = subjects[i % 5], subjects[(i // 5) % 5]
            verdict = "\tyes" if first == second else "\tno"
            file.write(f"the {first} {i} runs\ta {second} {i} runs{verdict if label else ''}\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder that `train` wrote, from a TSV file."""
    home = tmp_path_factory.mktemp("cli")
    data = write_pairs(home / "own.tsv", 120)
    os.environ["KERAS_BACKEND"] = keras.config.backend()
    arguments = ["--seed", 3, "--data", data, *COLUMNS, *TINY, "--out", home / "run"]
    assert run("train", "drcn", *arguments) == 0
    return SimpleNamespace(home=home, data=data, folder=home / "run")


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """A run folder whose answers are scores, and which does not say what it was trained on."""
    encoder = PairEncoder(["dog", "cat", "runs"], features=("word",))
    model = Means(encoder.vocabulary_size, 1, 4)
    folder = tmp_path_factory.mktemp("scores") / "run"
    Matcher(model, encoder, None, task="regression", info={"model": "drcn"}).save(folder)
    return folder


def test_help_loads_no_keras_and_no_backend():
    code = (
        "import sys\nfrom keras_sentmatch.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'keras', 'numpy', 'tensorflow', 'jax', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for arguments in (["--help"], ["train", "--help"], [], ["--version"]):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        shown = done.stdout + done.stderr  # where help goes without arguments differs by version
        assert "keras-sentmatch" in shown


def test_version_and_usage_errors(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"keras-sentmatch {__version__}\n"
    assert run("train", "--no-such-option") == 2
    assert "Usage" in capsys.readouterr().err


def test_the_backend_is_chosen_in_the_order_promised(monkeypatch, tmp_path):
    choose = backend_module.choose_backend
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(backend_module, "is_installed", lambda name: name != "tensorflow")
    assert choose("torch") == ("torch", "--backend")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert choose(None) == ("jax", "$KERAS_BACKEND")
    monkeypatch.delenv("KERAS_BACKEND")
    assert choose(None) == ("jax", "what is installed")
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    assert choose(None)[0] == "torch"
    (tmp_path / "keras.json").write_text('{"backend": "tensorflow"}')
    assert choose(None)[0] == "jax", "a setting for what is not installed is passed over"
    (tmp_path / "keras.json").write_text("{")
    assert choose(None)[0] == "jax"
    monkeypatch.setattr(backend_module, "is_installed", lambda name: False)
    with pytest.raises(InputError, match="no backend is installed"):
        choose(None)


def test_a_backend_that_is_not_installed_or_unknown_is_one_line(monkeypatch, capsys):
    assert "tensorflow, jax, torch" in error_of(capsys, "models", "--backend", "theano")
    name = "jax"
    monkeypatch.setattr(backend_module, "is_installed", lambda other: other != name)
    line = error_of(capsys, "models", "--backend", name)
    assert f'pip install "keras-sentmatch[{name}]"' in line and "or use --backend" in line


def test_a_second_backend_in_one_process_is_refused(capsys):
    other = next(b for b in ("tensorflow", "jax", "torch") if b != keras.config.backend())
    if not backend_module.is_installed(other):
        pytest.skip(f"{other} is not installed")
    assert "already runs" in error_of(capsys, "models", "--backend", other)


def test_datasets(capsys):
    assert run("datasets", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"embedded", "snli", "sick", "trecqa", "tsv"} <= {row["name"] for row in rows}
    assert run("datasets") == 0
    assert "wikiqa" in capsys.readouterr().out


def test_models(monkeypatch, capsys):
    class Small:
        """One.

        Args:
            vocabulary_size: words.
            char_vocabulary_size: characters. Defaults to `0`.
            depth: layers, as many
                as you like. Defaults to `2`.

        Example:
            depth: no argument
        """

        paper, summary_line, presets = "A. Author 2020", "a small one", {"deep": {"depth": 9}}

        def __init__(self, vocabulary_size, char_vocabulary_size=0, depth=2, **kwargs):
            assert vocabulary_size and char_vocabulary_size
            self.input_names = ["word_ids_1", "char_ids_1", "word_ids_2", "char_ids_2"]

        def count_params_without_word_embeddings(self):
            return 1234

    assert "drcn" in applications.list_models()
    monkeypatch.setattr(applications, "list_models", lambda: ["small"])
    monkeypatch.setattr(applications, "get_model_class", lambda name: Small)
    assert run("models", "--json") == 0
    arguments = {"depth": {"default": 2, "meaning": "layers, as many as you like."}}
    expected = {
        "name": "small",
        "paper": "A. Author 2020",
        "parameters": 1234,
        "inputs": ["word_ids", "char_ids"],
        "description": "a small one",
        "arguments": arguments,
        "presets": {"deep": {"depth": 9}},
    }
    assert json.loads(capsys.readouterr().out) == [expected]
    assert run("models") == 0
    assert "1,234" in capsys.readouterr().out
    assert run("models", "small") == 0
    out = capsys.readouterr().out
    assert "as many as you like" in out and "depth=9" in out


def test_the_list_of_models_fits_a_terminal_and_advises(capsys, monkeypatch):
    def describe(cls, name):
        return {"name": name, "parameters": 99_999_999, "description": cls.summary_line}

    monkeypatch.setattr(catalog, "describe", describe)
    assert run("models") == 0
    captured = capsys.readouterr()
    assert max(map(len, map(str.rstrip, captured.out.splitlines()))) <= 80
    assert [name for name in applications.list_models() if name not in captured.out] == []
    assert catalog.GOOD_FOR.keys() <= set(applications.list_models())
    assert re.search(r"re2 .* 85\.8 +108 +accurate and quick", captured.out)
    assert "the default, for most data" in captured.out and "next: keras-sentmatch" in captured.err


def test_profile(capsys):
    sizes = "--length 4 --batch-size 2 --words 50 --classes 2".split()
    assert run("profile", "drcn", *sizes, *TINY[:4], "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert sum(result["layers"].values()) == result["parameters"]
    assert result["layers"]["answer"] == 2 * 2 * 4 + 2
    assert result["parameters_without_word_embeddings"] < result["parameters"]
    assert min(result["forward_ms"], result["train_ms"], result["train_pairs_per_s"]) > 0
    assert run("profile", "drcn", *sizes, *TINY[:4]) == 0
    captured = capsys.readouterr()
    rows = [line.split() for line in captured.out.splitlines()]
    assert ["answer", str(result["layers"]["answer"])] in rows
    assert ["all", str(result["parameters"])] in rows
    few = str(result["parameters_without_word_embeddings"])
    assert ["all", "but", "word", "embeddings", few] in rows
    assert "batches of 2 pairs, 4 tokens" in captured.out and "training step" in captured.out
    assert "next: keras-sentmatch train drcn --data FILE" in captured.err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("profile drcn --batch-size 0", "--batch-size 0"),
        ("profile nothing", "'nothing'"),
        ("train nothing", "'nothing'"),
        ("train --epochs 0", "training.epochs is 0"),
        ("train --batch-size 0", "training.batch_size is 0"),
        ("train --seeds 0", "--seeds 0"),
        ("train --seed -1", "training.seed is -1"),
        ("train --limit 0", "--limit 0"),
        ("train --resume", "--resume needs --out"),
        ("train --set training.epoch=1", "Did you mean epochs"),
        ("train --recipe missing.toml", "missing.toml"),
        ("train --data missing.tsv", "no file or folder missing.tsv"),
        ("train --data x --columns a", "--columns 'a'"),
        ("predict nowhere --sentence1 a --sentence2 b", "nowhere is not a run folder"),
        ("predict nowhere", "either a FILE of pairs, or both"),
        ("predict nowhere --sentence1 a", "either a FILE of pairs, or both"),
        ("predict nowhere x.tsv --sentence1 a --sentence2 b", "either a FILE of pairs, or both"),
        ("predict nowhere --sentence1 a --sentence2 b --out x.tsv", "--out is for"),
        ("predict nowhere x.tsv --out x.doc", "ends in .tsv"),
        ("predict nowhere x.tsv", "no file or folder x.tsv"),
        ("evaluate nowhere", "nowhere is not a run folder"),
        ("evaluate nowhere --format tsv", "--data, which is missing"),
    ],
)
def test_mistakes_are_one_line(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in error_of(capsys, *arguments.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.each_backend
def test_train_writes_a_run_folder_and_evaluate_agrees(trained, capsys):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    assert metrics["backend"] == keras.config.backend() and metrics["seed"] == 3
    assert metrics["baseline"]["test"]["accuracy"] > 0
    assert run("evaluate", trained.folder, "--json") == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["split"] == "test" and result["rows"] == metrics["rows"]["test"] < 120
    assert result["accuracy"] == pytest.approx(metrics["test"]["accuracy"], abs=1e-6)
    assert "sentences" in captured.err and "unknown" in captured.err
    assert run("evaluate", trained.folder, "--split", "validation") == 0
    assert "accuracy" in capsys.readouterr().out


def test_train_shows_the_baseline_beside_the_figures(trained, capsys, monkeypatch):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    metrics["test"]["accuracy"], metrics["baseline"]["test"]["accuracy"] = 0.8765, 0.4321
    result = SimpleNamespace(metrics=metrics)
    monkeypatch.setattr(training, "train", lambda *arguments, **more: result)
    again = ["train", "--data", trained.data, *COLUMNS, "--out"]
    assert run(*again, trained.folder) == 0
    row = next(r for r in capsys.readouterr().out.splitlines() if "accuracy" in r)
    assert "0.8765" in row and "0.4321" in row
    metrics["interrupted"] = True
    assert run(*again, trained.folder) == 130

    def stop(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", stop)
    assert run(*again, trained.folder) == 130


def test_train_never_overwrites_a_run(trained, capsys):
    again = ["train", "--data", trained.data, *COLUMNS, *TINY, "--out", trained.folder]
    line = error_of(capsys, *again)
    assert "already holds" in line
    assert "nothing to resume" in error_of(capsys, *again, "--resume")
    assert json.loads((trained.folder / "matcher.json").read_text())["info"]["source"]["columns"]


@pytest.mark.parametrize("format", ["", "tsv:"])
def test_evaluate_a_file_takes_all_its_rows(trained, capsys, format):
    data = f"{format}{trained.data}"
    assert run("evaluate", trained.folder, "--data", data, *COLUMNS, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 120


def test_evaluate_reads_as_train_did(tmp_path, monkeypatch):
    """Format and on_error are recorded with the run, and the absolute path."""
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "pairs.tsv", 5)
    recorded = Source("tsv:pairs.tsv", on_error=OnError.SKIP).facts()
    assert recorded["data"] == str(tmp_path / "pairs.tsv")
    again = Source(**json.loads(json.dumps(recorded)))
    assert (again.format, again.on_error) == ("tsv", OnError.SKIP)


def test_calibrate_keeps_what_it_finds(trained, capsys, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    old = json.loads((folder / "metrics.json").read_text())
    assert run("calibrate", folder, "--threshold", "f1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["split"] == "validation" and report["rows"] == old["rows"]["validation"]
    assert report["after"]["nll"] <= report["before"]["nll"]
    assert (folder / "reliability.png").read_bytes().startswith(b"\x89PNG")
    card = json.loads((folder / "matcher.json").read_text())
    assert card["temperature"] == report["temperature"] != 1
    assert card["threshold"] == report["threshold"]
    metrics = json.loads((folder / "metrics.json").read_text())
    kept = {key: value for key, value in report.items() if key != "run"}
    assert metrics == {**old, "calibration": kept}
    assert run("evaluate", folder, "--split", "validation", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    for name in ("nll", "ece", "accuracy", "f1"):
        assert figures[name] == pytest.approx(report["after"][name], abs=1e-5)
    assert run("calibrate", folder, "--data", trained.data, *COLUMNS) == 0
    out = capsys.readouterr().out
    assert "nll" in out and "temperature" in out and "above" not in out
    again = json.loads((folder / "metrics.json").read_text())["calibration"]
    assert again["rows"] == 120 and again["threshold"] is None
    assert run("calibrate", folder, "--no-temperature") == 0
    assert json.loads((folder / "matcher.json").read_text())["temperature"] == 1
    capsys.readouterr()
    assert "--data, which is missing" in error_of(capsys, "calibrate", folder, "--format", "tsv")


def test_calibrate_for_a_precision_abstains(trained, capsys, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    given = ["--data", trained.data, *COLUMNS]
    assert run("calibrate", folder, *given, "--costs", "no=1,yes=1,abstain=0.15") == 0
    out = capsys.readouterr().out
    assert "of the pairs are answered" in out
    card = (folder / "README.md").read_text("utf-8")
    assert card.count("## Calibration") == 1 and "![accuracy" in card
    assert (folder / "coverage.png").read_bytes().startswith(b"\x89PNG")
    limits = json.loads((folder / "matcher.json").read_text())["abstain_below"]
    assert limits == pytest.approx([0.85, 0.85])
    assert run("predict", folder, trained.data, *COLUMNS, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert any(row["abstained"] and row["label"] is None for row in rows)
    assert run("predict", folder, trained.data, *COLUMNS) == 0
    label = capsys.readouterr().out.splitlines()[1 + [row["label"] for row in rows].index(None)]
    assert "None" not in label and "\t\tTrue\t" in label
    assert run("calibrate", folder, *given, "--recall", 0.5) == 0
    out = capsys.readouterr().out
    assert "lower_bound" in out and "yes is answered above" in out
    text = (folder / "README.md").read_text("utf-8")
    assert text.count("## Calibration") == 1 and "| yes |" in text and "## Recipe" in text
    line = error_of(capsys, "calibrate", folder, *given, "--precision", 0.999)
    assert "--precision 0.999: no threshold" in line and "the best is" in line or "never" in line
    assert "LABEL=COST" in error_of(capsys, "calibrate", folder, *given, "--costs", "yes")


def test_evaluate_says_why_it_cannot(trained, capsys, tmp_path):
    line = error_of(capsys, "evaluate", trained.folder, "--split", "nosuch")
    assert "it has train, validation, test" in line
    bare = write_pairs(tmp_path / "bare.tsv", 5, label=False)
    line = error_of(capsys, "evaluate", trained.folder, "--data", bare, "--columns", "claim,answer")
    assert "no labels" in line
    other = tmp_path / "other.tsv"
    other.write_text("sentence1\tsentence2\tlabel\na\tb\tmaybe\n")
    line = error_of(capsys, "evaluate", trained.folder, "--data", other)
    assert "maybe" in line and "no, yes" in line
    line = error_of(capsys, "evaluate", trained.folder, "--batch-size", 0)
    assert "--batch-size 0 is too small. Expected an integer of at least 1" in line


@pytest.mark.parametrize("command", ["evaluate", "calibrate", "compare", "report"])
@pytest.mark.parametrize(
    "source",
    [
        {"data": "snli/data_dir=evil,download=True", "format": "tfds"},
        {"data": "tfds:snli", "format": None},
        {"data": "x", "format": "tfds:snli/data_dir=evil:"},
        {"data": "x", "format": "nosuch"},
    ],
)
def test_a_source_that_a_run_notes_is_never_downloaded(
    trained, capsys, monkeypatch, tmp_path, command, source
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keras_sentmatch.data.load.load_tfds", pytest.fail)
    runs = [tmp_path / "one", tmp_path / "two"]
    for folder in runs:
        shutil.copytree(trained.folder, folder)
        (folder / "recipe.toml").unlink()  # two matchers, not two seeds of one
        card = json.loads((folder / "matcher.json").read_text())
        card["info"]["source"] = {**source, "columns": None, "on_error": "raise"}
        (folder / "matcher.json").write_text(json.dumps(card))
    line = error_of(capsys, command, *runs[: 2 if command == "compare" else 1])
    assert "info.source in" in line and "--data" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_controls_in_names_do_not_reach_the_terminal(trained, capsys, tmp_path):
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    names = ["no\x1b[2J", "yes\x9b31m\n\u202ethe answer"]
    card = json.loads((folder / "matcher.json").read_text()) | {"label_names": names}
    (folder / "matcher.json").write_text(json.dumps(card))
    pair = ["--sentence1", "the dog runs", "--sentence2", "a cat\x1b]0;x\x07 runs"]
    data = tmp_path / "own.tsv"
    data.write_text("sentence1\tsentence2\tlabel\na\tb\t\x1b[31mred\n")
    versions = {"versions": {"keras_sentmatch": "\x1b[5m9"}, "format": 9}
    for status, arguments in (
        (0, ["predict", folder, *pair]),
        (0, ["predict", folder, *pair, "--json"]),
        (2, ["evaluate", folder, "--data", data]),
        (2, ["evaluate", folder]),
        (2, ["evaluate", folder, versions]),
    ):
        if arguments[-1] is versions:
            (folder / "matcher.json").write_text(json.dumps(card | versions))
        assert run(*[a for a in arguments if a is not versions]) == status, capsys.readouterr()
        shown = "".join(capsys.readouterr())
        assert "\\u001b" in shown, arguments
        assert not set("\x1b\x9b\x07\u202e") & set(shown), arguments


@pytest.mark.each_backend
def test_predict_one_pair(trained, capsys):
    pair = ["--sentence1", "the dog 1 runs", "--sentence2", "a zebra " * 9]
    assert run("predict", trained.folder, *pair, "--json") == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert set(answer["probabilities"]) == {"no", "yes"}
    assert "1 (50.0%) sentences truncated" in captured.err and "unknown" in captured.err
    assert run("predict", trained.folder, *pair) == 0
    assert capsys.readouterr().out.strip().splitlines()[-1] == answer["label"]


def test_a_run_that_gives_scores(scores, capsys, tmp_path):
    pair = ["--sentence1", "the dog runs", "--sentence2", "a cat runs"]
    assert run("predict", scores, *pair, "--json") == 0
    score = json.loads(capsys.readouterr().out)["score"]
    assert run("predict", scores, *pair) == 0
    assert float(capsys.readouterr().out) == pytest.approx(score, abs=1e-4)
    data = tmp_path / "scored.tsv"
    head = "sentence1\tsentence2\tscore\n"
    data.write_text(f"{head}a dog\ta cat\t0.5\na cat\tcat\t2.5\ndog\tcat\t1\n")
    assert run("evaluate", scores, "--data", data) == 0
    captured = capsys.readouterr()
    assert "pearson" in captured.out
    assert f"next: keras-sentmatch explain {scores}" in captured.err, "`report` needs classes"
    line = error_of(capsys, "report", scores, "--data", data)
    assert "gives scores; a report needs answers that are classes" in line
    assert "does not say what it was trained on" in error_of(capsys, "evaluate", scores)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_predict_a_file(trained, capsys, tmp_path, suffix):
    data = write_pairs(tmp_path / "new.tsv", 7)
    out = tmp_path / "answers" / f"out{suffix}"
    assert run("predict", trained.folder, data, *COLUMNS, "--out", out) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "14 sentences" in captured.err
    with out.open(encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":
            rows = [json.loads(line) for line in file]
        else:
            rows = list(csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert [row["sentence1"].split()[2] for row in rows] == [str(i) for i in range(7)]
    assert [row["gold"] for row in rows[:2]] == ["yes", "no"]
    for row in rows:
        yes, no = float(row["probability_yes"]), float(row["probability_no"])
        assert yes + no == pytest.approx(1, abs=1e-4)
        assert row["label"] == ("yes" if yes > no else "no")
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert run("predict", trained.folder, data, *COLUMNS, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in printed] == [row["label"] for row in rows]


def test_bad_rows_stop_or_are_counted(trained, capsys, tmp_path):
    data = write_pairs(tmp_path / "new.tsv", 3, label=False)
    data.write_text(data.read_text() + "only one field\n")
    columns = ["--columns", "claim,answer"]
    assert "new.tsv:5" in error_of(capsys, "predict", trained.folder, data, *columns)
    assert run("predict", trained.folder, data, *columns, "--on-error", "skip") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 4 and "skipped: 1" in captured.err


def test_tsv_cells_hold_no_tabs_and_no_line_breaks():
    text = as_text({"sentence1": ['a\t"b"\nc'], "score": [0.5]}, "tsv")
    assert text == 'sentence1\tscore\na "b" c\t0.5\n'
    assert as_text({}, "tsv") == "\n"


def test_an_ensemble_answers_like_its_members_mean(trained, capsys, tmp_path):
    member = Matcher.load(trained.folder)
    pair = ["--sentence1", "the dog runs", "--sentence2", "a cat runs", "--json"]
    yes = [member.predict(sentence1=pair[1], sentence2=pair[3])["probabilities"]["yes"]]
    member.save(tmp_path / "seed-0")
    member.model.set_weights([weight + 0.3 for weight in member.model.get_weights()])
    yes.append(member.predict(sentence1=pair[1], sentence2=pair[3])["probabilities"]["yes"])
    member.save(tmp_path / "seed-1")
    (tmp_path / "ensemble.json").write_text('{"seeds": [0, 1]}')
    assert abs(yes[0] - yes[1]) > 1e-4
    assert run("predict", tmp_path, *pair) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["probabilities"]["yes"] == pytest.approx(sum(yes) / 2, abs=1e-5)
    assert run("evaluate", tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["split"] == "test"
    cards = [(tmp_path / f"seed-{i}" / "matcher.json").read_bytes() for i in (0, 1)]
    assert run("calibrate", tmp_path, "--threshold", "accuracy", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert run("predict", tmp_path, *pair) == 0
    answer = json.loads(capsys.readouterr().out)
    odds = (sum(yes) / (2 - sum(yes))) ** (1 / report["temperature"])
    assert answer["probabilities"]["yes"] == pytest.approx(odds / (1 + odds), abs=1e-5)
    expected = answer["probabilities"]["yes"] > report["threshold"]
    assert answer["label"] == ("yes" if expected else "no")
    assert cards == [(tmp_path / f"seed-{i}" / "matcher.json").read_bytes() for i in (0, 1)]
    assert (tmp_path / "reliability.png").exists()


def test_several_seeds_show_mean_and_spread(trained, capsys, monkeypatch, tmp_path):
    figures = {"mean": {"accuracy": 0.61}, "sd": {"accuracy": 0.02}, "ensemble": {"accuracy": 0.71}}

    def train_ensemble(recipe, splits, out, seeds, **more):
        for seed in seeds:
            shutil.copytree(trained.folder, out / f"seed-{seed}")
        return None, {"seeds": list(seeds), "interrupted": False, "test": figures}

    monkeypatch.setattr(training, "train_ensemble", train_ensemble)
    data = ["--data", trained.data, *COLUMNS]
    assert run("train", *data, "--seed", 4, "--seeds", 2, "--out", tmp_path / "e") == 0
    assert sorted(path.name for path in (tmp_path / "e").iterdir()) == ["seed-4", "seed-5"]
    row = next(r for r in capsys.readouterr().out.splitlines() if "test accuracy" in r)
    assert "0.6100" in row and "0.0200" in row and "0.7100" in row


@pytest.mark.parametrize(
    "command",
    [
        "evaluate RUN",
        "evaluate RUN --data DATA --columns claim,answer,verdict --split validation",
        "calibrate RUN",
        "predict RUN --sentence1 'a dog' --sentence2 'a cat'",
        "predict RUN DATA --columns claim,answer,verdict",
        "rank RUN 'a dog runs' LINES --label yes",
        "explain RUN --sentence1 'a dog' --sentence2 'a cat'",
        "explain RUN --sentence1 'a dog' --sentence2 'a cat' --out page.html",
        "explain RUN DATA --columns claim,answer,verdict --limit 2",
        "report RUN --no-baselines --transform AddPunc --limit 20",
        "compare RUN OTHER --samples 20",
    ],
)
def test_each_command_ends_with_a_next_step_that_runs(
    trained, capsys, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        training, "bag_of_words_baseline", lambda *_, **__: {"test": {"accuracy": 1}}
    )
    (tmp_path / "lines.txt").write_text('a dog runs\n\'a "cat" sleeps\n')
    shutil.copytree(trained.folder, tmp_path / "run")
    if "OTHER" in command:
        Matcher.load(tmp_path / "run").save(tmp_path / "other")
    places = {"RUN": "run", "OTHER": "other", "DATA": str(trained.data), "LINES": "lines.txt"}
    assert run(*(places.get(part, part) for part in shlex.split(command))) == 0
    printed = capsys.readouterr()
    assert "next:" not in printed.out
    (step,) = re.findall("^next: (.*)$", printed.err, re.M)
    assert printed.err.rstrip().endswith(step)
    if opened := re.fullmatch("open (.*) in a browser", step):
        assert (tmp_path / opened[1]).is_file()
    else:
        name, *arguments = shlex.split(re.sub(r" \([^()]*\)$", "", step))
        assert name == "keras-sentmatch" and run(*arguments) == 0


def test_export(trained, capsys, monkeypatch, tmp_path):
    """What `export` passes on and shows; tests/exports has the exporting."""
    asked = []

    def export(matcher, folder, format, *, pairs, tolerance):
        asked.append((matcher.label_names, folder, format, pairs and len(pairs), tolerance))
        signature = {"inputs": {"sentence1": {}}, "outputs": {"label": {}}}
        return {
            "format": format,
            "signatures": {"serving_default": signature},
            "left_out": {"ids": "why not"},
            "pairs": 20,
            "largest_difference": 1e-7,
        }

    monkeypatch.setattr("keras_sentmatch.exports.exporting.export", export)
    out = tmp_path / "out"
    assert run("export", trained.folder, "--out", out) == 0
    captured = capsys.readouterr()
    assert "serving_default" in captured.out and "label" in captured.out
    assert "no ids: why not" in captured.err and "difference 1.0e-07" in captured.err
    unlabeled = write_pairs(tmp_path / "more.tsv", 7, label=False)
    text = unlabeled.read_text("utf-8").replace("claim\tanswer", "sentence1\tsentence2")
    unlabeled.write_text(text, "utf-8")
    options = f"--format onnx --out {out} --pairs {unlabeled} --tolerance 3e-5 --json".split()
    assert run("export", trained.folder, *options) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "onnx"
    names = asked[0][0]
    assert asked == [(names, out, "saved_model", None, 1e-5), (names, out, "onnx", 7, 3e-5)]


def test_export_to_int8_compares_on_labeled_pairs(trained, scores, capsys, monkeypatch, tmp_path):
    def export(matcher, folder, format, *, pairs, tolerance, int8, max_drop):
        figures = {"figure": "accuracy", "pairs": len(int8), "float32": 0.91, "int8": max_drop}
        return {"format": format, "signatures": {}, "left_out": {}, "pairs": 20} | {
            "largest_difference": 1e-7,
            "int8": figures,
        }

    monkeypatch.setattr("keras_sentmatch.exports.exporting.export", export)
    options = ["--format", "onnx", "--int8", "--out", tmp_path / "out"]
    data = ["--data", write_pairs(tmp_path / "more.tsv", 7), "--max-drop", 0.25]
    lines = "sentence1\tsentence2\tlabel"
    text = data[1].read_text("utf-8").replace("claim\tanswer\tverdict", lines)
    data[1].write_text(text, "utf-8")
    assert run("export", trained.folder, *options, *data) == 0
    assert "accuracy on 7 pairs: 0.9100 in float32, 0.2500 in int8" in capsys.readouterr().err
    rows = json.loads((trained.folder / "metrics.json").read_text())["rows"]
    assert run("export", trained.folder, *options, "--json") == 0
    asked = json.loads(capsys.readouterr().out)["int8"]
    assert asked["pairs"] == rows["validation"], "not those that it was trained on"
    line = error_of(capsys, "export", scores, *options)
    assert "does not say what it was trained on: name them with --data" in line


def test_export_without_a_folder_makes_the_model_of_the_engine(
    trained, capsys, monkeypatch, tmp_path
):
    made = []
    make = "keras_sentmatch.exports.loading.make_onnx"
    monkeypatch.setattr(make, lambda run: made.append(run) or {"format": "engine", "pairs": 20})
    onnx = ["export", trained.folder, "--format", "onnx"]
    assert run(*onnx, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"format": "engine", "pairs": 20}
    assert f"next: keras-sentmatch predict {trained.folder} --engine onnx" in captured.err
    assert run(*onnx) == 0 and capsys.readouterr().out == ""
    assert made == [trained.folder] * 2
    for options in (onnx[:2], [*onnx, "--pairs", trained.data]):
        assert "Name the folder to create with --out" in error_of(capsys, *options)
    assert len(made) == 2


def test_export_refuses_options_that_would_do_nothing(capsys, tmp_path):
    """Before it loads anything."""
    int8 = ["export", tmp_path / "run", "--int8", "--format"]
    for options in (["onnx"], ["saved_model", "--out", tmp_path / "out"]):
        assert "--int8 needs --format onnx and --out" in error_of(capsys, *int8, *options)
    more = ["--out", tmp_path / "out", "--data", "pairs.tsv"]
    assert "--data goes with --int8" in error_of(capsys, "export", tmp_path / "run", *more)
    assert not any(tmp_path.iterdir())


def upper(sentences):
    return [sentence.upper() for sentence in sentences]


@pytest.mark.parametrize(
    "options, message",
    [
        ("--transform SwapAnts", "Did you mean SwapAnt?"),
        ("--transform BackTrans", "give --translate MODULE:FUNCTION"),
        ("--transform SwapAnt --lexicon none.txt", "no file or folder none.txt"),
        ("--transform NumWord", "which of the labels no, yes"),
        ("--translate nothing", "expected MODULE:FUNCTION"),
        ("--opposite yes", "expected two label names"),
        ("--format tsv", "--data, which is missing"),
    ],
)
def test_a_report_says_why_it_cannot_be_made(trained, capsys, options, message):
    assert message in error_of(capsys, "report", trained.folder, *options.split())


def test_compare(trained, capsys, tmp_path):
    other = Matcher.load(trained.folder)
    other.model.set_weights([-weight for weight in other.model.get_weights()])
    other.save(tmp_path / "other")
    seed = tmp_path / "seed-4"
    shutil.copytree(trained.folder, seed)
    recipe = (seed / "recipe.toml").read_text()
    (seed / "recipe.toml").write_text(recipe.replace("seed = 3", "seed = 4"))
    data = ["--data", trained.data, *COLUMNS]
    runs = [trained.folder, tmp_path / "other", seed]
    out = tmp_path / "report"
    assert run("compare", *runs, *data, "--samples", 300, "--out", out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 120 and [len(row["seeds"]) for row in report["matchers"]] == [2, 1]
    assert run("evaluate", trained.folder, *data, "--json") == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert report["matchers"][0]["seeds"] == pytest.approx([accuracy] * 2)
    (test,) = report["pairs"][0]["mcnemar"]
    difference = (test["only1"] - test["only2"]) / 120
    assert report["pairs"][0]["bootstrap"]["difference"] == pytest.approx(difference)
    assert (out / "compare.png").exists()
    assert run("compare", *runs[:2], *data) == 0
    assert "mcnemar" in capsys.readouterr().out
    assert "at least two recipes" in error_of(capsys, "compare", trained.folder, seed)
    assert "--samples 0" in error_of(capsys, "compare", *runs, "--samples", 0)
    assert "nowhere is not a run folder" in error_of(capsys, "compare", "nowhere", seed)


def test_report(trained, capsys, monkeypatch, tmp_path):
    seen = []

    def baseline(train, validation, test, sees):
        seen.append((len(train), len(validation), len(test), sees))
        return {"test": {"accuracy": len(seen) / 10}}

    monkeypatch.setattr("keras_sentmatch.analysis._report.bag_of_words_baseline", baseline)
    words, out = tmp_path / "antonyms.txt", tmp_path / "report"
    words.write_text("dog cat\nman horse\n")
    data = ["--data", trained.data, *COLUMNS]
    changes = ["--transform", "all", "--opposite", "yes,no", "--lexicon", words]
    assert run("report", trained.folder, *data, *changes, "--out", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == 120 and found["run"] == str(trained.folder)
    assert set(found["left_out"]) == {"BackTrans", "SwapSyn"}
    rows = {row["name"]: row for row in found["transformations"]}
    assert 0 < rows["SwapAnt"]["pairs"] < 24 and rows["AddPunc"]["pairs"] == 120
    assert [share["accuracy"] for share in found["baselines"].values()][1:] == [0.1, 0.2, 0.3]
    assert [row[2:] for row in seen] == [(120, "all"), (120, "sentence2"), (120, "overlap")]
    assert seen[0][0] + seen[0][1] < 120, "trained on the parts that the run was trained on"
    assert "Quantity/Time" in (out / "report.md").read_text()
    # Your own function, nothing else, and a run that does not say what it was trained on
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    card = json.loads((folder / "matcher.json").read_text())
    card["info"].pop("source")
    (folder / "matcher.json").write_text(json.dumps(card))
    only = ["--transform", "backtrans", "--translate", "tests.cli.test_cli:upper", "--limit", 20]
    assert run("report", folder, *data, *only) == 0
    shown = capsys.readouterr()
    assert "BackTrans" in shown.out and "AddPunc" not in shown.out and "majority" in shown.out
    assert "the run does not say what it was trained on" in " ".join(shown.out.split())
    tags = tmp_path / "tags.tsv"
    tags.write_text("5\tnegation\n")
    line = error_of(capsys, "report", trained.folder, "--annotations", tags)
    assert "None of the 1 annotated ids" in line
