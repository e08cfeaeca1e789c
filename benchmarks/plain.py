"""ESIM and RE2 in plain PyTorch: what `speed.py` and `gpu.py` compare with.

The networks compute what `ESIM` and `RE2` of `keras_sentmatch.applications` compute in the papers'
sizes (RE2 with its SNLI configuration). Each sentence runs on its own through `nn.LSTM`s, packed if
there is padding. PyTorch's LSTM has two biases where Keras has one. Sentences must not be empty.
`tests/benchmarks/test_plain.py` compares the probabilities.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# === What the networks share ===


def packed(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Run `lstm` over the real tokens alone. Returns zeros at the padding."""
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(sequence)[0], batch_first=True, total_length=x.shape[1])[0]


def recurrent(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Run `packed`, or the plain LSTM if there is no padding, which is faster on a CPU."""
    return lstm(x)[0] if lengths.min() == x.shape[1] else packed(lstm, x, lengths)


def count(model: nn.Module) -> tuple[int, int]:
    """Count parameters with the running statistics, as Keras does, and the second biases among them."""
    numbers = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
    lstms = [m for m in model.modules() if isinstance(m, nn.LSTM)]
    second = sum(p.numel() for m in lstms for n, p in m.named_parameters() if "bias_hh" in n)
    return sum(n.numel() for n in numbers), second


def word_embedding(words: int, dim: int, trainable: bool) -> nn.Embedding:
    table = nn.Embedding(words, dim, padding_idx=0)
    nn.init.uniform_(table.weight, -0.05, 0.05)
    nn.init.zeros_(table.weight[0].detach())
    return table.requires_grad_(trainable)


def attend(e: Tensor, one: Tensor, two: Tensor, real_1: Tensor, real_2: Tensor) -> list[Tensor]:
    """Return what each token of either sentence attends to in the other one, by the scores `e`."""
    to_two = e.masked_fill(~real_2[:, None, :], -torch.inf).softmax(2)
    to_one = e.masked_fill(~real_1[:, :, None], -torch.inf).softmax(1)
    return [to_two @ two, to_one.transpose(1, 2) @ one]


def greatest(x: Tensor, real: Tensor) -> Tensor:
    return x.masked_fill(~real[:, :, None], -torch.inf).amax(1)


# === ESIM ===


class PlainESIM(nn.Module):
    """Two BiLSTMs with soft alignment between them."""

    def __init__(self, words: int, classes: int = 3, dim: int = 300, units: int = 300):
        super().__init__()
        self.words = word_embedding(words, dim, trainable=True)
        self.encoding = nn.LSTM(dim, units, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(8 * units, units)
        self.composition = nn.LSTM(units, units, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(8 * units, units)
        self.logits = nn.Linear(units, classes)

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)

    def dropout_of_features(self, x: Tensor) -> Tensor:
        """Apply one mask per sentence, the same for all its tokens."""
        return x * self.dropout(torch.ones_like(x[:, :1]))

    def compose(self, states: Tensor, attended: Tensor, real: Tensor, lengths: Tensor) -> Tensor:
        pair = [states, attended, states - attended, states * attended]
        fused = self.dropout_of_features(F.relu(self.projection(torch.cat(pair, -1))))
        v = recurrent(self.composition, fused, lengths)  # zeros at the padding
        return torch.cat([v.sum(1) / real.sum(1, keepdim=True), greatest(v, real)], -1)

    def forward(self, ids_1: Tensor, ids_2: Tensor) -> Tensor:
        real_1, real_2 = ids_1 != 0, ids_2 != 0
        lengths_1, lengths_2 = real_1.sum(1).cpu(), real_2.sum(1).cpu()
        a = recurrent(self.encoding, self.dropout_of_features(self.words(ids_1)), lengths_1)
        b = recurrent(self.encoding, self.dropout_of_features(self.words(ids_2)), lengths_2)
        to_a, to_b = attend(a @ b.transpose(1, 2), a, b, real_1, real_2)
        pooled = [
            self.compose(a, to_a, real_1, lengths_1),
            self.compose(b, to_b, real_2, lengths_2),
        ]
        v = torch.tanh(self.hidden(self.dropout(torch.cat(pooled, -1))))
        return self.logits(self.dropout(v))


# === RE2 ===


def normalized(layer: nn.Linear | nn.Conv1d) -> nn.Module:
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


class PlainBlock(nn.Module):
    """Encoder, alignment and fusion of RE2."""

    def __init__(self, width: int, units: int):
        super().__init__()
        self.convolutions = nn.ModuleList(
            normalized(nn.Conv1d(n, units, 3, padding=1)) for n in (width, units)
        )
        states = width + units
        self.projection = normalized(nn.Linear(states, units))
        self.temperature = nn.Parameter(torch.tensor(1 / math.sqrt(units)))
        self.views = nn.ModuleList(normalized(nn.Linear(2 * states, units)) for _ in range(3))
        self.fusion = normalized(nn.Linear(3 * units, units))

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training)

    def encode(self, x: Tensor, real: Tensor) -> Tensor:
        encoded = x.transpose(1, 2)
        for convolution in self.convolutions:
            encoded = self.dropout(gelu(convolution(encoded))) * real[:, None, :]
        return torch.cat([x, encoded.transpose(1, 2)], -1)

    def fuse(self, x: Tensor, attended: Tensor, real: Tensor) -> Tensor:
        others = attended, x - attended, x * attended
        views = [gelu(view(torch.cat([x, other], -1))) for view, other in zip(self.views, others)]
        return gelu(self.fusion(self.dropout(torch.cat(views, -1)))) * real[:, :, None]

    def forward(self, x: Tensor, y: Tensor, real_1: Tensor, real_2: Tensor) -> list[Tensor]:
        x, y = self.encode(x, real_1), self.encode(y, real_2)
        keys = [gelu(self.projection(self.dropout(s))) for s in (x, y)]
        e = keys[0] @ keys[1].transpose(1, 2) * self.temperature
        to_x, to_y = attend(e, x, y, real_1, real_2)
        return [self.fuse(x, to_x, real_1), self.fuse(y, to_y, real_2)]


class PlainRE2(nn.Module):
    """Blocks that align the sentences again and again, with augmented residual connections."""

    def __init__(
        self, words: int, classes: int = 3, dim: int = 300, units: int = 150, blocks: int = 3
    ):
        super().__init__()
        self.words = word_embedding(words, dim, trainable=False)
        self.blocks = nn.ModuleList(
            PlainBlock(dim + units if n else dim, units) for n in range(blocks)
        )
        self.hidden = normalized(nn.Linear(4 * units, units))
        self.logits = normalized(nn.Linear(units, classes))

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training)

    def forward(self, ids_1: Tensor, ids_2: Tensor) -> Tensor:
        real = ids_1 != 0, ids_2 != 0
        words = [self.dropout(self.words(ids)) for ids in (ids_1, ids_2)]
        inputs, sums = words, []
        for block in self.blocks:
            outputs = block(*inputs, *real)
            if sums:
                sums = [(r + s) * math.sqrt(0.5) for r, s in zip(outputs, sums)]
            else:
                sums = outputs
            inputs = [torch.cat([s, w], -1) for s, w in zip(sums, words)]
        p, q = (greatest(r, m) for r, m in zip(outputs, real))
        v = self.dropout(torch.cat([p, q, p - q, p * q], -1))
        return self.logits(self.dropout(gelu(self.hidden(v))))
