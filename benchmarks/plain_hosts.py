"""ESIM, RE2 and BiMPM as one writes them in plain PyTorch: what `speed.py` and `gpu.py` compare with.

The same networks as `ESIM`, `RE2` and `BiMPM` of `keras_sentmatch.applications` in the papers' sizes
(RE2 with its SNLI configuration, BiMPM with characters), each sentence on its own, `nn.LSTM`s packed
where there is padding. The numbers of parameters are ours but for the second bias that PyTorch's
LSTM has: 4,800 in ESIM, 1,800 in BiMPM, none in RE2. Sentences must not be empty.
"""

import math

import torch
from plain_drcn import recurrent
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence


def word_embedding(words: int, dim: int, trainable: bool) -> nn.Embedding:
    table = nn.Embedding(words, dim, padding_idx=0)
    nn.init.uniform_(table.weight, -0.05, 0.05)
    nn.init.zeros_(table.weight[0].detach())
    return table.requires_grad_(trainable)


def attend(e: Tensor, one: Tensor, two: Tensor, real_1: Tensor, real_2: Tensor) -> list[Tensor]:
    """What each token of either sentence attends to in the other one, by the scores `e`."""
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
        """One mask a sentence, the same for all its tokens."""
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


# === BiMPM ===


class PlainBiMPM(nn.Module):
    """Weighted cosines of every state with the other sentence, in four ways; an LSTM over characters."""

    def __init__(
        self,
        words: int,
        chars: int,
        classes: int = 3,
        dim: int = 300,
        char_dim: int = 20,
        char_units: int = 50,
        units: int = 100,
        hidden: int = 200,
        perspectives: int = 20,
    ):
        super().__init__()
        self.words = word_embedding(words, dim, trainable=False)
        self.chars = nn.Embedding(chars, char_dim, padding_idx=0)
        self.char_lstm = nn.LSTM(char_dim, char_units, batch_first=True)
        self.context = nn.LSTM(dim + char_units, units, batch_first=True, bidirectional=True)
        self.perspectives = nn.Parameter(torch.empty(4, 2, perspectives, units))
        nn.init.xavier_uniform_(self.perspectives)
        self.aggregation = nn.LSTM(8 * perspectives, units, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(4 * units, hidden)
        self.logits = nn.Linear(hidden, classes)

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training)

    def represent(self, ids: Tensor, chars: Tensor) -> Tensor:
        letters = chars.flatten(0, 1)
        counts = (letters != 0).sum(1)
        sequence = pack_padded_sequence(
            self.chars(letters), counts.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        last = self.char_lstm(sequence)[1][0][0] * (counts > 0)[:, None]
        return self.dropout(torch.cat([self.words(ids), last.unflatten(0, ids.shape)], -1))

    def match(self, h: Tensor, other: Tensor, lengths: Tensor, real: Tensor) -> Tensor:
        """The states `h` of a sentence with the states, lengths and mask of the other one."""
        matches = []
        ends = other[torch.arange(len(other), device=h.device), lengths.to(h.device) - 1]
        for direction, (u, v) in enumerate(zip(h.chunk(2, -1), other.chunk(2, -1))):
            full, maximum, attentive, max_attentive = self.perspectives[:, direction]
            a = F.normalize(u, dim=-1) @ F.normalize(v, dim=-1).transpose(1, 2)  # 0 at padding
            end = ends.chunk(2, -1)[0] if direction == 0 else v[:, 0]

            weighted = [F.normalize(x[:, None] * maximum[:, None], dim=-1) for x in (u, v)]
            each = weighted[0] @ weighted[1].transpose(2, 3)  # [B, K, L, L']
            best = each.masked_fill(~real[:, None, None], -torch.inf).amax(-1).transpose(1, 2)

            total = a.sum(-1, keepdim=True)
            mean = a @ v / torch.where(total.abs() < 1e-8, 1e-8, total)

            first = a.masked_fill(~real[:, None], -torch.inf).argmax(-1, keepdim=True)
            chosen = v.gather(1, first.expand(-1, -1, v.shape[-1]))

            matches.append(
                [
                    cosines(u, end[:, None], full),
                    best,
                    cosines(u, mean, attentive),
                    cosines(u, chosen, max_attentive),
                ]
            )
        return self.dropout(torch.cat([m for pair in zip(*matches) for m in pair], -1))

    def aggregate(self, matches: Tensor, lengths: Tensor) -> Tensor:
        forward, backward = recurrent(self.aggregation, matches, lengths).chunk(2, -1)
        rows = torch.arange(len(matches), device=matches.device)
        return torch.cat([forward[rows, lengths.to(rows.device) - 1], backward[:, 0]], -1)

    def forward(self, ids_1: Tensor, chars_1: Tensor, ids_2: Tensor, chars_2: Tensor) -> Tensor:
        real_1, real_2 = ids_1 != 0, ids_2 != 0
        lengths_1, lengths_2 = real_1.sum(1).cpu(), real_2.sum(1).cpu()
        p = self.dropout(recurrent(self.context, self.represent(ids_1, chars_1), lengths_1))
        q = self.dropout(recurrent(self.context, self.represent(ids_2, chars_2), lengths_2))
        one = self.aggregate(self.match(p, q, lengths_2, real_2), lengths_1)
        two = self.aggregate(self.match(q, p, lengths_1, real_1), lengths_2)
        v = torch.tanh(self.hidden(self.dropout(torch.cat([one, two], -1))))
        return self.logits(self.dropout(v))


def cosines(u: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """`cos(w_k * u, w_k * v)` of `[B, L, D]` and `[B, 1 or L, D]` as `[B, L, K]`."""
    return F.cosine_similarity(u[:, :, None] * weights, v[:, :, None] * weights, dim=-1)
