"""Tables and figures of papers: their files, and a small one made, stopped and made again."""

import csv
import shutil

import numpy as np
import pytest

from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.data.formats import FORMATS
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations.pictures import Picture
from keras_sentmatch.reproduction import _figures, list_artefacts, load_artefact, reproduce
from keras_sentmatch.reproduction import run as module
from keras_sentmatch.reproduction.runs import Settings, runs_of
from keras_sentmatch.transformations import TRANSFORMATIONS

SMALL = ["vectors.source=none", "vectors.dim=4", "model.units=4", "training.batch_size=16"]
TOML = """
title = "Two models"
place = "Table 1"
seeds = 2
{more}
columns = [
  {{name = "SICK", data = "sick"}},
  {{name = "both", metric = ["category:Negation", "change:AddPunc", "mean"], data = "sick"}},
  {{name = "M", metric = "parameters"}},
]
rows = [
  {{name = "ESIM", model = "esim", paper = [80.5, 70, nan, 75, 4.3]}},
  {{name = "ESIM again", model = "esim", paper = [80.5, 70, nan, 75, 4.3]}},
  {{name = "+ FA", preset = "fa", paper = [81, 70, 60, 65, 4.4]}},
  {{name = "CSRAN", paper = [89.7, nan, nan, nan, nan]}},
]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a SICK of 60 pairs."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "sick").mkdir()
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    names = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")
    for part in ("train", "trial", "test_annotated"):
        rows = [
            f"{i}\tA {part} dog runs {i}\tThe dog is{' not' * (i % 2)} here {i}\t3\t{names[i % 3]}\n"
            for i in range(20)
        ]
        (folder / "sick" / f"SICK_{part}.txt").write_text(head + "".join(rows), "utf-8")
    return folder


def write(folder, text=TOML, more=""):
    path = folder / "artefact.toml"
    path.write_text(text.format(more=more) if "{more}" in text else text, "utf-8")
    return path


def cells(found, column="SICK"):
    return {one["row"]: one for one in found["rows"] if one["column"] == column}


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    file = write(folder, more='summary = "best"\nfigure = "bars"\nagainst = "base"')
    return folder, file, reproduce(file, data, folder / "out", epochs=1, overrides=SMALL)


def test_the_table_has_the_papers_figures_next_to_ours(made):
    folder, _, found = made
    shown = cells(found)
    assert shown["ESIM"]["paper"] == 80.5 and 0 <= shown["ESIM"]["mean"] <= 100
    assert shown["ESIM"]["mean"] == shown["ESIM again"]["mean"]
    assert shown["CSRAN"]["note"] == "not built"
    assert shown["+ FA"]["seeds"] == 2 and shown["+ FA"]["best"] >= shown["+ FA"]["mean"]
    assert 0 < cells(found, "M")["ESIM"]["mean"] < 0.1
    parts = [
        cells(found, f"both: {name}")["ESIM"]["mean"] for name in ("Negation", "AddPunc", "mean")
    ]
    # The mean covers all columns before it, so SICK too.
    assert parts[2] == pytest.approx((shown["ESIM"]["mean"] + parts[0] + parts[1]) / 3)
    assert found["runs"] == {"done": 4, "failed": {}}  # two settings, two seeds
    for name in ("table.md", "table.csv", "figure.png"):
        assert (folder / "out" / name).stat().st_size > 100
    table = (folder / "out" / "table.md").read_text("utf-8")
    assert "| 81.0 |" in table and "| 4.4 |" in table  # the decimals of its column
    assert "20 train, 20 validation, 20 test pairs" in found["caption"]
    assert "perhaps the same model: ESIM and ESIM again." in found["caption"]


def test_what_is_done_is_not_done_again(made, data, monkeypatch):
    folder, file, found = made
    again = shutil.copytree(folder / "out", folder / "again")
    lines = (again / "runs.csv").read_text("utf-8").splitlines(keepends=True)
    (again / "runs.csv").write_text("".join(lines[:3]) + lines[3][:20], "utf-8")  # killed
    trained = []
    train = module.train
    monkeypatch.setattr(module, "train", lambda *a, **k: trained.append(a) or train(*a, **k))
    result = reproduce(file, data, again, epochs=1, overrides=SMALL)
    assert not trained  # the runs are finished, only their rows were lost
    assert cells(result) == cells(found)
    with (again / "runs.csv").open(newline="") as rows:
        assert [row["status"] for row in csv.DictReader(rows)].count("done") == 4
    shutil.rmtree(
        next((again / "runs").glob("*seed*"), again / "runs" / "none"), ignore_errors=True
    )


def test_a_run_that_fails_is_noted_and_the_others_go_on(data, tmp_path):
    text = TOML.replace(
        '"ESIM again", model = "esim"', '"Wrong", model = "esim", set = ["model.units=-1"]'
    )
    file = write(tmp_path, text)
    given = {"seeds": 1, "epochs": 1, "overrides": SMALL[:2]}
    found = reproduce(file, data, tmp_path / "out", limit=8, **given)
    assert cells(found)["Wrong"]["note"] == "failed" and len(found["runs"]["failed"]) == 1
    assert cells(found)["ESIM"]["mean"] is not None
    assert "At most 8 pairs" in found["caption"]
    runs = tmp_path / "out" / "runs.csv"  # as after a mend: what failed is done by another line
    rows = list(csv.DictReader(runs.open(encoding="utf-8", newline="")))
    failed = next(row for row in rows if row["status"] == "failed")
    done = next(row for row in rows if row["status"] == "done")
    with runs.open("a", encoding="utf-8", newline="") as lines:
        row = failed | {name: done[name] for name in ("status", "figures", "error")}
        csv.DictWriter(lines, list(row)).writerow(row)
    found = reproduce(file, data, tmp_path / "out", limit=8, **given)
    assert found["runs"] == {"done": 3, "failed": {}}


@pytest.mark.parametrize(
    "change, message",
    [
        (("title", "tittle"), "unknown key 'tittle'. Did you mean title"),
        (("[81,", "["), "the row '+ FA' has 4 figures of the paper for 5 columns"),
        (("seeds = 2", 'kind = "metric"'), "kind is 'metric'. Did you mean metrics"),
        (('metric = "parameters"', 'metric = "f1"'), "metric is 'f1'.*Expected one of 'accuracy'"),
        (('place = "Table 1"', ""), "has no place"),
        (("seeds = 2", "seeds ="), "not valid TOML"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=f"artefact.toml.*{message.replace('+', '.')}"):
        load_artefact(write(tmp_path, TOML.replace(*change)))


def test_unknown_names_and_absent_data_are_refused(tmp_path):
    with pytest.raises(InputError, match="no artefact 'drcn/table6'. Did you mean drcn/table-6"):
        load_artefact("drcn/table6")
    with pytest.raises(InputError, match="SICK: three-way inference.*SICK_train.txt.*in .*sick"):
        reproduce(write(tmp_path), tmp_path, tmp_path / "out")


# What the papers measure, and only their authors' annotations or translations give.
PRINTED = {"category:Paraphrase"}


@pytest.mark.parametrize("name", list_artefacts())
def test_descriptions(name):
    """Every row can be made: models, presets, settings, data, metrics; and fits on a screen."""
    found = load_artefact(name)
    recipes = {run.key(Settings())[:2]: run for run in runs_of(found, Settings())}
    for run in recipes.values():
        recipe = run.recipe(found, Settings(backbones={"base": "tiny", "large": "tiny"}))
        get_model_class(recipe.name).check_arguments(recipe.model)
    assert {row.model for row in found.built} <= {*list_models()}
    assert {*found.data_names} <= {*FORMATS}
    for column in found.columns:
        kind, _, one = column.metric.partition(":")
        assert kind != "change" or one in TRANSFORMATIONS
    assert found.kind == "data" or found.columns or found.pairs


def test_all_of_them():
    """The papers have 39 tables and figures with results."""
    names = list_artefacts()
    papers = [name.partition("/")[0] for name in names]
    count = {paper: papers.count(paper) for paper in papers}
    assert count == {"ladra_net": 11, "drcn": 11, "dabert": 7, "sfa": 7, "din": 3}


HEAD = 'title = "Other kinds"\nplace = "Fig. 1"\n'
PAIRS = 'pairs = [["A dog runs 1", "The dog is here 1", "neutral", "the paper says so"]]\n'


@pytest.mark.parametrize(
    "text, shown",
    [
        (
            f'kind = "maps"\nfigure = "maps"\ntrain_on = "sick"\n{PAIRS}'
            'rows = [{name = "ESIM", model = "esim", show = ["attention_1"]}]\n',
            "the paper says so",
        ),
        (
            'figure = "lines"\nvary = {setting = "model.units", values = [2, 3], label = "width"}\n'
            'columns = [{name = "SICK", data = "sick"}]\nrows = [{name = "ESIM", model = "esim"}]\n',
            "| ESIM | 3 |",
        ),
        (
            'kind = "history"\nfigure = "curves"\ncolumns = [{name = "SICK", data = "sick", metric = "loss"}]\n'
            'rows = [{name = "ESIM", model = "esim"}]\n',
            "At most 12 pairs",
        ),
        (
            'kind = "data"\ncolumns = [{name = "#Train", part = "train", metric = "pairs"}]\n'
            'rows = [{name = "SICK", data = "sick", paper = [4439]}]\n',
            "| SICK | 4,439 | 12 |",
        ),
    ],
)
def test_other_kinds(data, tmp_path, text, shown):
    file = tmp_path / "artefact.toml"
    file.write_text(HEAD + text, "utf-8")
    given = {"epochs": 1, "limit": 12, "overrides": SMALL[:2]}
    found = reproduce(file, data, tmp_path / "out", **given)
    assert not found["runs"]["failed"]
    assert shown in (tmp_path / "out" / "table.md").read_text("utf-8")
    assert (tmp_path / "out" / "figure.png").exists() == ("figure" in text)


def test_a_row_needs_its_pretrained_network(data, tmp_path):
    text = TOML.replace(
        'model = "esim", paper = [80.5, 70, nan, 75, 4.3]}},\n  {{name = "ESIM again"',
        'model = "esim", backbone = "large", paper = [80.5, 70, nan, 75, 4.3]}},\n  {{name = "ESIM again"',
    )
    found = reproduce(
        write(tmp_path, text), data, tmp_path / "out", seeds=1, epochs=1, overrides=SMALL
    )
    assert cells(found)["ESIM"]["note"] == "needs --backbone large=FOLDER"


def test_what_makes_a_row_wins_over_settings_of_all():
    artefact = load_artefact("ladra_net/figure-4b")
    settings = Settings(overrides=("model.steps=2", "model.units=8"))
    models = [run.recipe(artefact, settings).model for run in runs_of(artefact, settings)]
    assert [model["steps"] for model in models[:3]] == [1, 2, 3]
    assert {model["units"] for model in models} == {8}


def test_sizes_are_those_of_the_files(data, tmp_path):
    """No validation pairs are split off a data set that is only counted."""
    (tmp_path / "sick").mkdir()
    shutil.copy(data / "sick" / "SICK_train.txt", tmp_path / "sick")
    text = (
        f'{HEAD}kind = "data"\ncolumns = [{{name = "#Train", part = "train", metric = "pairs"}}]\n'
    )
    file = write(tmp_path, text + 'rows = [{name = "SICK", data = "sick"}]\n')
    (cell,) = reproduce(file, tmp_path, tmp_path / "out")["rows"]
    assert cell["mean"] == 20


def test_another_data_set_in_place_of_the_papers(data, tmp_path):
    """Columns that then measure the same become one, with the first one's figures of the paper."""
    text = HEAD + (
        'columns = [{name = "SNLI", data = "snli"}, {name = "dev", data = "snli", part = "validation"}, '
        '{name = "SciTail", data = "scitail"}]\n'
        'rows = [{name = "ESIM", model = "esim", paper = [88, 87, 80]}]\n'
    )
    given = {"epochs": 1, "limit": 12, "overrides": SMALL}
    found = reproduce(write(tmp_path, text), data, tmp_path / "out", on="sick", **given)
    shown = [(one["column"], one["paper"], one["seeds"]) for one in found["rows"]]
    assert shown == [("SNLI → sick test", 88, 1), ("dev → sick validation", 87, 1)]
    assert "Trained and measured on sick in place of snli, scitail." in found["caption"]
    with pytest.raises(InputError, match="no data set 'sik'. Did you mean sick"):
        reproduce(tmp_path / "artefact.toml", data, tmp_path / "out", on="sik", **given)


def test_categories_by_people_and_a_translation(data, tmp_path):
    shutil.copytree(data / "sick", tmp_path / "sick")
    (tmp_path / "sick" / "annotations.txt").write_text("3\t#NEGATION\n4\t#NEGATION\n", "utf-8")
    metrics = '["category:Negation", "category:Coreference", "change:BackTrans"]'
    text = f'{HEAD}columns = [{{name = "C", data = "sick", metric = {metrics}}}]\n'
    file = write(tmp_path, text + 'rows = [{name = "ESIM", model = "esim"}]\n')
    given = {"epochs": 1, "overrides": SMALL, "translate": lambda texts: [f"so {t}" for t in texts]}
    found = reproduce(file, tmp_path, tmp_path / "out", **given)
    negation, coreference, translated = found["rows"]
    assert negation["mean"] in (0, 50, 100) and translated["seeds"] == 1
    assert coreference["note"] == "not measured"  # the file names none
    assert "Categories of sick: people's, in annotations.txt." in found["caption"]


def test_maps_are_a_grid_of_pairs_and_models():
    artefact = load_artefact("sfa/figure-5")
    picture = Picture("map", "", np.array([[1e-6, 2e-6]]), ("a",), ("b", "c"), ("1", "2"), "shared")
    drawn = module._plain(picture)
    assert drawn["values"] == [[1e-6, 2e-6]], "small values are not equal"
    answers = [{"answer": "x", "pictures": [drawn]} for _ in artefact.pairs]
    results = {(row.name, None): [{"answers": answers}] for row in artefact.built}
    titles = [axis.get_title().split("\n")[0] for axis in _figures._maps(artefact, results).axes]
    models = [row.name for row in artefact.built]
    assert titles == [f"{name}, pair {pair}: x" for pair in (1, 2) for name in models]
