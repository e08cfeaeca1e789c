"""Explanations of every model: arrays without padding, pictures, occlusion, pages."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import list_models
from keras_sentmatch.applications.picture_specs import PictureSpec
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.colors import NIGHT_PALETTES, PALETTES, Scale, is_dark
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations import explain
from keras_sentmatch.explanations._occlusion import Effect, erasable, erase
from keras_sentmatch.explanations.explanation import Explanation, save_overview
from keras_sentmatch.explanations.pictures import format_short, make_pictures
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from tests.toys.matchers import NAMES, make

pytestmark = pytest.mark.usefixtures("without_tracing")
ONE, TWO = "A big dog runs in the park, and two small zebras run.", "The animal moves."
VARIANTS = [
    *((name, {}) for name in list_models()),
    ("esim", {"feature_attention": "fa"}),
    ("esim", {"feature_attention": "sfa"}),
    ("drcn", {"feature_attention": "sfa"}),
]
SUM_TO_ONE = re.compile(r".*attention_.*|affinity_\d|difference_\d|pool_rates_.|selection(_.)?")
OF_FEATURES = re.compile(r"selection_.")  # of hosts: the branches of each feature sum to 1
# Recurrent, re-reading, on an encoder: what the others show is computed in the same ways.
EVERYWHERE = ("drr_net", "dabert", "re2")
each_variant = pytest.mark.parametrize(
    "name, options",
    [
        pytest.param(*variant, marks=() if variant[0] in EVERYWHERE else pytest.mark.once)
        for variant in VARIANTS
    ],
    ids=lambda x: x if isinstance(x, str) else "".join(x.values()),
)


class Cells(HTMLParser):
    """Counts the colored cells of each figure, and collects tags, words and all text."""

    def __init__(self, html: str):
        super().__init__()
        self.counts: list[int] = []
        self.tags: list[str] = []
        self.words: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        style = dict(attrs).get("class") or ""
        if tag == "figure":
            self.counts.append(0)
        elif tag == "td" and re.match(r"[sdx]", style):
            self.counts[-1] += 1
        elif style.startswith("word"):
            self.words.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def cells_of(explanation: Explanation) -> list[int]:
    return [picture.values.size for picture in explanation.pictures]


@pytest.mark.each_backend
@each_variant
def test_every_model_is_explained(name, options):
    matcher = make(name, **options)
    found = explain(matcher, ONE, TWO, erasure=False)
    answer = matcher.predict(ONE, TWO)
    assert found.label == answer.label and found.effects is None
    assert found.probabilities == pytest.approx(answer.probabilities, abs=1e-6)
    assert found.tokens == matcher.encoder.pair_tokens(ONE, TWO)
    notes = [] if "joint" in found.tokens else ["Not in the vocabulary: zebras."]
    explainer = matcher.explainer()
    if name == "hyper_lstm":
        assert explainer is None and not found.pictures and not found.values
        assert found.notes == [*notes, "HyperLSTM has no attention to draw."]
        return
    assert found.notes == notes
    assert set(found.values) == set(explainer.output) - {"probabilities"}
    assert {key for picture in found.pictures for key in picture.keys} == set(found.values)
    for picture in found.pictures:
        assert picture.values.shape == (len(picture.rows), len(picture.columns))
        assert np.isfinite(picture.values).all()
        for axis, names in zip(picture.axes, (picture.rows, picture.columns)):
            assert axis not in found.tokens or list(names) == found.tokens[axis]
        assert picture.scale.low <= picture.values.min() <= picture.scale.high
        assert picture.values.max() <= picture.scale.high + 1e-6
        zeros = ~picture.values.any(axis=1)
        assert picture.axes[0] in found.tokens or not zeros.any() or zeros.all()
    for key, array in found.values.items():
        if OF_FEATURES.fullmatch(key) and options:
            np.testing.assert_allclose(array.sum(-2), 1, atol=1e-5)
        elif SUM_TO_ONE.fullmatch(key):  # so nothing but padding was cut off
            np.testing.assert_allclose(array.sum(-1), 1, atol=1e-5, err_msg=key)
    page = Cells(found.html)
    assert page.counts == cells_of(found) and sum(page.counts) > 0
    assert not {"link", "iframe", "script"} & set(page.tags)


def test_what_each_paper_shows():
    """A picture of each kind, by its title."""

    def titles(name, **options):
        found = explain(make(name, **options), ONE, TWO, erasure=False)
        return {picture.title: picture for picture in found.pictures}, found.values

    drr, values = titles("drr_net")
    read = drr["Words read again, sentence 2"]
    assert read.reread and read.rows == ("step 1", "step 2", "step 3", "step 4")
    for row, (word, weight) in zip(values["selection_2"], read.steps):
        assert word == read.columns[row.argmax()] and weight == row.max()
    assert drr["Gates of these predictions"].rows == (
        "from the global vectors", "from the re-read vectors",
    )  # fmt: skip
    drcn, values = titles("drcn")
    for number, layer in enumerate(values["attention_1"], 1):
        picture = drcn[f"Attention, sentence 1: layer {number}"]
        np.testing.assert_array_equal(picture.values, layer)
    assert drcn["Max-pool rates, sentence 2"].values.shape == (1, 4)
    ladra, _ = titles("ladra_net")
    assert ladra["Read again: phrases of 3"].reread and "Coverage: tokens" in ladra
    assert ladra["Weights of the units"].columns == ("tokens", "phrases of 2", "phrases of 3")
    assert ladra["Weights of the units"].numbered
    dabert, values = titles("dabert")
    affinity = dabert["Affinity attention, layer 1"].values
    np.testing.assert_allclose(affinity, values["affinity_0"].mean(0))  # of the heads
    assert dabert["Fusion gates, layer 1"].rows == ("share of affinity g", "let through f")
    assert titles("din")[0]["Gates made at each word of sentence 2"].values.shape == (3, 4)
    esim, _ = titles("esim")
    one, two = esim["Attention, sentence 1"], esim["Attention, sentence 2"]
    assert (one.axes, two.axes) == (("1", "2"), ("2", "1"))  # rows attend to columns
    encoded = make("esim").encoder.encode([ONE], [TWO], length=24)
    shown = keras.ops.convert_to_numpy(make("esim").explainer()(encoded)["attention_2"])[0]
    np.testing.assert_allclose(two.values, shown[:4, : len(one.rows)], atol=1e-5)
    sfa, _ = titles("esim", feature_attention="sfa")
    assert not sfa["Feature-averaged dot product, before the blocks"].numbered
    assert sfa["Weights of the branches, sentence 2"].rows == ("branch 1", "branch 2", "branch 3")


def test_a_bag_of_words_is_explained_by_its_weights():
    found = explain(make("bag_of_words"), "a dog runs", "the dog zoo")
    model = make("bag_of_words").model
    words = [found.values[f"weights_{side}"] for side in "12"]
    assert [array.shape for array in words] == [(3, 3), (3, 3)] and not words[1][2].any()
    parts = (*words, found.values["weights_of_features"])
    logits = sum(part.sum(0) for part in parts) + keras.ops.convert_to_numpy(model.wide.logits.bias)
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(list(found.probabilities.values()), expected, atol=1e-5)
    assert found.pictures[0].rows == NAMES and found.pictures[0].columns == ("a", "dog", "runs")
    rows = explain(make("hybrid"), "a dog runs", "the dog zoo", erasure=False).pictures[-1].rows
    assert "shared, sentence 1" in rows and not any("_" in row for row in rows)


def test_many_pairs_and_pairs_that_are_cut():
    matcher = make("esim")
    matcher.encoder.reset_report()
    pairs = PairDataset([ONE, "dog " * 60], ["", TWO], ["neutral", "entailment"], label_names=NAMES)
    with pytest.warns(UserWarning, match="more than 48 tokens"):
        empty, long = explain(matcher, pairs)
    assert (empty.gold, long.gold) == ("neutral", "entailment")
    assert empty.tokens["2"] == [] and not empty.pictures
    assert "no picture of attention_1, attention_2, feature_map_base" in empty.notes[-1]
    assert "(no words)" in empty.html and {effect.side for effect in empty.effects} == {1}
    assert len(long.tokens["1"]) == 48 and long.pictures[0].values.shape == (48, 4)
    assert "too long for the model" in long.notes[0]
    assert explain(make("cross_encoder"), "", "").pictures


def test_arrays_become_pictures_by_their_specs():
    tokens = {"1": ["a", "b", "c"], "2": ["d", "e"]}
    rng = np.random.default_rng(0)
    arrays = {"wide_1": rng.random((8, 160)), "gates_1": rng.random((3, 600)), "odd": np.ones(5)}
    shapes = {"wide_1": (None, 160), "gates_1": (3, 600), "odd": (5,)}

    class Model:
        pictures = (
            PictureSpec("gates_{side}", "part feature", "Gates {side}"),
            PictureSpec("wide_{side}", "{side} feature", "Wide", row="all"),
        )

    values, pictures, notes = make_pictures(arrays, shapes, tokens, NAMES, Model)
    assert notes == ["odd is not drawn: no PictureSpec of the model fits it."]
    gates, wide = pictures
    assert (gates.title, wide.title) == ("Gates 1: mean of 600", "Wide: mean of 160")
    np.testing.assert_allclose(gates.values[0], arrays["gates_1"].mean(1))
    assert wide.columns == ("a", "b", "c") and values["wide_1"].shape == (3, 160)


# --- occlusion ---


@pytest.mark.parametrize(
    "text, erased",
    [
        ("A dog runs.", ["dog runs.", "A runs.", "A dog ."]),
        ("Dogs", [""]),
        ("don't  go", ["go", "don't"]),
        ("", []),
        ("hi 🐕 !", ["🐕 !", "hi !", "hi 🐕"]),
        ("狗跑。", ["跑。", "狗。"]),
        ("วิ่ง a", ["ง a", "วิ่ a", "วิ่ง"]),  # marks stay with their letter
        ("שלום עולם", ["עולם", "שלום"]),
    ],
)
def test_erasing(text, erased):
    assert [erase(text, word) for word in erasable(text)] == erased


@pytest.mark.parametrize("name", ["esim", "cross_encoder"])
def test_effects_are_what_predict_says_of_erased_sentences(name, monkeypatch):
    matcher, sizes = make(name), []
    plain = type(matcher).predict_proba
    monkeypatch.setattr(
        type(matcher), "predict_proba",
        lambda self, pairs, **options: sizes.append(len(pairs)) or plain(self, pairs, **options),
    )  # fmt: skip
    found = explain(matcher, "A dog runs.", "no cat")
    assert sizes == [1, 5], "all variants in one call"
    monkeypatch.undo()
    one = ["dog runs.", "A runs.", "A dog .", *["A dog runs."] * 2]
    two = [*["no cat"] * 3, "cat", "no"]
    answers = matcher.predict(sentence1=one, sentence2=two)
    assert [(e.side, e.word) for e in found.effects] == [
        (1, "A"), (1, "dog"), (1, "runs"), (2, "no"), (2, "cat"),
    ]  # fmt: skip
    full = found.probabilities[found.label]
    expected = [full - answer["probabilities"][found.label] for answer in answers]
    got = [effect.change for effect in found.effects]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert np.abs(got).max() > 1e-4
    labels = [effect.answer or found.label for effect in found.effects]
    assert labels == [answer.label for answer in answers]


def test_scores_and_ensembles_have_effects_too():
    matcher = make("esim", num_classes=1)
    found = explain(matcher, "A dog runs.", "no cat")
    assert found.label is None and found.probabilities == {}
    without = matcher.predict_proba(sentence1=["dog runs."], sentence2=["no cat"])
    assert found.effects[0].change == pytest.approx(found.score - without[0], abs=1e-6)
    assert found.summary().startswith(f"The score is {found.score:.4f}.\n")
    ensemble = EnsembleMatcher([make("din"), make("esim")])
    found = explain(ensemble, "A dog runs.", "no cat")
    assert not found.pictures and "mean of 2 matchers" in found.html
    without = ensemble.predict(sentence1="A runs.", sentence2="no cat").probabilities
    expected = found.probabilities[found.label] - without[found.label]
    assert found.effects[1].change == pytest.approx(expected, abs=1e-6)


def test_what_needs_tags_is_not_erased():
    matcher = make("esim")
    matcher.encoder.features, before = ("word", "pos"), matcher.encoder.features
    tags = {"tags_1": [["D", "N"]], "tags_2": [["D", "N"]]}
    try:
        (found,) = explain(matcher, PairDataset(["a dog"], ["a cat"], columns=tags))
    finally:
        matcher.encoder.features = before
    assert found.effects is None and "part-of-speech" in found.notes[-1] and found.pictures


# --- pages ---

NASTY = "<script>alert(1)</script> & \"quotes\" 'single' <img src=x> 🐕 שלום $5 $6 " + "x" * 300


def test_words_are_escaped_and_no_script_may_run(tmp_path):
    found = explain(make("esim"), NASTY, "a <b> & \ud83d")
    found.label, found.gold = "<script>", "<em>"
    found.probabilities = {"<script>": 0.5, "</style>": 0.5}
    found.facts["run"], found.notes = "<u>", ["<s>"]
    page = Cells(found.html)
    assert page.tags.count("style") == 1 and "<script>alert" in page.text
    assert not {"img", "em", "u", "s", "script"} & set(page.tags) and "<img src=x>" in page.text
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', found.html)
    assert policy.startswith("default-src 'none'; ") and "script-src" not in policy
    assert not re.findall(r"""(?:src|href)=["']?(?!data:)""", found.html.replace("src=x", ""))
    (tmp_path / "new").mkdir()
    (tmp_path / "new/page.html").symlink_to(tmp_path / "secret")
    path = found.save(tmp_path / "new" / "page.html")
    assert not (tmp_path / "secret").exists(), "links are replaced, not followed"
    assert "\\ud83d" in path.read_text("utf-8")  # a lone surrogate has no UTF-8
    frame = found._repr_html_()
    assert frame.count("<") == 2 and frame.startswith("<iframe sandbox srcdoc=")
    index = tmp_path / "index.html"
    save_overview(index, [("a.html", found)], "All of <them>")
    assert "All of &lt;them&gt;" in index.read_text() and "a &lt;b&gt;" in index.read_text()
    with pytest.raises(InputError, match="Cannot write"):
        found.save(path / "below-a-file.html")


def effects(*changes: tuple[float, str]) -> list[Effect]:
    places = [(1, "Dogs", 0), (1, "run", 5), (1, "not", 9), (2, "Dogs", 0), (2, "sleep", 5)]
    return [Effect(*place, *change) for place, change in zip(places, changes)]


def test_the_prediction_comes_first_then_the_words_that_decided():
    found = Explanation(
        "Dogs run not.", "Dogs sleep.", {"yes": 0.9, "no": 0.1}, "yes", None, gold="no",
        effects=effects((0.5, "no"), (0.01, ""), (-0.2, ""), (0.3, "maybe"), (0.05, "no")),
    )  # fmt: skip
    assert found.summary().splitlines() == [
        "The prediction is yes, with a probability of 90.0%.",
        "The data says no.",
        "Words that support it: Dogs₁ +0.50, Dogs₂ +0.30, sleep₂ +0.05.",
        "Words that oppose it: not₁ -0.20.",
        "Without Dogs₂, the prediction would be maybe.",
        "Without any one of Dogs₁, sleep₂, the prediction would be no.",
    ]
    page = Cells(found.html)
    places = [page.text.index(line) for line in (*found.summary().splitlines(), "Word by word")]
    assert places == sorted(places)
    styles = [word["class"].split()[1:] for word in page.words]
    assert styles == [
        ["d32", "flip", "labeled"], ["d16"], ["d10", "labeled"],
        ["d26", "flip", "labeled"], ["d18", "flip"],
    ]  # fmt: skip
    assert page.words[0]["title"] == "+0.5000, without it no"
    texts = ["".join(word.before + word.text for word in found.words(side)) for side in (1, 2)]
    assert texts == [found.sentence1, found.sentence2]
    quiet = replace(found, effects=effects(*[(0.001, "")] * 5), gold=None)
    assert quiet.summary().splitlines()[1:] == ["No single word changes it much."]
    unsure = replace(found, abstained=True)
    line = "The matcher abstains; the most probable label is yes, with a probability of 90.0%."
    assert unsure.summary().splitlines()[0] == line
    assert line in Cells(unsure.fragment).text and "The prediction is" not in found.fragment


def drawn(array, tokens):
    """The styles of the cells of one map."""

    class Model:
        pictures = (PictureSpec("map", "1 2", "Map"),)

    _, (picture,), _ = make_pictures({"map": array}, {"map": (None, None)}, tokens, NAMES, Model)
    html = Explanation("a", "b", {}, None, 0.0, pictures=[picture]).html
    assert html.index("<summary>Inside the model") < html.index("<figure"), "closed at first"
    return re.findall(r'<td class="(\w+)', html)


def test_an_even_share_is_pale_and_only_what_exceeds_it_is_dark():
    tokens = {"1": ["a", "b"], "2": list("wxyz")}
    assert drawn(np.full((2, 4), 0.25), tokens) == ["s4"] * 8
    focused = np.array([[0.97, 0.01, 0.01, 0.01], [0.25] * 4])
    styles = [int(style[1:]) for style in drawn(focused, tokens)]
    assert styles[0] > 28 and max(styles[1:]) < 6 and styles[1] < styles[4]
    scale = Scale(0.0, 1.0, 0.25)
    assert scale.levels(np.array([0, 0.25, 0.5, 1, np.nan])).tolist() == [0, 4, 18, 32, -1]
    assert [name for _, name in scale.ticks] == ["0", "even (0.25)", "all"]


def test_maps_of_other_values_start_at_the_least():
    tokens = {"1": ["a", "b"], "2": ["c", "d"]}
    assert drawn(np.array([[3.0, 4], [5, 6]]), tokens) == ["s0", "s11", "s21", "s32"]
    assert drawn(np.array([[-2.0, 0], [1, 2]]), tokens) == ["d0", "d16", "d24", "d32"]
    assert Scale(0, 1).levels(np.array([0, 0.5, 1, np.nan, 2])).tolist() == [0, 16, 32, -1, 32]
    assert [format_short(x) for x in (0.123, -0.5, 0.999, 12.3, 0, float("nan"))] == [
        ".12", "-.50", "1.0", "12", ".00", "?",
    ]  # fmt: skip


@pytest.mark.parametrize("palettes", [PALETTES, NIGHT_PALETTES], ids=["light", "dark"])
def test_colors(palettes):
    for colors in palettes.values():
        assert len({bytes(color) for color in colors}) == len(colors)
        for share in colors / 255:
            linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
            light = linear @ [0.2126, 0.7152, 0.0722] + 0.05
            dark = is_dark(share * 255)
            assert (1.05 / light if dark else light / 0.05) > 4.5, "WCAG's contrast of text"
