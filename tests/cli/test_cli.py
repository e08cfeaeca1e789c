"""The command line, from what is typed to what is printed, written and returned."""

import itertools
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
import typer

from keras_sentmatch import __version__, applications, training
from keras_sentmatch.applications import Sentence
from keras_sentmatch.cli import app, catalog, main
from keras_sentmatch.cli import backend as backend_module
from keras_sentmatch.cli.options import PANEL, OnError
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.answer_file import as_text
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.ops import masked_mean

TINY = [
    *("--set encoder.max_length=8 --set vectors.dim=4".split()),
    *("--set training.batch_size=16 --epochs 1".split()),
]
COLUMNS = ["--columns", "claim,answer,verdict"]


@keras.saving.register_keras_serializable("tests")
class Means(applications.PairModel):
    """Means of word vectors, compared by a dense layer: it compiles fast, on every backend."""

    def __init__(self, vocabulary_size, num_classes, embedding_dim, **kwargs):
        super().__init__(vocabulary_size, num_classes, embedding_dim, **kwargs)
        self.embed = keras.layers.Embedding(vocabulary_size, embedding_dim)
        activation = "softmax" if num_classes > 1 else None
        self.answer = keras.layers.Dense(num_classes, activation=activation, name="answer")
        self.make_graph()

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


def test_commands_and_options_are_few():
    commands = typer.main.get_command(app).commands
    assert len(commands) <= 15
    for name, command in commands.items():
        found = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        panels = [getattr(option, "rich_help_panel", None) for option in found]
        assert panels.count(None) <= 15, name
        assert set(panels) <= {None, PANEL} and all(option.help for option in found), name


def test_how_to_read_pairs_is_shown_apart(capsys):
    assert run("train", "--help") == 0
    above, below = capsys.readouterr().out.split(f"{PANEL}:")
    for option in "format columns delimiter encoding labels on-error split".split():
        assert f"--{option} " in below and f"--{option} " not in above
    assert run("rank", "--help") == 0
    assert PANEL not in capsys.readouterr().out


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
    with pytest.raises(InputError, match="No backend is installed"):
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


# --- commands: exit status and what they print ---


@pytest.fixture(scope="module")
def places(trained, scores, tmp_path_factory):
    """The files and folders that the commands of the table name."""
    home = tmp_path_factory.mktemp("places")
    (home / "lines.txt").write_text('a dog 1 runs\n\nthe dog 1 runs\n\'a "cat" 2 sleeps\n')
    (home / "words.txt").write_text("dog cat\nman horse\n")
    Matcher.load(trained.folder).save(home / "other")
    return {
        "RUN": trained.folder,
        "OTHER": home / "other",
        "SCORES": scores,
        "DATA": trained.data,
        "LINES": home / "lines.txt",
        "WORDS": str(home / "antonyms.txt"),
        "INDEX": home / "index",
    }


def filled(command, places):
    return [str(places.get(part, part)) for part in shlex.split(command)]


PAIR = "--sentence1 'the dog 1 runs' --sentence2 'a zebra runs'"
AS_OWN = "--columns claim,answer,verdict"


@pytest.mark.parametrize(
    "command, keys",
    [
        ("evaluate RUN", "backend run data split rows accuracy macro_f1 nll ece primary"),
        (f"evaluate RUN --data DATA {AS_OWN}", "rows accuracy"),
        (f"predict RUN {PAIR}", "label probabilities"),
        (f"predict SCORES {PAIR}", "score"),
        (f"predict RUN DATA {AS_OWN}", "sentence1 sentence2 gold label probability_yes"),
        ("rank RUN 'a dog runs' LINES --label yes", "line sentence score"),
        ("rank RUN 'a dog runs' LINES --save-index INDEX --label yes", "sentence score"),
        ("rank RUN 'a dog runs' --index INDEX --label yes", "sentence score"),
        ("mine RUN LINES --threshold 0", "line1 line2 score sentence1 sentence2"),
        ("mine RUN LINES --threshold 0 --groups", "group size representative members"),
        ("report RUN --no-baselines --limit 9", "run data split accuracy categories errors"),
        (
            "report RUN --transform all --lexicon WORDS --opposite yes,no --limit 40",
            "transformations left_out baselines",
        ),
        ("compare RUN OTHER --samples 9", "data split matchers pairs"),
        ("models drcn --profile --batch-size 2 --length 4", "backend layers forward_ms train_ms"),
        ("models --datasets", "name description files labels metric"),
    ],
)
def test_json_of_each_command(places, capsys, command, keys):
    assert run(*filled(command, places), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    row = printed[0] if isinstance(printed, list) else printed
    assert set(keys.split()) <= row.keys()


@pytest.mark.parametrize(
    "command",
    [
        "evaluate RUN",
        f"evaluate RUN --data DATA {AS_OWN} --split validation",
        "calibrate COPY",
        f"predict RUN {PAIR}",
        f"predict RUN DATA {AS_OWN}",
        "rank RUN 'a dog runs' LINES --label yes",
        "mine RUN LINES --threshold 0",
        "mine RUN LINES --threshold 0 --groups",
        f"explain RUN {PAIR}",
        f"explain RUN {PAIR} --out page.html",
        f"explain RUN DATA {AS_OWN} --limit 2",
        "report RUN --no-baselines --limit 20",
        "compare RUN OTHER --samples 20",
        "models drcn --profile --batch-size 2 --length 4 --set model.units=4",
    ],
)
def test_each_command_ends_with_a_next_step_that_runs(
    places, capsys, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    if "COPY" in command:
        shutil.copytree(places["RUN"], tmp_path / "run")
    assert run(*filled(command, {**places, "COPY": "run"})) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() and "next:" not in printed.out
    (step,) = re.findall("^next: (.*)$", printed.err, re.M)
    assert printed.err.rstrip().endswith(step)
    if opened := re.fullmatch("open (.*) in a browser", step):
        assert (tmp_path / opened[1]).is_file()
        return
    name, *arguments = shlex.split(re.sub(r" \([^()]*\)$", "", step))
    assert name == "keras-sentmatch"
    if arguments[0] != "train":
        assert run(*arguments) == 0


def test_options_reach_the_functions(trained, capsys, tmp_path):
    """What the tables cannot show: files that are written, and values that are passed on."""
    out = tmp_path / "report"
    only = ["--transform", "backtrans", "--translate", "tests.cli.test_cli:upper"]
    data = ["--data", trained.data, *COLUMNS, "--limit", "30"]
    assert run("report", trained.folder, *data, *only, "--out", out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["transformations"]] == ["BackTrans"]
    assert report["pairs"] == 30
    names = ["majority", "bag of words", "second sentence only", "word overlap"]
    assert list(report["baselines"]) == names, "trained on the pairs that the run learned from"
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".json", ".md"]
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    card = json.loads((folder / "matcher.json").read_text())
    card["info"].pop("source")
    (folder / "matcher.json").write_text(json.dumps(card))
    assert run("report", folder, *data, "--json") == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert "does not record what it was trained on" in left_out["baselines"]
    lines = tmp_path / "lines.csv"
    lines.write_text("sentence,topic\na dog 1 runs,animals\na man 1 runs,people\n")
    rank = ["rank", folder, "a dog", lines, "--save-index", tmp_path / "index", "--label", "yes"]
    assert run(*rank, "--top-k", 1, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["topic"] in ("animals", "people")
    mine = ["mine", folder, trained.home / "mined.txt", "--threshold", 0]
    (trained.home / "mined.txt").write_text("the dog 1 runs\na dog 1 runs\na cat 1 runs\n")
    for suffix, groups in itertools.product(("tsv", "jsonl"), ([], ["--groups"])):
        assert run(*mine, *groups, "--out", tmp_path / f"mined.{suffix}") == 0
        assert (tmp_path / f"mined.{suffix}").read_text().count("\n") >= 1
    assert run(*mine, "--groups", "--page", tmp_path / "groups.html") == 0
    assert "<html" in (tmp_path / "groups.html").read_text()


def upper(sentences):
    return [sentence.upper() for sentence in sentences]


# --- mistakes: one line that says what to do ---


@pytest.mark.parametrize(
    "command, words",
    [
        ("train nothing", "'nothing'"),
        ("train --epochs 0", "training.epochs is 0"),
        ("train --seeds 0", "--seeds is 0. Expected at least 1"),
        ("train --crossval 1", "--crossval is 1. Expected at least 2"),
        ("train --crossval 2 --seeds 2", "--crossval cannot be combined"),
        ("train --seed -1", "training.seed is -1"),
        ("train --limit 0", "--limit is 0"),
        ("train --resume", "--resume needs --out"),
        ("train --set training.epoch=1", "Did you mean epochs"),
        ("train --recipe missing.toml", "missing.toml"),
        ("train --data missing.tsv", "no file or folder missing.tsv"),
        ("train --data x --columns a", "--columns is 'a'"),
        ("train --data x --positives y", "--positives y cannot be combined with --data"),
        ("train esim --backbone bert", "--backbone is bert, but esim has no pretrained backbone"),
        ("models nothing --profile", "'nothing'"),
        ("models --profile", "--profile needs the name of a model"),
        ("models drcn --profile --batch-size 0", "--batch-size is 0"),
        ("predict nowhere --sentence1 a --sentence2 b", "nowhere is not a run folder"),
        ("predict nowhere", "either a FILE of pairs, or both"),
        ("predict nowhere x.tsv --sentence1 a --sentence2 b", "either a FILE of pairs, or both"),
        ("predict nowhere --sentence1 a --sentence2 b --out x.tsv", "--out is for"),
        ("predict nowhere x.tsv --out x.doc", "ends in .tsv"),
        ("predict nowhere x.tsv", "no file or folder x.tsv"),
        ("rank nowhere a", "either as a file, or as an index with --index"),
        ("rank nowhere a x.txt --candidates 9", "needs --index or --save-index"),
        ("mine nowhere x.txt", "Cannot read x.txt"),
        ("mine nowhere x.txt --page x.html", "ends in .html, with --groups"),
        ("mine nowhere x.txt --groups --against y.txt", "--groups cannot be combined"),
        ("mine nowhere x.txt --out x.doc", "ends in .tsv, .csv, .jsonl"),
        ("evaluate nowhere", "nowhere is not a run folder"),
        ("evaluate nowhere --format tsv", "--data, which is missing"),
        ("report nowhere --transform SwapAnts", "Did you mean SwapAnt?"),
        ("report nowhere --lexicon none.txt", "none.txt"),
        ("report nowhere --translate nothing", "Expected MODULE:FUNCTION"),
        ("report nowhere --opposite yes", "Expected two label names"),
        ("compare nowhere elsewhere", "nowhere is not a run folder"),
    ],
)
def test_mistakes_are_one_line(capsys, monkeypatch, tmp_path, command, words):
    monkeypatch.chdir(tmp_path)
    assert words in error_of(capsys, *shlex.split(command))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command, words",
    [
        ("evaluate RUN --split nosuch", "It has train, validation, test"),
        (
            "evaluate RUN --batch-size 0",
            "--batch-size 0 is too small. Expected an integer of at least 1",
        ),
        ("evaluate RUN --data BARE --columns claim,answer", "no labels"),
        ("evaluate RUN --data MAYBE", "maybe"),
        ("evaluate SCORES", "does not record what it was trained on"),
        (f"report SCORES --data DATA {AS_OWN}", "returns scores, but a report needs"),
        ("report RUN --transform NumWord --no-baselines", "which of the labels no, yes"),
        ("report RUN --transform BackTrans --no-baselines", "Give --translate MODULE:FUNCTION"),
        ("report RUN --annotations TAGS --no-baselines", "None of the 1 annotated ids"),
        ("compare RUN SEED", "at least two recipes"),
        ("compare RUN OTHER --samples 0", "--samples is 0"),
        (f"train drcn --data DATA {AS_OWN} --out RUN", "already holds"),
        (f"train drcn --data DATA {AS_OWN} --out RUN --resume", "nothing to resume"),
        ("export RUN", "Name the folder to create with --out"),
    ],
)
def test_mistakes_about_a_run_are_one_line(places, trained, capsys, tmp_path, command, words):
    bare = write_pairs(tmp_path / "bare.tsv", 5, label=False)
    (tmp_path / "maybe.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\tmaybe\n")
    (tmp_path / "tags.tsv").write_text("5\tnegation\n")
    shutil.copytree(trained.folder, tmp_path / "seed")
    recipe = (tmp_path / "seed/recipe.toml").read_text()
    (tmp_path / "seed/recipe.toml").write_text(recipe.replace("seed = 3", "seed = 4"))
    more = {
        "BARE": bare,
        "MAYBE": tmp_path / "maybe.tsv",
        "TAGS": tmp_path / "tags.tsv",
        "SEED": tmp_path / "seed",
        "OUT": tmp_path / "out",
    }
    assert words in error_of(capsys, *filled(command, {**places, **more}))


# --- train, evaluate, calibrate, predict: what they leave ---


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
    for name in ("nll", "ece", "accuracy", "f1:yes"):
        assert figures[name] == pytest.approx(report["after"][name], abs=1e-5)
    assert run("calibrate", folder, "--data", trained.data, *COLUMNS) == 0
    out = capsys.readouterr().out
    assert "nll" in out and "temperature" in out and "above" not in out
    again = json.loads((folder / "metrics.json").read_text())["calibration"]
    assert again["rows"] == 18 and again["threshold"] is None
    assert run("calibrate", folder, "--no-temperature") == 0
    assert json.loads((folder / "matcher.json").read_text())["temperature"] == 1


def test_calibrate_for_a_precision_abstains(trained, capsys, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    given = ["--data", trained.data, *COLUMNS]
    matcher = json.loads((folder / "matcher.json").read_text())
    (folder / "matcher.json").write_text(json.dumps(matcher | {"abstain_below": [0.85, 0.85]}))
    assert run("predict", folder, trained.data, *COLUMNS, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert any(row["abstained"] and row["label"] is None for row in rows)
    assert run("predict", folder, trained.data, *COLUMNS) == 0
    label = capsys.readouterr().out.splitlines()[1 + [row["label"] for row in rows].index(None)]
    assert "None" not in label and "\t\tTrue\t" in label
    assert run("calibrate", folder, *given, "--recall", 0.2) == 0
    out = capsys.readouterr().out
    assert "lower_bound" in out and "yes is answered above" in out
    text = (folder / "README.md").read_text("utf-8")
    assert text.count("## Calibration") == 1 and "| yes |" in text and "## Recipe" in text
    line = error_of(capsys, "calibrate", folder, *given, "--precision", 0.999)
    assert "--precision 0.999 cannot be reached for" in line


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
        (folder / "metrics.json").unlink()  # two matchers, not two seeds of one
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


def test_export(trained, capsys, monkeypatch, tmp_path):
    """What `export` passes on and shows; tests/exports has the exporting."""
    asked = []

    def export(matcher, folder, format, *, pairs, tolerance):
        asked.append((matcher.label_names, folder, format, pairs and len(pairs), tolerance))
        spec = {"dtype": "string", "shape": [None]}
        signature = {"inputs": {"sentence1": spec}, "outputs": {"label": spec}}
        return {
            "format": format,
            **signature,
            "pairs": 20,
            "largest_difference": 1e-7,
        }

    monkeypatch.setattr("keras_sentmatch.exports.exporting.export", export)
    out = tmp_path / "out"
    assert run("export", trained.folder, "--out", out) == 0
    captured = capsys.readouterr()
    assert "sentence1" in captured.out and "label" in captured.out
    assert "difference 1.0e-07" in captured.err
    unlabeled = write_pairs(tmp_path / "more.tsv", 7, label=False)
    text = unlabeled.read_text("utf-8").replace("claim\tanswer", "sentence1\tsentence2")
    unlabeled.write_text(text, "utf-8")
    options = f"--format onnx --out {out} --pairs {unlabeled} --tolerance 3e-5 --json".split()
    assert run("export", trained.folder, *options) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "onnx"
    names = asked[0][0]
    assert asked == [(names, out, "saved_model", None, 1e-5), (names, out, "onnx", 7, 3e-5)]


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
    wrong = [*onnx, "--pairs", trained.data]
    assert "Name the folder to create with --out" in error_of(capsys, *wrong) and len(made) == 2
