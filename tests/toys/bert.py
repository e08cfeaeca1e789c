"""A folder with a tiny BERT, for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest


def tiny_bert(folder: Path, pieces: Sequence[str], seed: int = 0, width: int = 16) -> str:
    """Writes a BERT of two layers (the same on every backend) and its tokenizer; returns the folder."""
    models = pytest.importorskip("keras_hub").models
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backbone = models.BertBackbone(
        vocabulary_size=len(specials) + len(pieces),
        num_layers=2,
        num_heads=2,
        hidden_dim=width,
        intermediate_dim=2 * width,
        max_sequence_length=80,
    )
    rng = np.random.default_rng(seed)
    backbone.set_weights([rng.normal(0, 0.3, w.shape) for w in backbone.get_weights()])
    backbone.save_to_preset(str(folder))
    models.BertTokenizer([*specials, *pieces], lowercase=True).save_to_preset(str(folder))
    return str(folder)
