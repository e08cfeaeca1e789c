"""Tiny random encoders of each kind, with vocabularies made here, for tests."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_sentmatch.text.backbones import KINDS

PREFIXES = [kind.prefix for kind in KINDS]
LENGTH = 64
# English, Chinese and Thai, the last two without spaces.
FIRST = ["A dog runs in the park.", "两只狗在公园里跑步。", "สุนัขวิ่งเล่นในสวน", "The cat’s asleep"]
SECOND = ["An animal moves.", "有动物在外面。", "แมวกำลังนอนหลับ", "It runs 12,345 times!"]
SENTENCES = [*FIRST, *SECOND]
_SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
_SPECIAL = {
    "Albert": {"pad": "<pad>", "unk": "<unk>", "bos": "[CLS]", "eos": "[SEP]"},
    "DebertaV3": {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"},
}


@cache
def tokenizer(prefix: str) -> Any:
    """A tokenizer of a kind, whose vocabulary covers SENTENCES."""
    hub = pytest.importorskip("keras_hub")
    make = getattr(hub.models, f"{prefix}Tokenizer")
    if prefix == "Roberta":
        return make(*byte_pairs())
    if issubclass(make, hub.tokenizers.WordPieceTokenizer):
        letters = sorted({char for text in SENTENCES for char in text.lower() if char.strip()})
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        pieces = ["dog", "cat", "run", *letters, *(f"##{char}" for char in letters)]
        return make([*special, *pieces], lowercase=True)
    return make(sentence_pieces(prefix))


@cache
def byte_pairs() -> tuple[dict[str, int], list[str]]:
    """Vocabulary and merges, all bytes among them."""
    library = pytest.importorskip("tokenizers")
    made = library.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(SENTENCES * 2, vocab_size=320, special_tokens=special)
    merges = json.loads(made.to_str())["model"]["merges"]
    return made.get_vocab(), [" ".join(pair) for pair in merges]


@cache
def sentence_pieces(prefix: str) -> bytes:
    """A SentencePiece model with the special tokens of a kind."""
    library = pytest.importorskip("sentencepiece")
    special = _SPECIAL.get(prefix, {})
    options: dict[str, Any] = {f"{name}_piece": piece for name, piece in special.items()}
    options |= {f"{name}_id": i for i, name in enumerate(special)}
    found = io.BytesIO()
    texts = [text.lower() for text in SENTENCES] if prefix == "Albert" else SENTENCES
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 4),
        model_writer=found,
        vocab_size=110,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
        **({"control_symbols": ["[MASK]"]} if special else {}),
        **options,
    )
    return found.getvalue()


def backbone(prefix: str, seed: int = 0) -> Any:
    """A backbone for `tokenizer(prefix)`, with the same weights on every backend."""
    hub = pytest.importorskip("keras_hub")
    vocabulary = "vocab_size" if prefix == "Electra" else "vocabulary_size"
    narrow = {"embedding_dim": 4} if prefix in ("Albert", "Electra") else {}
    made = getattr(hub.models, f"{prefix}Backbone")(
        **{vocabulary: tokenizer(prefix).vocabulary_size()},
        **_SIZES,
        **narrow,
        **({"bucket_size": 8} if prefix == "DebertaV3" else {}),
        max_sequence_length=LENGTH,
    )
    rng = np.random.default_rng(seed)
    for weight in made.weights:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(0, 0.7, weight.shape))
    return made


def folder_of(prefix: str, folder: Path) -> str:
    """Writes an encoder of a kind as a KerasHub preset; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    backbone(prefix).save_to_preset(str(folder))
    tokenizer(prefix).save_to_preset(str(folder))
    return str(folder)
