"""The probe of each named layer, and of mechanisms that are known to be dead."""

import numpy as np
import pytest

from keras_sentmatch.applications import build_model
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations import probe
from keras_sentmatch.explanations.probe import CHANGED, CONCENTRATION, GATE, MECHANISMS, OTHER_GUIDE
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.learned import LearnedPairs, pair_keys
from keras_sentmatch.vectors.built_in import load_word_table
from tests.toys.matchers import NAMES, SIZES, make
from tests.toys.matchers import WORDS as KNOWN

pytestmark = pytest.mark.usefixtures("without_tracing")
WORDS = (
    "a",
    "big",
    "dog",
    "runs",
    "in",
    "the",
    "park",
    "two",
    "small",
    "zebras",
    "animal",
    "moves",
)
MODELS = {
    "drr_net": ["RerereadAttention"],
    "ladra_net": ["PhraseCNN", "DynamicSequentialAttention"],
    "dabert": ["DualAttention", "AdaptiveFusion"],
    "drcn": ["DenseCoAttentiveRNN", "AutoencoderBottleneck"],
    "din": ["MatrixDynamicGRU"],
}


def some_pairs(count=24):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(2 * count)]
    labels = [NAMES[n] for n in rng.integers(0, len(NAMES), count)]
    return PairDataset(texts[::2], texts[1::2], labels, label_names=NAMES)


def row(found, measure):
    (one,) = (one for one in found.rows if one["measure"] == measure.name)
    return one


EVERYWHERE = ("drr_net", "fa")  # eager calls take JAX half a minute


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.each_backend if name in EVERYWHERE else pytest.mark.once
        )
        for name in (*MODELS, "fa", "sfa")
    ],
)
def test_every_mechanism_is_measured(name, tmp_path):
    block = {"feature_attention": name} if name in ("fa", "sfa") else {}
    matcher = make("esim" if block else name, **block)
    found = probe(matcher, some_pairs(), batch_size=5)  # of several lengths
    wanted = MODELS.get(name) or [
        "FeatureAttention" if name == "fa" else "SelectiveFeatureAttention"
    ]
    assert set(wanted) == {one["layer"] for one in found.rows}
    for layer in wanted:
        rows = [one for one in found.rows if one["layer"] == layer]
        assert len(rows) >= 2 and all(np.isfinite(one["value"]) for one in rows)
    assert len(found.sentences()) == len(found.rows)
    assert 0 <= found.accuracy[""] <= 1
    again = matcher.predict_proba(some_pairs())
    assert again.shape == (24, len(NAMES))  # the model is as it was before
    found.save(tmp_path)
    assert (tmp_path / "probe.png").stat().st_size > 1000
    assert "| mechanism | layer |" in (tmp_path / "probe.md").read_text("utf-8")


def test_answers_with_the_probe_are_those_of_the_matcher():
    """Watching changes no answer, so the accuracy is the matcher's."""
    matcher, pairs = make("drcn"), some_pairs()
    answers = matcher.predict_proba(pairs).argmax(1)
    assert probe(matcher, pairs).accuracy[""] == pytest.approx(
        float(np.mean(answers == pairs.labels))
    )


@pytest.mark.once
def test_answers_are_those_of_a_calibrated_matcher_with_unseen_words(caplog):
    """With a temperature, a threshold and words outside the vocabulary; learned pairs are said."""
    table, encoder = load_word_table(), PairEncoder(KNOWN, features=("word",))
    size = {"vocabulary_size": encoder.vocabulary_size + 8, "embedding_dim": table.dim}
    model = build_model("drr_net", num_classes=2, **size, **SIZES["drr_net"])
    options = {"task": "classification", "word_table": table, "temperature": 0.3}
    matcher = Matcher(model, encoder, ("no", "yes"), **options)
    pairs = some_pairs(40)
    matcher.threshold = float(np.median(matcher.predict_proba(pairs)[:, 1]))
    labels = [answer["label"] for answer in matcher.predict(pairs)]
    assert 0.3 < np.mean(np.array(labels) == "yes") < 0.7 and matcher.encoder.knows("zebras")
    pairs = PairDataset(pairs.sentence1, pairs.sentence2, labels, label_names=("no", "yes"))
    matcher.learned = LearnedPairs(pair_keys(pairs)[:7])
    assert matcher.evaluate(pairs)["accuracy"] == probe(matcher, pairs).accuracy[""] == 1
    assert caplog.text.count("The model learned from 7 of these 40 pairs") == 2


@pytest.mark.once
def test_single_words_have_no_choice_and_scores_have_a_verdict():
    """Measures that need two words are left out, not "does nothing"."""
    pairs = PairDataset(["dog", "cat"] * 12, ["runs", "", "park"] * 8)
    found = probe(make("drr_net"), pairs)
    measures = {one["measure"] for one in found.rows}
    assert CONCENTRATION.name not in measures and CHANGED.name in measures
    assert all(np.isfinite(one["value"]) for one in found.rows)
    assert probe(make("drr_net", num_classes=1), some_pairs()).verdict("rereading")
    with pytest.raises(InputError, match="'other' was not replaced by its mean, only: rereading"):
        found.verdict("other")


def test_layers_are_known():
    assert {cls.__name__ for cls in MECHANISMS} == {
        *(name for names in MODELS.values() for name in names),
        "FeatureAttention",
        "SelectiveFeatureAttention",
    }


def test_a_rereading_that_reads_nothing_is_dead():
    """Planted: every token gets the same weight, and neither guide nor state is listened to."""
    matcher = make.__wrapped__("drr_net")  # not the one that other tests share
    (layer,) = (one for one in matcher.model._flatten_layers() if one.name == "rereading")
    for kernel in (layer.guide_kernel, layer.state_kernel, layer.context):
        kernel.assign(np.zeros(kernel.shape))
    found = probe(matcher, some_pairs())
    for measure in (CONCENTRATION, OTHER_GUIDE):
        assert row(found, measure)["value"] == pytest.approx(0, abs=1e-5)
        assert row(found, measure)["verdict"] == "does nothing"
    (distinct,) = (one for one in found.rows if one["measure"].startswith("distinct"))
    assert distinct["value"] == 1 and distinct["verdict"] == "does nothing"


def test_gates_that_do_not_look_are_dead():
    """Planted: gates that are .5 for every pair and feature scale a sentence and tell nothing of it."""
    matcher = make.__wrapped__("esim", feature_attention="fa")
    for layer in matcher.model._flatten_layers():
        if type(layer).__name__ == "FeatureAttention":
            layer.excitation.kernel.assign(np.zeros(layer.excitation.kernel.shape))
    found = probe(matcher, some_pairs())
    gates = [one for one in found.rows if one["measure"] == GATE.name]
    assert gates and {one["verdict"] for one in gates} == {"does nothing"}


def test_what_the_answer_does_not_use_is_dead():
    """Planted: the gate of the re-read vectors is closed, so no answer changes without them."""
    matcher = make.__wrapped__("drr_net")
    gate = matcher.model.heads["v"].gate
    gate.kernel.assign(np.zeros(gate.kernel.shape))
    gate.bias.assign(np.full(gate.bias.shape, -50.0))
    found = probe(matcher, some_pairs())
    assert found.verdict("rereading") == "does nothing"
    assert row(found, CHANGED)["value"] == 0
    assert found.accuracy["rereading"] == found.accuracy[""]


def test_a_mechanism_that_is_needed_acts():
    """Planted: the answers follow the re-read vectors alone, and each label is the answer to some pairs."""
    matcher = make.__wrapped__("drr_net", use_global=False)
    bias = matcher.model.logits.bias
    bias.assign(np.asarray(bias) - np.log(matcher.predict_proba(some_pairs())).mean(0))
    found = probe(matcher, some_pairs(), batch_size=5)
    assert found.verdict("rereading") == "acts"
    counts = some_pairs().label_counts()
    shares = [pytest.approx(count / 24) for count in counts.values()]
    assert found.accuracy["rereading"] in shares  # all pairs get the same answer


@pytest.mark.once
def test_models_without_a_mechanism_and_few_pairs_are_refused():
    with pytest.raises(
        InputError, match="none of the layers that a probe knows: RerereadAttention"
    ):
        probe(make("decatt"), some_pairs())
    with pytest.raises(InputError, match="There are 3 pairs. Give at least 20"):
        probe(make("drr_net"), some_pairs().limit(3))
