"""The command line, from what is typed to what is printed, written and returned."""

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
from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.cli import app, catalog, main
from keras_sentmatch.cli import backend as backend_module
from keras_sentmatch.cli.corpus import read_sentences
from keras_sentmatch.cli.options import PANEL
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
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


def test_help_and_mistakes_in_files_load_no_keras_and_no_backend(tmp_path):
    (tmp_path / "odd.tsv").write_text("x1\tx2\tz\na\tb\tyes\n")
    odd = str(tmp_path / "odd.tsv")
    code = (
        "import sys\nfrom keras_sentmatch.cli import main\n"
        "import shlex\nfor command in sys.argv[1:]:\n"
        "    try: main(shlex.split(command))\n"
        "    except SystemExit as end: print('STATUS', end.code or 0)\n"
        "    heavy = {'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules)\n"
        "    assert not heavy, (command, heavy)"
    )
    commands = {
        "--help": 0,
        "train --help": 0,
        "--version": 0,
        "models": 0,
        "models --datasets": 0,
        "train --data missing.tsv": 2,
        f"train --data {odd}": 2,
        f"train --data {odd} --columns x1,x3,z": 2,
        f"tune re2 --data {odd}": 2,
        f"audit {odd}": 2,
        "train nothing": 2,
        "tune nothing": 2,
        "models nothing": 2,
        "evaluate nowhere": 2,
        f"explain nowhere {odd}": 2,
        "export nowhere --out x": 2,
        "serve nowhere": 2,
        "rank similarity a --index nowhere": 2,
        f"report nowhere --data {odd}": 2,
        f"predict nowhere {odd}": 2,
        "mine similarity missing.txt --threshold 0.9": 2,
        "rank similarity a missing.txt": 2,
        f"rank nowhere a {odd} --column x1": 2,
        f"mine nowhere {odd} --column x1": 2,
    }
    done = subprocess.run([sys.executable, "-c", code, *commands], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [int(line.split()[1]) for line in done.stdout.splitlines() if "STATUS" in line]
    assert found == list(commands.values())


def test_commands_and_options_are_few():
    commands = typer.main.get_command(app).commands
    assert len(commands) <= 15
    slots = [p for c in commands.values() for p in c.params if p.param_type_name == "option"]
    assert len(slots) <= 200
    for name, command in commands.items():
        found = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        panels = [getattr(option, "rich_help_panel", None) for option in found]
        assert panels.count(None) <= 15, name
        assert set(panels) <= {None, PANEL} and all(option.help for option in found), name


def test_version_and_usage_errors(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"keras-sentmatch {__version__}\n"
    for wrong in (
        *("train --no-such-option", "train --seeds 0", "train --crossval 1", "train --limit 0"),
        *("evaluate x --batch-size 0", "calibrate x --precision 2", "explain x y --limit 0"),
        *("report x --annotations missing", "mine x y --candidates 0"),
        *("rank x y z --top-k 0", "export x --out y --format h5"),
    ):
        assert run(*wrong.split()) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.startswith("Error: ") and wrong.split()[-2].removeprefix("train") in line


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


def test_a_backend_that_cannot_be_used_is_one_line(monkeypatch, capsys):
    other = next(b for b in ("tensorflow", "jax", "torch") if b != keras.config.backend())
    monkeypatch.setattr(backend_module, "is_installed", lambda name: True)
    assert "already runs" in error_of(capsys, "models", "esim", "--backend", other)
    assert "tensorflow, jax, torch" in error_of(capsys, "models", "esim", "--backend", "theano")
    monkeypatch.setattr(backend_module, "is_installed", lambda name: name != "jax")
    line = error_of(capsys, "models", "esim", "--backend", "jax")
    assert 'pip install "keras-sentmatch[jax]"' in line and "or use --backend" in line


def test_a_model_is_described_by_its_docstring(capsys):
    assert run("models", "esim", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["paper"] == "Chen et al. 2017" and "snli" in found["presets"]
    units = found["arguments"]["units"]
    assert units["default"] == 300 and units["meaning"] and "Defaults" not in units["meaning"]
    assert run("models", "esim") == 0
    assert units["meaning"].split()[0] in capsys.readouterr().out
    arguments = catalog.describe("re2")["arguments"].values()
    assert all(argument["meaning"].endswith(".") for argument in arguments), "to the last one"


def test_the_list_of_models_fits_a_terminal_and_is_right(capsys, quick_weights):
    assert run("models") == 0
    out = capsys.readouterr().out
    assert max(map(len, map(str.rstrip, out.splitlines()))) <= 80
    assert re.search(r"re2 .* 85\.8 +108 +accurate and quick", out)
    assert list(catalog.MODELS) == applications.list_models()
    for name, (parameters, _) in catalog.MODELS.items():
        cls = applications.get_model_class(name)
        if not issubclass(cls, BackboneModel):
            papers = ("bimpm", "cafe", "diin", "drcn", "drr_net")  # that read characters
            given = {"char_vocabulary_size": 100} if name in papers else {}
            model = cls(vocabulary_size=100, **given)
            assert model.count_params_without_word_embeddings() == parameters, name


# --- commands: exit status and what they print ---


@pytest.fixture(scope="module")
def places(trained, scores, tmp_path_factory):
    """The files and folders that the commands of the table name."""
    home = tmp_path_factory.mktemp("places")
    (home / "lines.txt").write_text('a dog 1 runs\n\nthe dog 1 runs\n\'a "cat" 2 sleeps\n')
    (home / "table.csv").write_text("title,price\na dog 1 runs,3\nthe dog 1 runs,4\n")
    (home / "antonyms.txt").write_text("dog cat\nman horse\n")
    Matcher.load(trained.folder).save(home / "other")
    return {
        "RUN": trained.folder,
        "OTHER": home / "other",
        "SCORES": scores,
        "DATA": trained.data,
        "LINES": home / "lines.txt",
        "TABLE": home / "table.csv",
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
        (f"predict RUN DATA {AS_OWN}", "claim answer gold label probability_yes"),
        ("rank RUN 'a dog runs' LINES --label yes", "line sentence score"),
        (
            "rank RUN 'a dog runs' TABLE --column title --save-index INDEX --label yes",
            "sentence score line price",
        ),
        ("rank RUN 'a dog runs' --index INDEX --label yes", "sentence score line price"),
        ("mine RUN LINES --threshold 0", "line1 line2 score sentence1 sentence2"),
        ("mine RUN LINES --threshold 0 --against LINES", "line1 line2 score"),
        ("mine RUN LINES --threshold 0 --groups", "group size representative members"),
        ("mine static LINES --threshold 0", "line1 line2 score sentence1 sentence2"),
        ("rank static 'a dog runs' LINES", "line sentence score"),
        (f"predict static {PAIR}", "score"),
        ("report RUN --no-baselines --limit 9", "run data split accuracy categories errors"),
        (
            "report RUN --transform all --lexicon WORDS --opposite yes,no --limit 40",
            "transformations left_out baselines",
        ),
        ("compare RUN OTHER", "data split matchers pairs"),
        ("models drcn --profile", "backend layers forward_ms train_ms"),
        ("models", "name parameters sick pairs_per_second good_for"),
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
        "compare RUN OTHER",
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


def test_files_that_commands_write(trained, places, capsys, tmp_path, monkeypatch):
    """Reports, pairs and groups, in each format."""
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
    mine = ["mine", trained.folder, places["LINES"], "--threshold", 0, "--out"]
    for suffix, more, lines in (
        ("tsv", [], 4),
        ("jsonl", [], 3),
        ("csv", ["--groups"], 4),
        ("jsonl", ["--groups"], 1),
        ("html", ["--groups"], None),
    ):
        file = tmp_path / "new" / f"{'groups' if more else 'pairs'}.{suffix}"
        assert run(*mine, file, *more) == 0
        text = file.read_text("utf-8")
        assert text.count("\n") == lines or "1 groups hold 3 of 3" in " ".join(text.split())
    assert re.search("^1,3,.*,[13]$", (tmp_path / "new/groups.csv").read_text(), re.M), "lines"
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("keras_sentmatch.display.tables.write_text", lambda *_: 1 / 0)
        run(*mine, tmp_path / "late.tsv")
    assert run(*mine, tmp_path / "late.tsv", "--resume") == 0, "the scores were kept until now"
    assert [path.name for path in tmp_path.glob("late*")] == ["late.tsv"]
    (tmp_path / "taken.csv").write_text("text,size,score,own_score\na dog,S,5,x\na dog,M,6,y\n")
    of_table = ["mine", trained.folder, tmp_path / "taken.csv", "--column", "text", "--groups"]
    assert run(*of_table, "--out", tmp_path / "taken.tsv") == 0
    head, *rows = (tmp_path / "taken.tsv").read_text().splitlines()
    assert head.split("\t")[3:] == "sentence score line own_size own_own_score own_score".split()
    assert [row.split("\t")[1::5] for row in rows] == [["2", "S"], ["2", "M"]], (
        "own columns are kept"
    )
    (tmp_path / "new/none.txt").write_text("a dog\nrain\n")
    mine[2:] = [tmp_path / "new/none.txt", "--threshold", 1]
    for more, head in (
        (["--out", tmp_path / "none.tsv"], "line1\tline2\tsentence1\tsentence2\tscore\n"),
        (["--groups", "--out", tmp_path / "none.tsv"], "group\tsize\trepresentative\tsentence"),
        ([], ""),
    ):
        capsys.readouterr()
        assert run(*mine, *more) == 0
        assert "no sentences match" in capsys.readouterr().err
        assert (tmp_path / "none.tsv").read_text().startswith(head)


def upper(sentences):
    return [sentence.upper() for sentence in sentences]


# --- mistakes: one line that says what to do ---


@pytest.mark.parametrize(
    "command, words",
    [
        ("train nothing", "'nothing'"),
        ("train --epochs 0", "training.epochs is 0"),
        ("train --crossval 2 --seeds 2", "--crossval cannot be combined"),
        ("train --resume", "--resume needs --out"),
        ("train --set training.epoch=1", "Did you mean epochs"),
        ("train --recipe missing.toml", "missing.toml"),
        ("train --data missing.tsv", "no file or folder missing.tsv"),
        ("train --data x --columns a", "--columns is 'a'"),
        ("train esim --backbone bert", "--backbone is bert, but esim has no pretrained backbone"),
        ("tune drr_net --space TT", "search space of drr_net has no 'TT'. It has training."),
        ("tune drr_net --space T,,l_s", "Expected names separated by commas"),
        ("tune drr_net --trials 0", "trials is 0. Expected at least 1"),
        ("tune drr_net --resume", "--resume needs --out"),
        ("models nothing --profile", "'nothing'"),
        ("models --profile", "a MODEL, optionally with --profile"),
        ("models drcn --set model.units=9", "--set only with --profile"),
        ("models drcn --datasets", "Expected --datasets alone"),
        ("predict nowhere --sentence1 a --sentence2 b", "nowhere is not a run folder"),
        ("predict nowhere", "either a FILE of pairs, or both"),
        ("predict nowhere x.tsv --sentence1 a --sentence2 b", "either a FILE of pairs, or both"),
        ("predict nowhere --sentence1 a --sentence2 b --out x.tsv", "need a FILE"),
        ("predict nowhere x.tsv --out x.doc", "ends in .tsv"),
        ("predict nowhere x.tsv", "nowhere is not a run folder"),
        ("rank nowhere a", "either as a file, or as an index with --index"),
        ("rank nowhere a x.txt", "x.txt cannot be read"),
        ("rank nowhere a x.txt --candidates 9", "--candidates needs an index"),
        ("rank nowhere a --index x --column a", "--column names a column of a file"),
        ("mine similarity x.txt --column a --threshold 1", "x.txt has one sentence per line"),
        ("mine nowhere x.txt --groups --against y.txt", "--groups cannot be combined"),
        ("mine nowhere x.txt --out x.html", "ends in .tsv, .csv, .jsonl"),
        ("mine nowhere x.txt --resume", "--resume needs --out"),
        ("mine nowhere x.txt", "nowhere is not a run folder"),
        ("evaluate nowhere", "nowhere is not a run folder"),
        ("evaluate nowhere --format tsv", "--data, which is missing"),
        ("report nowhere --transform SwapAnts", "Did you mean SwapAnt?"),
        ("report nowhere --lexicon none.txt", "none.txt"),
        ("report nowhere --translate nothing --transform all", "Expected MODULE:FUNCTION"),
        ("report nowhere --opposite yes --transform all", "Expected two label names"),
        ("report nowhere --held-out", "need --transform"),
        ("compare nowhere elsewhere", "nowhere is not a run folder"),
        ("explain x --sentence1 a --sentence2 b --out y", "a name that ends in .html"),
        ("explain x --sentence1 a --sentence2 b --limit 2", "--limit needs a FILE"),
        ("explain nowhere --sentence1 a --sentence2 b", "nowhere is not a run folder"),
        ("export nowhere --out x", "nowhere is not a run folder"),
        ("compare --train a b --data x --split test", "--split cannot be combined with --train"),
        ("compare --train a b --engine onnx", "--engine cannot be combined with --train"),
        ("mine similarity x.txt", "--threshold, the lowest one of a match, is needed"),
        ("serve nowhere", "nowhere is not a run folder"),
        ("rank nowhere a --index x", "x is no index"),
        ("serve a b/a", "the name 'a' is empty or used twice"),
        ("serve a --set pairs=none", "Expected LIMIT=NUMBER"),
        ("serve a --api-key-file none", "none cannot be read"),
    ],
)
def test_mistakes_are_one_line(capsys, monkeypatch, tmp_path, command, words):
    monkeypatch.chdir(tmp_path)
    assert words in error_of(capsys, *shlex.split(command))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["matplotlib", "sklearn", "tomli_w"])
def test_what_an_installation_without_keras_lacks_is_named(capsys, monkeypatch, tmp_path, package):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    if package == "tomli_w":
        monkeypatch.delitem(sys.modules, "keras_sentmatch.training.recipe", raising=False)
    said = error_of(capsys, "train", "bag_of_words", "--out", "run")
    assert (
        f'needs {package}, which is not installed. Run pip install "keras-sentmatch[train]"' in said
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command, words",
    [
        ("evaluate RUN --split nosuch", "It has train, validation, test"),
        ("evaluate RUN --data BARE --columns claim,answer", "no labels"),
        ("evaluate RUN --data MAYBE", "maybe"),
        ("evaluate SCORES", "does not record what it was trained on"),
        (f"report SCORES --data DATA {AS_OWN}", "returns scores, but a report needs"),
        ("report RUN --transform NumWord --no-baselines", "which of the labels no, yes"),
        ("report RUN --transform BackTrans --no-baselines", "Give --translate MODULE:FUNCTION"),
        ("report RUN --annotations TAGS --no-baselines", "None of the 1 annotated ids"),
        (f"calibrate COPY --data DATA {AS_OWN} --precision 0.999", "--precision 0.999 cannot be"),
        ("compare RUN SEED", "at least two recipes"),
        (f"train drcn --data DATA {AS_OWN} --out RUN", "already holds"),
        (f"train drcn --data DATA {AS_OWN} --out RUN --resume", "There is nothing to resume"),
        ("predict RUN TORN", "torn.tsv:5"),
        ("predict RUN nowhere.tsv", "no file or folder nowhere.tsv"),
        ("rank RUN a BYTES", "byte"),
        ("rank RUN a TABLE", "has the columns title, price, and no text under 'sentence'"),
        ("mine RUN CUT --column title", "cut.csv:3: "),
        ("mine RUN EMPTY --column title", "empty.csv contains no sentences"),
        ("mine RUN EMPTY --column title --out EMPTY", "a file of the sentences. Name another file"),
        ("mine RUN PIPE", "pipe is a folder, a device or a pipe. Give a file of sentences"),
        ("rank RUN a PIPE", "pipe is a folder, a device or a pipe. Give a file of sentences"),
        (f"explain static {PAIR}", "needs a model, and static similarity has none"),
        ("mine RUN LINES --out FOLDER.tsv", "folder.tsv, a folder. Name a file"),
        ("mine RUN LINES --out OUT.tsv", "Continue with --resume, or delete it"),
    ],
)
def test_mistakes_about_a_run_or_a_file_are_one_line(places, capsys, tmp_path, command, words):
    files = {
        "bare.tsv": "claim\tanswer\na\tb\n",
        "maybe.tsv": "sentence1\tsentence2\tlabel\na\tb\tmaybe\n",
        "tags.tsv": "5\tnegation\n",
        "torn.tsv": "sentence1\tsentence2\n" + "a\tb\n" * 3 + "only one field\n",
        "bytes.txt": b"rain\n\xff",
        "cut.csv": "title,price\nrain,3\nsnow\n",
        "empty.csv": "title,price\n",
        "out.tsv.partial": "0.5\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("seed", "copy"):
        shutil.copytree(places["RUN"], tmp_path / name)
    recipe = (tmp_path / "seed/recipe.toml").read_text()
    (tmp_path / "seed/recipe.toml").write_text(recipe.replace("seed = 3", "seed = 4"))
    more = {name.partition(".")[0].upper(): tmp_path / name for name in (*files, "seed", "copy")}
    more |= {"OUT": tmp_path / "out", "OUT.tsv": tmp_path / "out.tsv"}
    more["FOLDER.tsv"] = tmp_path / "folder.tsv"
    more["FOLDER.tsv"].mkdir()
    more["PIPE"] = tmp_path / "pipe"
    os.mkfifo(more["PIPE"])
    assert words in error_of(capsys, *filled(command, {**places, **more}))


@pytest.mark.once
def test_sentences_keep_the_columns_of_all_records(tmp_path):
    """A column that the first record does not have is none that is lost."""
    file = tmp_path / "x.jsonl"
    records = [{"text": "a"}, {"id": 7, "text": "b"}, {"text": "c", "line": "x", "own_line": 1}]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    (rows,) = read_sentences("text", [file], ("line", "sentence"))
    assert rows == [
        {"line": 1, "sentence": "a", "id": "", "own_own_line": "", "own_line": ""},
        {"line": 2, "sentence": "b", "id": 7, "own_own_line": "", "own_line": ""},
        {"line": 3, "sentence": "c", "id": "", "own_own_line": "x", "own_line": 1},
    ]


# --- train, evaluate, calibrate, predict: what they leave ---


@pytest.mark.each_backend
def test_train_evaluate_and_predict_agree(trained, capsys):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    assert metrics["backend"] == keras.config.backend() and metrics["seed"] == 3
    assert metrics["baseline"]["test"]["accuracy"] > 0
    assert run("evaluate", trained.folder, "--json") == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["split"] == "test" and result["rows"] == metrics["rows"]["test"] < 120
    assert result["accuracy"] == pytest.approx(metrics["test"]["accuracy"], abs=1e-6)
    pair = ["--sentence1", "the dog 1 runs", "--sentence2", "a zebra " * 9]
    assert run("predict", trained.folder, *pair, "--json") == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert set(answer["probabilities"]) == {"no", "yes"}
    assert "1 (50.0%) sentences truncated" in captured.err and "unknown" in captured.err
    assert run("predict", trained.folder, *pair) == 0
    assert capsys.readouterr().out.strip().splitlines()[-1] == answer["label"]


def test_train_shows_baselines_seeds_and_interruptions(trained, capsys, monkeypatch, tmp_path):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    metrics["test"]["accuracy"], metrics["baseline"]["test"]["accuracy"] = 0.8765, 0.4321
    monkeypatch.setattr(training, "train", lambda *_, **__: SimpleNamespace(metrics=metrics))
    again = ["train", "--data", trained.data, *COLUMNS, "--out"]
    assert run(*again, tmp_path / "run") == 0
    shown = capsys.readouterr()
    row = next(r for r in shown.out.splitlines() if "accuracy" in r)
    assert "0.8765" in row and "0.4321" in row
    assert re.search("next: .* predict .* --sentence1 'the .* runs' ", shown.err), "own pairs"
    metrics["interrupted"] = True
    assert run(*again, tmp_path / "run") == 130

    def stop(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", stop)
    assert run(*again, tmp_path / "run") == 130
    figures = {"mean": {"accuracy": 0.61}, "sd": {"accuracy": 0.02}, "ensemble": {"accuracy": 0.71}}

    def train_ensemble(recipe, splits, out, seeds, **more):
        for seed in seeds:
            shutil.copytree(trained.folder, out / f"seed-{seed}")
        return None, {"seeds": list(seeds), "interrupted": False, "test": figures}

    monkeypatch.setattr(training, "train_ensemble", train_ensemble)
    capsys.readouterr()
    assert run(*again, tmp_path / "e", "--seed", 4, "--seeds", 2) == 0
    assert sorted(path.name for path in (tmp_path / "e").iterdir()) == ["seed-4", "seed-5"]
    row = next(r for r in capsys.readouterr().out.splitlines() if "test accuracy" in r)
    assert "0.6100" in row and "0.0200" in row and "0.7100" in row


def test_calibrate_keeps_what_it_finds(trained, capsys, tmp_path):
    folder = shutil.copytree(trained.folder, tmp_path / "run")
    old = json.loads((folder / "metrics.json").read_text())
    assert run("calibrate", folder, "--threshold", "f1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["split"] == "validation" and report["rows"] == old["rows"]["validation"]
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
    given = ["--data", trained.data, *COLUMNS]
    changed(folder, abstain_below=[0.85, 0.85])
    assert run("predict", folder, trained.data, *COLUMNS, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert any(row["abstained"] and row["label"] is None for row in rows)
    assert run("predict", folder, trained.data, *COLUMNS) == 0
    label = capsys.readouterr().out.splitlines()[1 + [row["label"] for row in rows].index(None)]
    assert "None" not in label and "\t\tTrue\t" in label
    assert run("calibrate", folder, *given, "--recall", 0.2) == 0
    out = capsys.readouterr().out
    assert "lower_bound" in out and "yes is predicted above" in out
    text = (folder / "README.md").read_text("utf-8")
    assert text.count("## Calibration") == 1 and "| yes |" in text and "## Recipe" in text
    cards = (folder / "matcher.json").read_bytes()
    shutil.copytree(folder, tmp_path / "ensemble" / "seed-0")
    (tmp_path / "ensemble/ensemble.json").write_text('{"seeds": [0]}')
    assert run("calibrate", tmp_path / "ensemble", *given) == 0
    kept = json.loads((tmp_path / "ensemble/ensemble.json").read_text())
    assert kept["temperature"] == kept["calibration"]["temperature"]
    assert (tmp_path / "ensemble/seed-0/matcher.json").read_bytes() == cards


def test_a_run_remembers_its_columns(trained, capsys, tmp_path):
    """Also for a file without labels; options that were given take precedence."""
    data = write_pairs(tmp_path / "new.tsv", 5, label=False)
    for arguments in ([trained.data], [data]):
        assert run("predict", trained.folder, *arguments) == 0
        shown = capsys.readouterr()
        assert "columns as in training: claim,answer" in shown.err and "the dog" in shown.out
    bad = tmp_path / "bad.tsv"
    bad.write_text(data.read_text().replace("\n", "\nonly one field\n", 1))
    assert "bad.tsv:2: there are 1 tab-sep" in error_of(capsys, "predict", trained.folder, bad)
    assert run("predict", trained.folder, bad, "--on-error", "skip") == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert run("evaluate", trained.folder, "--data", trained.data) == 0
    own = tmp_path / "own.tsv"
    own.write_text("sentence1\tsentence2\na\tb\n")
    assert run("predict", trained.folder, own) == 0
    capsys.readouterr()
    assert "no column" in error_of(capsys, "predict", trained.folder, own, *COLUMNS)


def changed(folder, **changes):
    """A run folder whose card has other values."""
    card = json.loads((folder / "matcher.json").read_text())
    (folder / "matcher.json").write_text(json.dumps(card | changes))
    return folder


@pytest.mark.parametrize("command", ["evaluate", "compare", "report", "calibrate"])
@pytest.mark.parametrize(
    "source",
    [
        {"data": "snli/data_dir=evil,download=True", "format": "tfds"},
        {"data": "tfds:snli", "format": None},
        {"data": "TFDS:snli", "format": None},
        {"data": "hf://evil/data", "format": None},
        {"data": "x", "format": "tfds:snli/data_dir=evil:"},
        {"data": "x", "format": "nosuch"},
        {"data": "x", "on_error": "nosuch"},
    ],
)
def test_a_source_that_a_run_records_is_never_downloaded(
    trained, capsys, monkeypatch, tmp_path, command, source
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    runs = [tmp_path / "one", tmp_path / "two"]
    for folder in runs:
        shutil.copytree(trained.folder, folder)
        (folder / "metrics.json").unlink()  # two matchers, not two seeds of one
        info = {"model": "drcn", "source": {"columns": None, "on_error": "raise", **source}}
        changed(folder, info=info)
    line = error_of(capsys, command, *runs[: 2 if command == "compare" else 1])
    assert "info.source in" in line and "--data" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_controls_in_names_do_not_reach_the_terminal(trained, capsys, tmp_path):
    names = ["no\x1b[2J", "yes\x9b31m\n\u202ethe answer"]
    folder = changed(shutil.copytree(trained.folder, tmp_path / "run"), label_names=names)
    other = changed(
        shutil.copytree(trained.folder, tmp_path / "other"),
        versions={"keras_sentmatch": "\x1b[5m9"},
        format=9,
    )
    pair = ["--sentence1", "the dog runs", "--sentence2", "a cat\x1b]0;x\x07 runs"]
    data = tmp_path / "own.tsv"
    data.write_text("sentence1\tsentence2\tlabel\na\tb\t\x1b[31mred\n")
    for status, arguments in (
        (0, ["predict", folder, *pair]),
        (0, ["predict", folder, *pair, "--json"]),
        (2, ["evaluate", folder, "--data", data]),
        (2, ["evaluate", folder]),
        (2, ["evaluate", other]),
    ):
        assert run(*arguments) == status, capsys.readouterr()
        shown = "".join(capsys.readouterr())
        assert re.search(r"\\u001b|\\x1b", shown), arguments
        assert not set("\x1b\x9b\x07\u202e") & set(shown), arguments


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


def test_export_passes_on_what_was_asked(trained, capsys, monkeypatch, tmp_path):
    """tests/exports has the exporting."""
    asked = []

    def export(matcher, folder, format, *, tolerance, pairs):
        asked.append((format, pairs and len(pairs), tolerance))
        spec = {"dtype": "string", "shape": [None]}
        named = {"inputs": {"sentence1": spec}, "outputs": {"label": spec}}
        return {"format": format, **named, "pairs": 20, "largest_difference": 1e-7}

    monkeypatch.setattr("keras_sentmatch.exports.exporting.export", export)
    data = tmp_path / "more.tsv"
    data.write_text("sentence1\tsentence2\n" + "a\tb\n" * 7)
    to = ["export", trained.folder, "--out", tmp_path / "out"]
    assert run(*to) == 0
    captured = capsys.readouterr()
    assert "sentence1" in captured.out and "label" in captured.out
    assert "difference 1.0e-07" in captured.err
    assert run(*to, *f"--format onnx --pairs {data} --tolerance 3e-5 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "onnx"
    assert asked == [("saved_model", None, 1e-5), ("onnx", 7, 3e-5)]
