"""DRCN in plain PyTorch, which `speed.py` and `gpu.py` compare with, and what such networks share.

The same network as `keras_sentmatch.applications.DRCN(..., batch_normalization=True)`, each sentence
on its own through `nn.LSTM`s, packed where there is padding. PyTorch's LSTM has two biases where
Keras has one. `plain_check.py` shows that both networks are the same.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def packed(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """Runs `lstm` over the real tokens alone; zeros at the padding."""
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(sequence)[0], batch_first=True, total_length=x.shape[1])[0]


def recurrent(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    """`packed`, or without packing where there is no padding, which is quicker on a CPU."""
    return lstm(x)[0] if lengths.min() == x.shape[1] else packed(lstm, x, lengths)


def count(model: nn.Module) -> tuple[int, int]:
    """Parameters with the running statistics, as Keras counts; and how many are second biases."""
    numbers = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
    lstms = [m for m in model.modules() if isinstance(m, nn.LSTM)]
    second = sum(p.numel() for m in lstms for n, p in m.named_parameters() if "bias_hh" in n)
    return sum(n.numel() for n in numbers), second


def squares(model: nn.Module) -> Tensor:
    """Sum of the squares of every kernel; embeddings are left out."""
    others = [m for m in model.modules() if not isinstance(m, nn.Embedding)]
    kernels = (p for m in others for p in m.parameters(recurse=False) if p.ndim > 1)
    return sum(kernel.square().sum() for kernel in kernels)


def char_maximum(letters: Tensor, embedded: Tensor, convolution: nn.Conv1d) -> Tensor:
    """`[N, W]` and `[N, W, E]` to the greatest of each filter, `[N, filters]`; zeros if empty."""
    windows = convolution(embedded.transpose(1, 2))
    beyond = letters[:, None, : windows.shape[-1]] == 0  # windows that begin after the word
    return F.relu(windows).masked_fill(beyond, 0).amax(-1)


def exact_match(ids: Tensor, other: Tensor) -> Tensor:
    """`[B, L, 1]`: whether a known word stands in the other sentence."""
    same = (ids[:, :, None] == other[:, None, :]) & (ids[:, :, None] > 1)
    return same.any(2, keepdim=True).float()


class PlainDRCN(nn.Module):
    """Five dense co-attentive BiLSTM layers with autoencoders after the third and the fifth."""

    def __init__(self, words: int, chars: int, classes: int = 3):
        super().__init__()
        self.trainable_words = nn.Embedding(words, 300, padding_idx=0)
        self.fixed_words = nn.Embedding(words, 300, padding_idx=0)
        self.chars = nn.Embedding(chars, 16, padding_idx=0)
        for table in (self.trainable_words, self.fixed_words, self.chars):
            nn.init.uniform_(table.weight, -0.05, 0.05)
            nn.init.zeros_(table.weight[0].detach())
        self.fixed_words.weight.requires_grad_(False)
        self.convolution = nn.Conv1d(16, 32, 5)
        widths = (633, 1033, 1433, 200, 600)
        self.lstms = nn.ModuleList(
            nn.LSTM(width, 100, batch_first=True, bidirectional=True) for width in widths
        )
        self.encoders = nn.ModuleDict({"2": nn.Linear(1833, 200), "4": nn.Linear(1000, 200)})
        self.decoders = nn.ModuleDict({"2": nn.Linear(200, 1833), "4": nn.Linear(200, 1000)})
        self.hidden = nn.ModuleList([nn.Linear(1000, 1000), nn.Linear(1000, 1000)])
        self.norms = nn.ModuleList(nn.BatchNorm1d(1000, eps=1e-3, momentum=0.01) for _ in "12")
        self.logits = nn.Linear(1000, classes)

    def represent(self, ids: Tensor, chars: Tensor, other: Tensor) -> Tensor:
        """`[trainable; fixed; characters; exact match]`."""
        words = [self.trainable_words(ids), self.fixed_words(ids)]
        letters = chars.flatten(0, 1)
        embedded = self.dropout(self.chars(letters), 0.5)
        char = char_maximum(letters, embedded, self.convolution).unflatten(0, ids.shape)
        words = [self.dropout(word, 0.5) for word in words]
        return torch.cat([*words, char, exact_match(ids, other)], -1)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        return F.dropout(x, rate, self.training)

    def forward(self, ids_1: Tensor, chars_1: Tensor, ids_2: Tensor, chars_2: Tensor):
        """Returns the logits and the reconstruction loss."""
        real_1, real_2 = ids_1 != 0, ids_2 != 0
        lengths_1, lengths_2 = real_1.sum(1).cpu(), real_2.sum(1).cpu()
        p = self.represent(ids_1, chars_1, ids_2)
        q = self.represent(ids_2, chars_2, ids_1)
        reconstruction = 0.0
        for layer, lstm in enumerate(self.lstms):
            h_p, h_q = recurrent(lstm, p, lengths_1), recurrent(lstm, q, lengths_2)
            cosines = F.normalize(h_p, dim=-1) @ F.normalize(h_q, dim=-1).transpose(1, 2)
            to_q = cosines.masked_fill(~real_2[:, None, :], -torch.inf).softmax(2)
            to_p = cosines.masked_fill(~real_1[:, :, None], -torch.inf).softmax(1)
            p = torch.cat([h_p, to_q @ h_q, p], -1)
            q = torch.cat([h_q, to_p.transpose(1, 2) @ h_p, q], -1)
            if str(layer) in self.encoders:
                p, loss_p = self.narrow(str(layer), p, real_1)
                q, loss_q = self.narrow(str(layer), q, real_2)
                reconstruction = reconstruction + (loss_p + loss_q) / 2
        p = p.masked_fill(~real_1[:, :, None], -torch.inf).amax(1)
        q = q.masked_fill(~real_2[:, :, None], -torch.inf).amax(1)
        v = torch.cat([p, q, p + q, p - q, (p - q).abs()], -1)
        for hidden, norm in zip(self.hidden, self.norms):
            v = F.relu(norm(hidden(self.dropout(v, 0.2))))
        return self.logits(v), reconstruction

    def narrow(self, layer: str, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """The code of `x` and its reconstruction error, a mean over real tokens."""
        code = self.dropout(torch.tanh(self.encoders[layer](x)), 0.2)
        error = (self.decoders[layer](code) - x).square().mean(-1)
        return code, (error * real).sum() / real.sum()

    def penalty(self) -> Tensor:
        return 1e-6 * squares(self)
