"""Explanations of every model: arrays without padding, pictures, erased words, pages."""

import base64
import hashlib
import io
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import keras
import numpy as np
import pytest
from matplotlib.image import imread

import keras_sentmatch.explanations
from keras_sentmatch.applications import BiMPM, list_models
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.colors import NIGHT_PALETTES, PALETTES, Scale, is_dark, png_uri
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations import Explanation, explain, save_overview
from keras_sentmatch.explanations._erasure import Erasure, erasable, erase, erase_words
from keras_sentmatch.explanations._page import MOST_CELLS, format_short
from keras_sentmatch.explanations._panels import make_pictures
from keras_sentmatch.explanations._words import find_links, shown_words
from keras_sentmatch.inference import EnsembleMatcher
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
    """Counts the colored cells of each figure, and collects tags, attributes and all text."""

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
    """How many cells each figure must have; none where it is drawn as an image or as bars."""
    counts = []
    for picture in explanation.pictures:
        fine = any(
            size > MOST_CELLS and axis not in ("1", "2", "joint")
            for size, axis in zip(picture.values.shape, picture.axes)
        )
        counts.append(0 if fine or picture.kind == "bars" else picture.values.size)
    return counts


@pytest.mark.each_backend
@each_variant
def test_every_model_is_explained(name, options):
    matcher = make(name, **options)
    found = explain(matcher, ONE, TWO, erasure=False)
    answer = matcher.predict(ONE, TWO)
    assert found.label == answer.label and found.erasure is None
    np.testing.assert_allclose(
        list(found.probabilities.values()), list(answer.probabilities.values()), atol=1e-6
    )
    tokens = matcher.encoder.pair_tokens(ONE, TWO)
    assert (found.tokens_1, found.tokens_2) == (tuple(tokens["1"]), tuple(tokens["2"]))
    lengths = {axis: len(pieces) for axis, pieces in tokens.items()}
    explainer = matcher.explainer()
    if name == "hyper_lstm":
        assert explainer is None
        assert found.notes == ["HyperLSTM has no attention to draw."]
        assert not found.pictures and not found.values
        return
    assert set(found.values) == set(explainer.output) - {"probabilities"}
    assert {key for picture in found.pictures for key in picture.keys} == set(found.values)
    assert found.notes == [] and found.unknown == (() if found.tokens else ("zebras",))
    assert not any("with the shape" in p.caption for p in found.pictures)
    for picture in found.pictures:
        assert picture.values.shape == (len(picture.rows), len(picture.columns))
        assert np.isfinite(picture.values).all()
        for axis, names in zip(picture.axes, (picture.rows, picture.columns)):
            assert axis not in lengths or list(names) == tokens[axis]
        assert all(part.shape == picture.values.shape for part in picture.parts.values())
        assert picture.scale.low <= picture.values.min() <= picture.scale.high
        assert picture.values.max() <= picture.scale.high + 1e-6
    for key, array in found.values.items():
        if OF_FEATURES.fullmatch(key) and options:
            np.testing.assert_allclose(array.sum(-2), 1, atol=1e-5)
        elif SUM_TO_ONE.fullmatch(key):  # so nothing but padding was cut off
            np.testing.assert_allclose(array.sum(-1), 1, atol=1e-5, err_msg=key)
    page = Cells(found.html)
    assert page.counts == cells_of(found) and sum(page.counts) > 0
    assert not {"link", "iframe"} & set(page.tags)


def test_what_each_paper_shows():
    """A picture of each kind, by its title."""

    def titles(name, **options):
        found = explain(make(name, **options), ONE, TWO, erasure=False)
        return {picture.title: picture for picture in found.pictures}

    read = titles("drr_net")["Words read again, sentence 1"]
    assert read.reread and read.kind == "strip" and read.rows[0] == "step 1" and len(read.rows) == 4
    assert titles("drr_net")["Gates of these predictions"].rows == (
        "from the global vectors", "from the re-read vectors",
    )  # fmt: skip
    drcn = titles("drcn")
    assert list(drcn)[:3] == [
        "Attention, sentence 1: layer 1",
        "Attention, sentence 1: layer 2",
        "Attention, sentence 1: mean of the layers",
    ]
    both = [drcn[title].values for title in list(drcn)[:3]]
    np.testing.assert_allclose(both[2], (both[0] + both[1]) / 2)
    assert drcn["Max-pool rates, sentence 2"].values.shape == (1, 4)
    ladra = titles("ladra_net")
    assert ladra["Read again: phrases of 3"].reread and "Coverage: tokens" in ladra
    assert ladra["Weights of the units"].columns == ("tokens", "phrases of 2", "phrases of 3")
    assert ladra["Weights of the backbone's blocks"].kind == "bars"
    affinity = titles("dabert")["Affinity attention, layer 1"]
    assert list(affinity.parts) == ["head 1", "head 2"]
    np.testing.assert_allclose(affinity.values, np.mean(list(affinity.parts.values()), 0))
    gates = titles("dabert")["Fusion gates, layer 1"]
    assert gates.rows == ("share of affinity g", "let through f")
    assert titles("din")["Gates made at each word of sentence 2"].values.shape == (3, 4)
    sfa = titles("esim", feature_attention="sfa")
    assert sfa["Feature-averaged dot product, before the blocks"].kind == "map"
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


def test_each_head_keeps_the_mean_and_maps_point_the_right_way():
    found = explain(make("esim"), ONE, TWO, erasure=False)
    one, two, products = found.pictures
    assert (one.axes, two.axes, products.axes) == (("1", "2"), ("2", "1"), ("1", "2"))
    model, encoder = make("esim").model, make("esim").encoder
    shown = model.explainer()(encoder.encode([ONE], [TWO], length=24))
    expected = keras.ops.convert_to_numpy(shown["attention_2"])[0]
    np.testing.assert_allclose(two.values, expected[:4, : len(one.rows)], atol=1e-5)


def test_many_pairs_and_pairs_that_are_cut():
    matcher = make("esim")
    matcher.encoder.reset_report()
    pairs = PairDataset([ONE, "dog " * 60], ["", TWO], ["neutral", "entailment"], label_names=NAMES)
    with pytest.warns(UserWarning, match="more than 48 tokens"):
        empty, long = explain(matcher, pairs)
    assert (empty.gold, long.gold) == ("neutral", "entailment")
    assert empty.tokens_2 == () and not empty.pictures and len(empty.notes) == 1
    assert "no picture of attention_1, attention_2, feature_map_base" in empty.notes[0]
    assert "(no words)" in empty.html
    assert len(long.tokens_1) == 48 and long.pictures[0].values.shape == (48, 4)
    assert "too long for the model" in long.notes[0]
    assert empty.erasure.importance_2.shape == (0,)
    assert explain(make("cross_encoder"), "", "").pictures


# --- word erasure ---


@pytest.mark.parametrize(
    "text, erased",
    [
        ("A dog runs.", ["dog runs.", "A runs.", "A dog ."]),
        ("Dogs", [""]),
        ("don't  go", ["go", "don't"]),
        ("", []),
        ("hi 🐕 !", ["🐕 !", "hi !", "hi 🐕"]),
        ("狗跑。", ["跑。", "狗。"]),
        ("שלום עולם", ["עולם", "שלום"]),
    ],
)
def test_erasing(text, erased):
    assert [erase(text, word) for word in erasable(text)] == erased


def test_words_without_spaces_are_cut_where_tokens_begin():
    text = "สุนัขวิ่ง dogs"
    assert [word.text for word in erasable(text)] == ["สุนัขวิ่ง", "dogs"]
    starts = [0, 5, 10, 12]  # no other word is cut
    assert [word.text for word in erasable(text, starts)] == ["สุนัข", "วิ่ง", "dogs"]
    shown = shown_words(text, ["▁", "สุนัข", "วิ่ง", "▁do", "gs"], (), ())
    assert [word.tokens for word in shown] == [(0, 1, 2), (3, 4)]
    found = shown_words(text, ["▁สุนัข", "วิ่ง", "▁do", "gs"], (), (), starts)
    assert [(word.text, word.tokens) for word in found] == [
        ("สุนัข", (0,)),
        ("วิ่ง", (1,)),
        ("dogs", (2, 3)),
    ]


@pytest.mark.parametrize("name", ["esim", "cross_encoder"])
def test_erasure_is_what_predict_says_of_erased_sentences(name):
    matcher = make(name)
    found = explain(matcher, "A dog runs.", "no cat")
    one = ["dog runs.", "A runs.", "A dog .", *["A dog runs."] * 2]
    two = [*["no cat"] * 3, "cat", "no"]
    answers = matcher.predict(sentence1=one, sentence2=two)
    erasure = found.erasure
    assert erasure.words_1 == ("A", "dog", "runs") and erasure.words_2 == ("no", "cat")
    assert erasure.of == found.label and erasure.full == found.probabilities[found.label]
    got = np.concatenate([erasure.importance_1, erasure.importance_2])
    expected = [erasure.full - answer["probabilities"][found.label] for answer in answers]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert np.abs(got).max() > 1e-4
    assert erasure.answers_1 + erasure.answers_2 == tuple(answer.label for answer in answers)


def test_all_variants_are_scored_in_one_call(monkeypatch):
    matcher, sizes = make("din"), []
    plain = type(matcher).predict_proba
    monkeypatch.setattr(
        type(matcher), "predict_proba",
        lambda self, pairs, **options: sizes.append(len(pairs)) or plain(self, pairs, **options),
    )  # fmt: skip
    scores = plain(matcher, sentence1=["a dog"], sentence2=["the cat runs"])
    erase_words(matcher, "a dog", "the cat runs", scores[0])
    assert sizes == [5]


def test_scores_have_an_erasure_too():
    matcher = make("esim", num_classes=1)
    found = explain(matcher, "A dog runs.", "no cat")
    assert found.label is None and found.probabilities == {} and found.erasure.of == "score"
    without = matcher.predict_proba(sentence1=["dog runs."], sentence2=["no cat"])
    assert found.erasure.importance_1[0] == pytest.approx(found.score - without[0], abs=1e-6)
    assert found.summary().startswith(f"The score is {found.score:.4f}.\n")
    assert found.erasure.answers_1 == ()


def test_an_ensemble_has_words_left_out_only():
    members = [make("din"), make("esim")]
    ensemble = EnsembleMatcher(members)
    found = explain(ensemble, "A dog runs.", "no cat")
    assert not found.pictures and found.tokens_1 == ()
    without = ensemble.predict_proba(sentence1=["A runs."], sentence2=["no cat"])[0]
    expected = found.erasure.full - without[NAMES.index(found.label)]
    assert found.erasure.importance_1[1] == pytest.approx(expected, abs=1e-6)
    assert "mean of 2 matchers" in found.html and len(Cells(found.html).words) == 5


def test_what_needs_tags_is_not_erased():
    matcher = make("esim")
    matcher.encoder.features, before = ("word", "pos"), matcher.encoder.features
    try:
        pairs = PairDataset(
            ["a dog"], ["a cat"], columns={"tags_1": [["D", "N"]], "tags_2": [["D", "N"]]}
        )
        (found,) = explain(matcher, pairs)
    finally:
        matcher.encoder.features = before
    assert found.erasure is None and "part-of-speech" in found.notes[-1] and found.pictures


# --- the table ---


def test_unknown_arrays_are_drawn_by_their_shape_or_listed():
    tokens = {"1": ["a", "b", "c"], "2": ["d", "e"]}
    rng = np.random.default_rng(0)
    sizes = {
        "odd_map": (8, 8), "odd_2": (8,), "heads": (3, 8, 8), "numbers": (5,), "deep": (2, 3, 4, 5),
        "length": (8,), "channels_1": (8, 6),
    }  # fmt: skip
    lengths = {
        "odd_map": (0, 1),
        "odd_2": (0,),
        "heads": (1, 2),
        "length": (0,),
        "channels_1": (0,),
    }
    arrays = {key: rng.random(size) for key, size in sizes.items()}
    shapes = {
        key: tuple(None if i in lengths.get(key, ()) else n for i, n in enumerate(size))
        for key, size in sizes.items()
    }
    values, pictures, notes = make_pictures(arrays, shapes, tokens, NAMES)
    assert notes == ["deep has too many axes to draw: [2, 3, 4, 5]."]
    by_key = {picture.keys[0]: picture for picture in pictures}
    assert set(by_key) == set(sizes) - {"deep"} and set(values) == set(sizes)
    assert by_key["odd_map"].kind == "map" and by_key["odd_map"].values.shape == (3, 2)
    np.testing.assert_array_equal(by_key["odd_map"].values, arrays["odd_map"][:3, :2])
    assert by_key["odd_2"].columns == ("d", "e") and by_key["numbers"].kind == "bars"
    assert len(by_key["heads"].parts) == 3 and by_key["heads"].values.shape == (3, 2)
    assert by_key["length"].columns == ("1", "2", "3")  # of which sentence nothing tells
    np.testing.assert_array_equal(by_key["channels_1"].values, arrays["channels_1"][:3].T)
    assert by_key["odd_map"].caption.endswith("with the shape [L, L].")


# --- pages ---

NASTY = "<script>alert(1)</script> & \"quotes\" 'single' <img src=x> 🐕 שלום $5 $6 " + "x" * 300


def test_words_are_escaped(tmp_path):
    found = explain(make("esim"), NASTY, "a <b> & \ud83d")
    found.label, found.gold = "<script>", "<em>"
    found.probabilities = {"<script>": 0.5, "</style>": 0.5}
    found.facts["run"], found.notes = "<u>", ["<s>"]
    page = Cells(found.html)
    assert page.tags.count("script") == 2 and page.tags.count("style") == 1
    assert not {"img", "em", "u", "s"} & set(page.tags) and "<img src=x>" in page.text
    assert "<script>alert" in page.text and "&lt;script&gt;" in found.html
    path = found.save(tmp_path / "new" / "page.html")
    assert "\\ud83d" in path.read_text("utf-8")  # a lone surrogate has no UTF-8
    frame = found._repr_html_()
    assert frame.count("<") == 2 and frame.startswith("<iframe sandbox=allow-scripts srcdoc=")
    index = save_overview(tmp_path / "index.html", [("a.html", found)], "All of <them>")
    assert "All of &lt;them&gt;" in index.read_text() and "a &lt;b&gt;" in index.read_text()
    with pytest.raises(InputError, match="Cannot write"):
        found.save(path / "below-a-file.html")


def test_only_the_script_of_the_page_may_run():
    html = explain(make("esim"), ONE, TWO).html
    (script,) = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none'; ") and f"script-src 'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2] and "//" not in policy
    assert not re.findall(r"""(?:src|href)=["']?(?!data:)""", html)


# --- the answer, and its words ---


def erased(words_1, words_2, changes, answers=None):
    answers = answers or ["yes"] * len(changes)
    cut = len(words_1)
    return Erasure(
        "yes", 0.9, tuple(words_1), tuple(words_2), np.array(changes[:cut]), np.array(changes[cut:]),
        tuple(answers[:cut]), tuple(answers[cut:]),
    )  # fmt: skip


def test_the_answer_comes_first_then_the_words_that_decided():
    words = ["Dogs", "run", "not"], ["Dogs", "sleep"]
    erasure = erased(*words, [0.5, 0.01, -0.2, 0.3, 0.05], ["no", "yes", "yes", "maybe", "no"])
    found = Explanation(
        "Dogs run not.", "Dogs sleep.", *words, (), {"yes": 0.9, "no": 0.1}, "yes", None, "no",
        erasure=erasure, unknown=("sleep",),
    )  # fmt: skip
    assert found.summary().splitlines() == [
        "The prediction is yes, with a probability of 90.0%.",
        "The data says no.",
        "Words that support it: Dogs₁ +0.50, Dogs₂ +0.30, sleep₂ +0.05.",
        "Words that oppose it: not₁ -0.20.",
        "Without Dogs₂, the prediction would be maybe.",
        "Without Dogs₁, the prediction would be no; the same holds for sleep₂.",
    ]
    page = Cells(found.html)
    places = [page.text.index(line) for line in (*found.summary().splitlines(), "Word by word")]
    assert places == sorted(places)
    styles = [word["class"].split()[1:] for word in page.words]
    assert styles == [
        ["d32", "flip", "labeled"], ["d16"], ["d10", "labeled"],
        ["d26", "flip", "labeled"], ["unknown", "d18", "flip"],
    ]  # fmt: skip
    assert page.words[0]["title"] == "+0.5000, without it no"
    assert "Not in the vocabulary (wavy line): sleep." in page.text
    quiet = replace(found, erasure=erased(*words, [0.001] * 5), gold=None)
    assert quiet.summary().splitlines()[1:] == ["No single word changes it much."]
    unsure = replace(found, abstained=True)
    line = "The matcher abstains; the most probable label is yes, with a probability of 90.0%."
    assert unsure.summary().splitlines()[0] == line
    assert line in Cells(unsure.fragment).text and "The prediction is" not in found.fragment


@pytest.mark.parametrize(
    "text, tokens, expected",
    [
        ("A dog runs.", ["a", "dog", "runs", "."], ["A:0", "dog:1", "runs:2", ".:3"]),
        ("It isn’t", ["it", "is", "n't"], ["It:0", "isn’t:1,2"]),
        ("Élégant zebras!", ["ele", "##gant", "[UNK]", "!"], ["Élégant:0,1", "zebras?:2", "!:3"]),
        ("hi 🐕 you", ["hi", "[UNK]", "you"], ["hi:0", "🐕?:1", "you:2"]),
        ("a b\tc d", ["a", "b"], ["a:0", "b:1", "c-:", "d-:"]),
        ("狗跑", ["狗", "跑"], ["狗:0", "跑:1"]),
        ("x y", [], ["x:", "y:"]),
        ("", [], []),
    ],
)
def test_words_as_written_find_their_tokens(text, tokens, expected):
    found = shown_words(text, tokens, (), ())
    assert [
        f"{w.text}{'?' * w.unknown}{'-' * w.cut}:{','.join(map(str, w.tokens))}" for w in found
    ] == expected
    assert "".join(word.before + word.text for word in found) == text


@pytest.mark.parametrize(
    "name, layers", [("esim", 1), ("re2", 3), ("cross_encoder", 3), ("drr_net", 0)]
)
def test_links_are_the_attention_to_the_other_sentence(name, layers):
    found = explain(make(name), "A dog runs in zoos.", "No, cat", erasure=False)
    sides = found.words(1), found.words(2)
    links = find_links(found.pictures, sides)
    assert len(links) == layers
    if not links:
        return
    assert [layer.name for layer in links[:-1]] == [f"layer {i + 1}" for i in range(layers - 1)]
    first = links[0]
    assert first.forth.shape == first.back.shape[::-1] == (len(sides[0]), len(sides[1]))
    attention = found.pictures[0].values
    if name == "cross_encoder":  # "[CLS] a dog runs in [UNK] . [SEP] no , cat [SEP]"
        np.testing.assert_allclose(first.forth, attention[1:7, 8:11])
        np.testing.assert_allclose(first.back, attention[8:11, 1:7])
    else:
        np.testing.assert_allclose(first.forth, attention)
        np.testing.assert_allclose(first.back.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(links[-1].forth, np.mean([x.forth for x in links[:-1] or links], 0))


def drawn(array, tokens):
    """The page of one map."""
    sizes = {"odd_map": (None, None)}
    values, pictures, _ = make_pictures({"odd_map": array}, sizes, tokens, NAMES)
    words = tuple(tokens["1"]), tuple(tokens["2"])
    return Explanation(*map(" ".join, words), *words, (), {}, None, 0.0, None, values, pictures)


def test_an_even_share_is_pale_and_only_what_exceeds_it_is_dark():
    tokens = {"1": ["a", "b"], "2": list("wxyz")}
    styles = re.findall(r'<td class="s(\d+)', drawn(np.full((2, 4), 0.25), tokens).html)
    assert len(styles) == 8 and max(map(int, styles)) < 6
    focused = np.array([[0.97, 0.01, 0.01, 0.01], [0.25] * 4])
    styles = [int(style) for style in re.findall(r'<td class="s(\d+)', drawn(focused, tokens).html)]
    assert styles[0] > 28 and max(styles[1:]) < 6 and styles[1] < styles[4]
    scale = Scale(0.0, 1.0, 0.25)
    assert scale.levels(np.array([0, 0.25, 0.5, 1, np.nan])).tolist() == [0, 4, 18, 32, -1]
    assert [name for _, name in scale.ticks] == ["0", "even (0.25)", "all"]
    alone = drawn(np.ones((2, 1)), {"1": ["a", "b"], "2": ["w"]})
    assert alone.html.count('<td class="s4"') == 2, "all goes to the only word"


def test_pictures_of_one_kind_share_a_legend_only_if_they_share_a_scale():
    even = np.full((2, 4), 0.25)
    for layers, legends in (((even, even), 1), ((even, 9 * even), 2), ((8 * even, 9 * even), 2)):
        arrays = {"attention_1": np.array(layers)}
        tokens = {"1": ["a", "b"], "2": list("wxyz")}
        values, pictures, _ = make_pictures(
            arrays, {"attention_1": (2, None, None)}, tokens, NAMES, make("re2").model
        )
        pictures = [picture for picture in pictures if "mean" not in picture.title]
        words = tuple(tokens["1"]), tuple(tokens["2"])
        found = Explanation("a b", "w x y z", *words, (), {}, None, 0.0, pictures=pictures)
        assert found.html.count("<div class=legend>") == legends


def test_maps_of_other_values_start_at_the_least():
    found = drawn(np.array([[3.0, 4], [5, 6]]), {"1": ["a", "b"], "2": ["c", "d"]})
    assert re.findall(r'<td class="(\w+)', found.html) == ["s0", "s11", "s21", "s32"]
    signs = drawn(np.array([[-2.0, 0], [1, 2]]), {"1": ["a", "b"], "2": ["c", "d"]})
    assert re.findall(r'<td class="(\w+)', signs.html) == ["d0", "d16", "d24", "d32"]


def test_re_read_words():
    found = explain(make("drr_net"), ONE, TWO)
    (one, first), (two, second) = found.rereads()
    assert (one, two) == (ONE, TWO) and len(first.steps) == 4
    for row, (word, weight) in zip(found.values["selection_2"], second.steps):
        assert word == found.tokens_2[row.argmax()] and weight == row.max()
    assert found.html.count(' top"') == 8
    assert explain(make("esim"), ONE, TWO).rereads() == []


@pytest.mark.parametrize("palettes", [PALETTES, NIGHT_PALETTES], ids=["light", "dark"])
def test_colors(palettes):
    for colors in palettes.values():
        assert len({bytes(color) for color in colors}) == len(colors)
        for share in colors / 255:
            linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
            light = linear @ [0.2126, 0.7152, 0.0722] + 0.05
            dark = is_dark(share * 255)
            assert (1.05 / light if dark else light / 0.05) > 4.5, "WCAG's contrast of text"
    shades = np.array([is_dark(color) for color in palettes["s"]])
    assert shades[0] != shades[-1] and np.abs(np.diff(shades.astype(int))).sum() == 1


def test_scales_and_images():
    assert Scale(0, 1).levels(np.array([0, 0.5, 1, np.nan, 2])).tolist() == [0, 16, 32, -1, 32]
    assert Scale(-1, 1).levels(np.array([-1.0, 0, 1])).tolist() == [0, 16, 32]
    kind, _, drawn = png_uri(np.array([[0, 0.5, 1], [np.nan, 1, 0]]), Scale(0, 1)).partition(",")
    assert kind == "data:image/png;base64"
    pixels = (imread(io.BytesIO(base64.b64decode(drawn)))[..., :3] * 255).round()
    blue, gray = PALETTES["s"], [176, 176, 176]
    assert (pixels == [[blue[0], blue[16], blue[32]], [gray, blue[32], blue[0]]]).all()
    assert [format_short(x) for x in (0.123, -0.5, 0.999, 12.3, 0, float("nan"))] == [
        ".12", "-.50", "1.0", "12", ".00", "?",
    ]  # fmt: skip


def test_importing_it_leaves_matplotlib_alone():
    """Nor does the library: Keras itself looks for it."""
    code = "import sys, keras_sentmatch, keras_sentmatch.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"matplotlib", "keras"} & set(done.stdout.split())
    for source in Path(keras_sentmatch.explanations.__file__).parent.glob("*.py"):
        assert not re.search("^(import|from) matplotlib", source.read_text("utf-8"), re.MULTILINE)


def wide() -> Explanation:
    """Of the papers' sizes: 160 channels a word, 600 features a branch."""
    tokens = {"1": [f"word{i}" for i in range(20)], "2": ["b", "c"]}
    rng = np.random.default_rng(0)
    arrays = {"matching_1": rng.normal(size=(32, 160)), "gates_1": rng.random((3, 600))}
    shapes = {"matching_1": (None, 160), "gates_1": (3, 600)}
    values, pictures, notes = make_pictures(arrays, shapes, tokens, NAMES, BiMPM)
    assert notes == [] and [p.values.shape for p in pictures] == [(3, 600), (160, 20)]
    words = tuple(tokens["1"]), tuple(tokens["2"])
    return Explanation("one", "two", *words, (), {"yes": 1.0}, "yes", None, None, values, pictures)


def test_what_is_too_fine_for_cells_is_an_image():
    found = wide()
    page = Cells(found.html)
    assert page.counts == [0, 0] and page.tags.count("img") == 3 + 1
    assert "word19" in page.text and "autoencoder 3 (mean 0." in page.text
