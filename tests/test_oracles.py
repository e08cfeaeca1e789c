"""The oracles against Keras's own masked layers, identities and numbers done by hand."""

from typing import Any

import keras
import numpy as np
import pytest

from tests import oracles
from tests.harness import close, lengths_mask, noise, randomise, values

pytestmark = pytest.mark.once

MASK = lengths_mask([5, 3, 1], 5)
X = noise(3, 5, 4)
CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "simple_rnn": keras.layers.SimpleRNN}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_rnn_equals_keras_masked(cell: str, backwards: bool) -> None:
    layer = CELLS[cell](3, return_sequences=True, return_state=True, go_backwards=backwards)
    layer.build(X.shape)
    randomise(layer)
    sequence, state, *_ = values(layer(keras.ops.convert_to_tensor(X), mask=MASK))
    if backwards:  # Keras returns the reversed order
        sequence = sequence[:, ::-1]
    want, last = oracles.CELLS[cell](X, MASK, *values(layer.weights), backwards=backwards)
    close([sequence * MASK[..., None], state], [want, last], cell)
    assert not want[~MASK].any()


@pytest.mark.parametrize("cell", CELLS)
def test_bidirectional_equals_keras_masked(cell: str) -> None:
    for sequences in (True, False):
        layer = keras.layers.Bidirectional(CELLS[cell](3, return_sequences=sequences))
        layer.build(X.shape)
        randomise(layer)
        got = values(layer(keras.ops.convert_to_tensor(X), mask=MASK))[0]
        sides = values(layer.forward_layer.weights), values(layer.backward_layer.weights)
        want, last = oracles.bidirectional_rnn(cell, X, MASK, *sides)
        close(got * MASK[..., None] if sequences else got, want if sequences else last, cell)


def test_masked_softmax() -> None:
    scores = np.array([[1.0, 2.0, 900.0], [1000.0, 1000.0, 0.0], [1.0, 2.0, 3.0]])
    mask = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    got = oracles.masked_softmax(scores, mask)
    e = np.exp(1)
    want = np.array([[1 / (1 + e), e / (1 + e), 0], [0.5, 0.5, 0], [0, 0, 0]])
    close(got, want, "softmax")
    close(oracles.masked_softmax(scores.T, mask.T, axis=0).T, got, "axis")


def test_masked_mean_and_max() -> None:
    x = np.array([[[1.0, -5.0], [3.0, -7.0], [np.inf, np.inf]], [[1, 2], [3, 4], [5, 6]]])
    mask = np.array([[1, 1, 0], [0, 0, 0]], bool)
    close(oracles.masked_mean(x, mask), np.array([[2.0, -6.0], [0, 0]]), "mean")
    top, position = oracles.masked_max(x, mask)
    close(top, np.array([[3.0, -5.0], [0, 0]]), "max")
    assert position.tolist() == [[1, 0], [0, 0]]


def test_cosine_of_zero_vector_is_zero() -> None:
    got = oracles.cosine(np.array([[3.0, 4.0], [0, 0]]), np.array([[4.0, 3.0], [1, 1]]))
    close(got, np.array([0.96, 0.0]), "cosine")


def test_reverse_within_length() -> None:
    got = oracles.reverse_within_length(
        np.array([[1, 2, 3, 0], [4, 0, 0, 0]]), [[1, 1, 1, 0], [1, 0, 0, 0]]
    )
    assert got.tolist() == [[3, 2, 1, 0], [4, 0, 0, 0]]


def test_char_cnn_equals_keras_on_full_words() -> None:
    ids = np.random.default_rng(0).integers(1, 7, (2, 3, 6))
    embed, conv = keras.layers.Embedding(7, 4), keras.layers.Conv1D(5, 3, activation="relu")
    embed.build((None,)), conv.build((None, 6, 4))
    randomise(embed), randomise(conv)
    want = keras.ops.max(conv(embed(keras.ops.convert_to_tensor(ids.reshape(6, 6)))), axis=1)
    weights = values([*embed.weights, *conv.weights])
    close(oracles.char_cnn(ids, *weights), values(want)[0].reshape(2, 3, 5), "char CNN")


def test_char_cnn_windows() -> None:
    """One filter that counts a window's first character: only starts inside the word may win."""
    table = np.array([[9.0], [1.0], [2.0]])  # the pad's own vector must not be seen
    kernel, bias = np.array([[[1.0]], [[-9.0]]]), np.array([0.5])
    # "1": window at 0 = 1 + .5; "1 2": windows 1 - 18 -> 0, 2 + .5; empty: a pad, zero
    ids = np.array([[[1, 0, 0], [1, 2, 0], [0, 0, 0]]])
    close(oracles.char_cnn(ids, table, kernel, bias), np.array([[[1.5], [2.5], [0.0]]]), "windows")


def test_exact_match() -> None:
    one, two = oracles.exact_match(np.array([[5, 1, 7, 0]]), np.array([[7, 7, 1, 0]]))
    assert one.tolist() == [[0, 0, 1, 0]] and two.tolist() == [[1, 1, 0, 0]]


def test_highway_carries_and_transforms() -> None:
    x, eye, zero = noise(2, 3), np.eye(3), np.zeros((3, 3))
    close(oracles.highway(x, [(eye, 0, zero, -50.0)] * 2), x, "closed gate")
    close(oracles.highway(x, [(eye, 0, zero, 50.0)]), np.maximum(x, 0), "open gate")
    close(oracles.highway(x, [(eye, 0, zero, 0)]), (np.maximum(x, 0) + x) / 2, "half open")


def test_co_attention_weights_and_symmetry() -> None:
    p, q, mask_q = X, noise(3, 6, 4, seed=1), lengths_mask([6, 2, 4], 6)
    a_p, a_q, alpha_p, alpha_q = oracles.co_attention(p, q, MASK, mask_q)
    close(alpha_p.sum(2), MASK.astype(float), "rows of P sum to one")
    close(alpha_q.sum(2), mask_q.astype(float), "rows of Q sum to one")
    close([a_q, a_p], list(oracles.co_attention(q, p, mask_q, MASK)[:2]), "swap")
    same = np.tile(q[:, :1], (1, 6, 1))  # one vector repeated: its average is itself
    close(oracles.co_attention(p, same, MASK, mask_q)[0], same[:, :5] * MASK[..., None], "average")


def random_stack(widths: list[int], units: int, seed: int = 0) -> list[tuple[list, list]]:
    rng = np.random.default_rng(seed)
    shape = [((w, 4 * units), (units, 4 * units), (4 * units,)) for w in widths]
    return [tuple([rng.normal(size=s) for s in three] for _ in "fb") for three in shape]  # type: ignore[misc]


def lstm_parameters(width: int, units: int) -> int:
    return 2 * (4 * units * (width + units) + 4 * units)


# by row of Table 6: input width of each of 3 layers, and the final width, at units 2 and width 7
WIDTHS = {
    1: [7, 15, 23, 31],
    5: [7, 15, 19, 23],
    6: [7, 15, 19, 23],
    7: [7, 15, 15, 15],
    8: [7, 15, 15, 15],
    9: [7, 8, 8, 8],
    10: [7, 8, 8, 8],
    11: [7, 4, 4, 4],
}


@pytest.mark.parametrize("row", WIDTHS)
def test_connections(row: int) -> None:
    p, q, mask_q = noise(3, 5, 7), noise(3, 6, 7, seed=1), lengths_mask([6, 2, 4], 6)
    stack = random_stack(WIDTHS[row][:-1], 2)
    out = oracles.dense_co_attentive_rnn(p, q, MASK, mask_q, stack, row=row)
    assert out["widths"] == WIDTHS[row]
    assert len(out["attentions"]) == (0 if row == 11 else 3)
    assert not out["p"][~MASK].any()
    swapped = oracles.dense_co_attentive_rnn(q, p, mask_q, MASK, stack, row=row)
    close([swapped["q"], swapped["p"]], [out["p"], out["q"]], "swap")


def test_connection_blocks() -> None:
    """What stands where: h = 1, 2.., a = 10, 20.., emb = 7, x = 5; the older layer last."""
    h, a, base, x = (np.array([[float(v)]]) for v in (3, 30, 7, 5))
    past = [[np.array([[1.0]]), np.array([[10.0]])], [np.array([[2.0]]), np.array([[20.0]])]]
    want = {
        1: [3, 30, 5],
        5: [3, 30, 2, 1, 7],
        6: [3, 30, 20, 10, 7],
        7: [3, 30, 7],
        8: [6, 60, 7],
        9: [6, 60],
        10: [3, 30],
        11: [3],
    }
    for row, blocks in want.items():
        assert oracles.drcn_step(row, x, h, a, base, past)[0].tolist() == blocks, row
    alone = [old[:1] for old in past]
    assert oracles.drcn_step(1, x, h, None, base, alone)[0].tolist() == [3, 5]
    assert oracles.drcn_step(6, x, h, None, base, alone)[0].tolist() == [3, 7]


def drcn_weights(
    width: int,
    units: int,
    code: int,
    hidden: int,
    rng: Any,
    attention: bool = True,
    autoencoders: bool = True,
) -> dict[str, Any]:
    """Five dense layers, auto-encoders after 3 and 5, two hidden layers, three classes."""
    step, ins, coders = (4 if attention else 2) * units, [], {}
    for number in range(1, 6):
        ins.append(width)
        width += step
        if autoencoders and number in (3, 5):
            shapes = ((width, code), (code,), (code, width), (width,))
            coders[number] = [rng.normal(size=s) for s in shapes]
            width = code
    sizes = [5 * width, hidden, hidden, 3]
    *dense, output = [(rng.normal(size=s), rng.normal(size=s[1])) for s in zip(sizes, sizes[1:])]
    stack = random_stack(ins, units)
    return {
        "layers": stack,
        "autoencoders": coders,
        "attention": attention,
        "hidden": dense,
        "output": output,
    }


@pytest.mark.parametrize(
    "width, options, count",
    [
        (633, {}, 6_664_636),
        (633, {"autoencoders": False}, 20_306_003),
        (632, {"attention": False}, 5_620_835),
    ],
)
def test_drcn_has_the_paper_s_parameters(width: int, options: dict, count: int) -> None:
    """SPEC 13: the three counts of the paper, which leave out the whole character CNN."""
    rng = np.random.default_rng(0)
    weights = drcn_weights(width, 100, 200, 1000, rng, **options)
    parts = [weights[k] for k in ("layers", "autoencoders", "hidden", "output")]
    assert sum(p.size for p in keras.tree.flatten(parts)) == count


def test_drcn_forward() -> None:
    rng = np.random.default_rng(0)
    weights = drcn_weights(3 + 3 + 2 + 1, 2, 4, 6, rng)
    weights["embeddings"] = [rng.normal(size=(9, 3)) for _ in "tf"]
    weights["char"] = (rng.normal(size=(5, 2)), rng.normal(size=(2, 2, 2)), rng.normal(size=2))
    norm = (rng.normal(size=6), rng.normal(size=6), rng.normal(size=6), rng.uniform(0.5, 2, 6))
    weights["hidden"][0] = (*weights["hidden"][0], norm)
    ids = np.array([[3, 4, 5, 0], [6, 2, 0, 0]])
    other = np.array([[5, 4, 0], [7, 8, 3]])
    inputs = {"word_ids_1": ids, "word_ids_2": other}
    inputs |= {
        f"char_ids_{n}": rng.integers(1, 5, (*i.shape, 4)) * (i != 0)[..., None]
        for n, i in ((1, ids), (2, other))
    }
    out = oracles.drcn_forward(inputs, weights)
    close(out["probabilities"].sum(1), np.ones(2), "probabilities")
    assert out["widths"] == [9, 17, 25, 33, 4, 12, 20, 4]
    assert len(out["losses"]) == 2 and min(out["losses"]) > 0
    close([r.sum(1) for r in out["rates"]], [np.ones(2)] * 2, "rates")
    longer = {n: np.pad(a, [(0, 0), (0, 2), (0, 0)][: a.ndim]) for n, a in inputs.items()}
    again = oracles.drcn_forward(longer, weights)
    close(again["probabilities"], out["probabilities"], "padding")
    close(again["losses"], out["losses"], "padding, losses")


def test_bottleneck_and_losses() -> None:
    x, mask = noise(2, 3, 4), lengths_mask([3, 1], 3)
    code, rebuilt = oracles.bottleneck(x, mask, np.eye(4)[:, :2], 0, np.eye(4)[:2], 0)
    close(code, np.tanh(x[..., :2]) * mask[..., None], "code")
    close(rebuilt[..., 2:], np.zeros((2, 3, 2)), "reconstruction")
    rows = [x[0, 0], x[0, 1], x[0, 2], x[1, 0]]  # the four real tokens
    assert oracles.masked_mse(x, 0 * x, mask) == pytest.approx(np.mean(np.square(rows)), rel=1e-6)
    assert oracles.masked_mse(x, 0 * x, mask & False) == 0
    assert oracles.autoencoder_loss(1.0, 2.0) == 1.5
    assert oracles.l2_penalty([np.array([3.0, 4.0]), np.array([[1.0]])], 0.5) == 13


def test_batch_norm_equals_keras() -> None:
    layer = keras.layers.BatchNormalization()
    x = noise(4, 3)
    layer.build(x.shape)
    randomise(layer)
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    weights = values([getattr(layer, n) for n in names])
    close(layer(keras.ops.convert_to_tensor(x)), oracles.batch_norm(x, *weights), "batch norm")


def test_matching_vector() -> None:
    assert oracles.matching_vector(np.array([1, 5]), np.array([3, 2])).tolist() == [
        *(1, 5, 3, 2, 4, 7, -2, 3, 2, 3)
    ]


def test_max_pool_rates() -> None:
    x = np.array([[[5.0, 0, 0, 9], [1, 2, 3, 0], [9, 9, 9, 99]], [[1, 1, 1, 1]] * 3])
    mask = np.array([[1, 1, 0], [0, 0, 0]], bool)
    assert oracles.max_pool_rates(x, mask).tolist() == [[0.5, 0.5, 0], [0, 0, 0]]
