"""`predict FILE` as a stream: formats, and what an interrupted run leaves."""

import csv
import errno
import importlib
import io
import itertools
import json
import shutil
import sys
from types import SimpleNamespace

import keras
import pytest

from keras_sentmatch.applications import ESIM
from keras_sentmatch.cli import main
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference import Matcher, answer_file
from keras_sentmatch.inference.answer_file import AnswerFile
from tests.case import randomize
from tests.cli.test_cli import error_of, run

WORDS = "dog cat bird man runs sleeps eats sings park house".split()
ROWS = [
    {
        "id": f"q{i}",
        "sentence1": f"a {WORDS[i % 4]} {WORDS[4 + i % 3]} {'now ' * (i % 5)}".strip(),
        "sentence2": f"the {WORDS[i % 3]}, {WORDS[5 + i % 4]}",
        "label": ("no", "yes", "-")[i % 3],
    }
    for i in range(23)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = PairDataset([r["sentence1"] for r in ROWS], [r["sentence2"] for r in ROWS])
    encoder = PairEncoder.fit(data, features=("word",))
    model = ESIM(vocabulary_size=encoder.vocabulary_size, num_classes=2, embedding_dim=4, units=3)
    model.jit_compile = False
    folder = tmp_path_factory.mktemp("predict") / "run"
    Matcher(randomize(model), encoder, ("no", "yes"), task="classification").save(folder)
    return folder


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    command = importlib.import_module(
        "keras_sentmatch.cli.predict"
    )  # `cli.predict` is the function
    monkeypatch.setattr(command, "WINDOW", 4)


def write(path, rows=ROWS):
    columns = {name: [row[name] for row in rows] for name in ROWS[0]}
    if path.suffix in (".tsv", ".csv", ".jsonl"):
        path.write_text(answer_file.as_text(columns, path.suffix[1:]))
        return path
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), path, row_group_size=7)
    return path


def read(path):
    """The rows of a file of answers."""
    from keras_sentmatch.data.files import HEADER, TextFile
    from keras_sentmatch.data.formats import FORMATS

    kind = path.suffix[1:] if path.suffix in (".tsv", ".csv", ".jsonl") else "frame"
    rows = FORMATS[kind].layouts[0].rows(TextFile(path))
    return [row for where, row in rows if where != HEADER]


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
def test_every_format_in_and_out(folder, tmp_path, suffix):
    kind = suffix if suffix in answer_file.FORMATS else "jsonl"
    data, out = write(tmp_path / f"in.{suffix}"), tmp_path / "answers" / f"out.{kind}"
    assert run("predict", folder, data, "--out", out) == 0
    answers = read(out)
    matcher = Matcher.load(folder)
    expected = matcher.predict([(r["sentence1"], r["sentence2"]) for r in ROWS])
    assert [a["id"] for a in answers] == [r["id"] for r in ROWS]
    assert [a["gold"] for a in answers] == [r["label"] for r in ROWS]
    assert [a["label"] for a in answers] == [e.label for e in expected]
    shares = [float(a["probability_yes"]) for a in answers]
    assert shares == pytest.approx([e.probabilities["yes"] for e in expected], abs=1e-5)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_answers_are_evaluated_against_the_gold_labels(folder, tmp_path, capsys):
    labeled = [{**row, "label": ("no", "yes")[i % 2]} for i, row in enumerate(ROWS)]
    data, out = write(tmp_path / "in.csv", labeled), tmp_path / "out.csv"
    assert run("predict", folder, data, "--out", out) == 0
    found = []
    for file in (data, out):
        capsys.readouterr()
        assert run("evaluate", folder, "--data", file, "--json") == 0
        found.append(json.loads(capsys.readouterr().out)["accuracy"])
    assert found[0] == found[1] < 1
    assert run("predict", folder, out, "--out", tmp_path / "again.csv") == 0
    assert [row["predicted_label"] for row in read(tmp_path / "again.csv")] == [
        row["label"] for row in read(out)
    ]


def test_cells_that_other_readers_would_break_or_change():
    columns = {"s1": ["a\rb", 'c\n"d"', "é  "], "x": [["p", 1], {"q": None}, 2.5]}
    found = list(csv.reader(io.StringIO(answer_file.as_text(columns, "csv"), newline="")))
    assert [row[0] for row in found] == ["s1", *columns["s1"]]
    assert [row[1] for row in found] == ["x", '["p", 1]', '{"q": null}', "2.5"]
    lines = answer_file.as_text(columns, "jsonl").splitlines()
    assert [json.loads(line)["x"] for line in lines] == columns["x"]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_standard_input_and_output(folder, tmp_path, capsys, monkeypatch, kind):
    data = write(tmp_path / f"in.{kind}")
    assert run("predict", folder, data, "--out", tmp_path / "out.tsv") == 0
    capsys.readouterr()
    with data.open() as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert run("predict", folder, "-") == 0
    captured = capsys.readouterr()
    assert captured.out == (tmp_path / "out.tsv").read_text()
    assert "next:" not in captured.err
    assert run("predict", folder, data, "--json") == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == [r["id"] for r in ROWS]


class Killed(BaseException):
    """What nothing catches, as a kill."""


@pytest.fixture
def job(folder, tmp_path):
    data, out = write(tmp_path / "in.csv"), tmp_path / "out.tsv"
    return SimpleNamespace(data=data, out=out, command=["predict", folder, data, "--out", out])


def interrupted(arguments, monkeypatch, notes, error):
    """Runs a command that ends when it has written answers and is about to note them."""
    keep, count = AnswerFile._keep_note, itertools.count(1)

    def keep_note(self):
        if next(count) == notes:
            raise error
        keep(self)

    with monkeypatch.context() as patch:
        patch.setattr(AnswerFile, "_keep_note", keep_note)
        if isinstance(error, Killed):
            with pytest.raises(Killed):
                main([str(argument) for argument in arguments])
            return 0
        return run(*arguments)


@pytest.mark.parametrize("notes", [1, 4, 7])  # the first one is of no answers
def test_resume_after_a_kill_has_no_row_twice_or_missing(job, tmp_path, monkeypatch, notes):
    assert run(*job.command) == 0
    whole = job.out.read_bytes()
    job.out.unlink()
    interrupted(job.command, monkeypatch, notes, Killed())
    left = {"in.csv", "out.tsv.partial", "out.tsv.partial.json"}
    assert not job.out.exists() and {path.name for path in tmp_path.iterdir()} <= left
    assert run(*job.command, "--resume") == 0
    assert job.out.read_bytes() == whole
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.tsv"}


def test_a_kill_after_the_renaming(job, tmp_path, monkeypatch):
    """The note that is left over does not make a later file of other pairs complete."""
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
        assert run(*job.command) == 0
    write(job.data, ROWS[:5])
    assert run(*job.command, "--resume") == 0 and len(read(job.out)) == 5
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.tsv"}


def test_only_the_same_job_goes_on(job, folder, tmp_path, monkeypatch, capsys):
    interrupted(job.command, monkeypatch, 4, Killed())
    note, resume = tmp_path / "out.tsv.partial.json", [*job.command, "--resume"]
    other = shutil.copytree(folder, tmp_path / "other")
    card = json.loads((other / "matcher.json").read_text())
    (other / "matcher.json").write_text(json.dumps(card | {"temperature": 2.0}))
    changed = [{**ROWS[0], "sentence1": "a bird eats"}, *ROWS[1:]]
    text = note.read_text()
    for rows, noted, arguments, words in (
        (ROWS, text, job.command, "Continue with --resume, or delete"),
        (ROWS, text, [*resume, "--batch-size", 32], "another --batch-size (64, and now 32)"),
        (ROWS, text, [*resume, "--on-error", "skip"], "another --on-error (raise, and now skip)"),
        (ROWS, text, ["predict", other, *resume[2:]], "with another run."),
        (changed, text, resume, "in.csv has changed: its first 8 rows"),
        (ROWS[:5], text, resume, "in.csv has changed"),
        (
            ROWS,
            text.replace('"size": ', '"size": 9'),
            resume,
            "so nothing can be continued; delete",
        ),
    ):
        write(job.data, rows)
        note.write_text(noted)
        assert words in error_of(capsys, *arguments)
    note.write_text(text)
    with (tmp_path / "out.tsv.partial").open("r+b") as held:
        fcntl = pytest.importorskip("fcntl")
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "Another process is writing" in error_of(capsys, *resume)
    assert run(*resume) == 0 and len(read(job.out)) == 23
    for wrong in ([folder, "-", "--out", job.out], [folder, job.data]):
        assert "--resume needs a FILE" in error_of(capsys, "predict", *wrong, "--resume")


def test_a_full_disk_and_ctrl_c_leave_what_can_go_on(job, monkeypatch, capsys):
    full = OSError(errno.ENOSPC, "No space left on device")
    assert interrupted(job.command, monkeypatch, 4, full) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "No space left on device. Make room, then continue after the 8 answers" in line
    resume = [*job.command, "--resume"]
    assert interrupted(resume, monkeypatch, 2, KeyboardInterrupt()) == 130
    assert "out.tsv.partial: continue with --resume" in capsys.readouterr().err
    good = job.data.read_text()
    job.data.write_text(good.replace("q20,", '"'))
    assert "in.csv:" in error_of(capsys, *resume)
    job.data.write_text(good)
    assert run(*resume) == 0
    assert [row["id"] for row in read(job.out)] == [r["id"] for r in ROWS]


def test_files_that_cannot_be_predicted(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    data, torn = write(tmp_path / "in.tsv"), write(tmp_path / "torn.parquet")
    torn.write_bytes(torn.read_bytes()[:-20])
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "header.tsv").write_text("sentence1\tsentence2\n")
    (tmp_path / "bad.tsv").write_text("sentence1\tsentence2\nonly one field\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    for wrong, message in (
        (["torn.parquet"], "torn.parquet is not a whole parquet file"),
        (["empty.tsv"], "empty.tsv has no rows. Expected at least one pair"),
        (["header.tsv"], "header.tsv has no rows. Expected at least one pair"),
        (["bad.tsv", "--on-error", "skip"], "bad.tsv has no usable row ("),
        (["folder"], "folder is a folder. Give a file of pairs."),
        (
            [data, "--out", tmp_path / "folder" / ".." / "in.tsv"],
            "in.tsv, the file of the pairs itself",
        ),
        (["-", "--format", "frame"], "Standard input is read as text"),
        (
            [data, "--out", tmp_path / "folder.csv"],
            "folder.csv is a folder. Name a file for the answers",
        ),
        ([data, "--json"], "ends in .tsv, .csv, .jsonl, and no --json"),
    ):
        file = wrong[0] if wrong[0] == "-" else tmp_path / wrong[0]
        line = error_of(capsys, "predict", folder, file, "--out", tmp_path / "out.tsv", *wrong[1:])
        assert message in line and not list(tmp_path.glob("out*"))
