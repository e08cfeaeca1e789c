"""DRr-Net as one writes it in plain PyTorch: what `speed.py` and `gpu.py` compare with."""

import torch
from plain_cafe import PlainHighway
from plain_drcn import char_maximum, exact_match
from plain_hosts import word_embedding
from torch import Tensor, nn


def hidden_layers(width: int, units: int) -> nn.Sequential:
    layers = [nn.Linear(width, units), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(units, units), nn.ReLU(), nn.Dropout(0.2))


class PlainJudge(nn.Module):
    """Class probabilities from two vectors, and a gate for them."""

    def __init__(self, width: int, hidden: int, classes: int):
        super().__init__()
        self.mlp = nn.Sequential(nn.Dropout(0.2), *hidden_layers(4 * width, hidden))
        self.classes = nn.Linear(hidden, classes)
        self.gate = nn.Linear(classes, 1)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.classes(self.mlp(torch.cat([x, y, x * y, x - y], -1)))
        p = logits.softmax(-1)
        return logits, torch.sigmoid(self.gate(p)) * p


class PlainDRrNet(nn.Module):
    """Three stacked GRUs, a global vector, and a GRU that reads the six most important words again.

    The GRUs run one way, so padding on the right does not reach the states: no packing.
    """

    def __init__(
        self,
        words: int,
        chars: int,
        classes: int = 3,
        dim: int = 300,
        char_dim: int = 100,
        char_filters: int = 100,
        units: int = 256,
        attention_units: int = 200,
        hidden: int = 256,
        steps: int = 6,
    ):
        super().__init__()
        self.steps = steps
        self.words = word_embedding(words, dim, trainable=False)
        self.chars = nn.Embedding(chars, char_dim, padding_idx=0)
        self.convolution = nn.Conv1d(char_dim, char_filters, 5)
        width = dim + char_filters + 1
        self.highway = PlainHighway(width)
        self.grus = nn.ModuleList(
            nn.GRU(width + n * units, units, batch_first=True) for n in range(3)
        )
        states = width + 3 * units
        self.pooling = nn.Linear(states, units)
        self.pooling_context = nn.Linear(units, 1, bias=False)
        self.token = nn.Linear(states, attention_units, bias=False)
        self.state = nn.Linear(units, attention_units, bias=False)
        self.guide = nn.Linear(states, attention_units, bias=False)
        self.context = nn.Linear(attention_units, 1, bias=False)
        self.initial = nn.Linear(states, units)
        self.cell = nn.GRUCell(states, units)
        self.judge_h = PlainJudge(states, hidden, classes)
        self.judge_v = PlainJudge(units, hidden, classes)
        self.mlp = hidden_layers(classes, hidden)
        self.logits = nn.Linear(hidden, classes)

    def encode(self, ids: Tensor, chars: Tensor, other: Tensor) -> Tensor:
        letters = chars.flatten(0, 1)
        char = char_maximum(letters, self.chars(letters), self.convolution)
        features = self.words(ids), char.unflatten(0, ids.shape), exact_match(ids, other)
        x = self.highway(torch.cat(features, -1))
        for gru in self.grus:
            x = torch.cat([gru(x)[0], x], -1)
        return x

    def pool(self, x: Tensor, scores: Tensor, real: Tensor) -> Tensor:
        """The sum of the tokens weighted by the softmax of `[B, L, 1]` scores."""
        weights = scores.masked_fill(~real[:, :, None], -torch.inf).softmax(1)
        return (weights.transpose(1, 2) @ x).squeeze(1)

    def reread(self, x: Tensor, start: Tensor, guide: Tensor, real: Tensor) -> Tensor:
        fixed = self.token(x) + self.guide(guide)[:, None]
        state = torch.tanh(self.initial(start))
        for _ in range(self.steps):
            scores = self.context(torch.tanh(fixed + self.state(state)[:, None]))
            state = self.cell(self.pool(x, 10 * scores, real), state)
        return state

    def forward(self, ids_1: Tensor, chars_1: Tensor, ids_2: Tensor, chars_2: Tensor):
        """Returns the logits, and those of the two predictions on the way, which are trained too."""
        real = ids_1 != 0, ids_2 != 0
        x, y = self.encode(ids_1, chars_1, ids_2), self.encode(ids_2, chars_2, ids_1)
        p, q = (
            self.pool(z, self.pooling_context(torch.tanh(self.pooling(z))), m)
            for z, m in zip((x, y), real)
        )
        v, w = self.reread(x, p, q, real[0]), self.reread(y, q, p, real[1])
        (logits_h, gated_h), (logits_v, gated_v) = self.judge_h(p, q), self.judge_v(v, w)
        return self.logits(self.mlp(gated_h + gated_v)), (logits_h, logits_v)
