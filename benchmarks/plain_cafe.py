"""CAFE as one writes it in plain PyTorch: what `speed.py` and `gpu.py` compare with."""

import torch
from plain_drcn import char_maximum, squares
from plain_hosts import attend, greatest, word_embedding
from torch import Tensor, nn
from torch.nn import functional as F


class PlainHighway(nn.Module):
    """Two highway layers."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)]) for _ in "12"
        )

    def forward(self, x: Tensor) -> Tensor:
        for gate, transform in self.layers:
            g = torch.sigmoid(gate(x))
            x = g * F.relu(transform(x)) + (1 - g) * x
        return x


class PlainMachine(nn.Module):
    """A factorization machine: one number from a vector."""

    def __init__(self, width: int, factors: int = 10):
        super().__init__()
        self.linear = nn.Linear(width, 1)
        self.factors = nn.Parameter(torch.empty(width, factors))
        nn.init.xavier_uniform_(self.factors)

    def forward(self, z: Tensor) -> Tensor:
        pairs = (z @ self.factors).square() - z.square() @ self.factors.square()
        return self.linear(z) + 0.5 * pairs.sum(-1, keepdim=True)


class PlainCAFE(nn.Module):
    """Attention between and within sentences, compressed to six numbers a word; an LSTM.

    The LSTM runs one way, so padding on the right does not reach what is pooled: no packing.
    """

    def __init__(
        self,
        words: int,
        chars: int,
        classes: int = 3,
        dim: int = 300,
        char_dim: int = 20,
        char_filters: int = 64,
        units: int = 300,
    ):
        super().__init__()
        self.words = word_embedding(words, dim, trainable=False)
        self.chars = nn.Embedding(chars, char_dim, padding_idx=0)
        self.convolution = nn.Conv1d(char_dim, char_filters, 5)
        self.word_projection = nn.Linear(dim + char_filters, units)
        self.word_highway = PlainHighway(units)
        self.inter_keys, self.intra_keys = nn.Linear(units, units), nn.Linear(units, units)
        widths = 2 * units, units, units  # concatenation, product, difference
        self.inter = nn.ModuleList(PlainMachine(width) for width in widths)
        self.intra = nn.ModuleList(PlainMachine(width) for width in widths)
        self.lstm = nn.LSTM(units + 6, units, batch_first=True)
        self.projection = nn.Linear(8 * units, units)
        self.highway = PlainHighway(units)
        self.logits = nn.Linear(units, classes)

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training)

    def represent(self, ids: Tensor, chars: Tensor, real: Tensor) -> Tensor:
        letters = chars.flatten(0, 1)
        char = char_maximum(letters, self.chars(letters), self.convolution)
        x = self.dropout(torch.cat([self.words(ids), char.unflatten(0, ids.shape)], -1))
        return self.word_highway(self.word_projection(x)) * real[:, :, None]

    def compare(self, machines: nn.ModuleList, x: Tensor, attended: Tensor) -> list[Tensor]:
        compared = torch.cat([x, attended], -1), x * attended, x - attended
        return [machine(z) for machine, z in zip(machines, compared)]

    def compose(self, x: Tensor, aligned: Tensor, real: Tensor) -> Tensor:
        keys = F.relu(self.intra_keys(x))
        within, _ = attend(keys @ keys.transpose(1, 2), x, x, real, real)
        numbers = self.compare(self.inter, x, aligned) + self.compare(self.intra, x, within)
        states, _ = self.lstm(self.dropout(torch.cat([x, *numbers], -1)))
        mean = (states * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
        return torch.cat([mean, greatest(states, real)], -1)

    def forward(self, ids_1: Tensor, chars_1: Tensor, ids_2: Tensor, chars_2: Tensor) -> Tensor:
        real_1, real_2 = ids_1 != 0, ids_2 != 0
        x, y = self.represent(ids_1, chars_1, real_1), self.represent(ids_2, chars_2, real_2)
        keys = [F.relu(self.inter_keys(z)) for z in (x, y)]
        to_x, to_y = attend(keys[0] @ keys[1].transpose(1, 2), x, y, real_1, real_2)
        p, q = self.compose(x, to_x, real_1), self.compose(y, to_y, real_2)
        v = self.dropout(torch.cat([p, q, p - q, p * q], -1))
        return self.logits(self.dropout(self.highway(self.projection(v))))

    def penalty(self) -> Tensor:
        return 1e-8 * squares(self)
