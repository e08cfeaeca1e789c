"""Hugging Face folders: the ids and the states are those of transformers, padding included."""

import json
import warnings

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import Sentence
from keras_sentmatch.applications.backbone import Backbone
from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbones import load_backbone, load_tokenizer
from tests.toys.encoders import FIRST, SECOND, byte_pairs, sentence_pieces, tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.backend("torch")]

SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
CONFIGS = {  # of transformers: model_type and what is particular
    "Bert": {},
    "Roberta": {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
    "XLMRoberta": {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
    "Albert": {"embedding_size": 4},
    "DistilBert": {},
}


def write_folder(prefix, folder):
    """A model of transformers with random weights, and the files of its tokenizer."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = SIZES
    if prefix == "DistilBert":
        sizes = {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}
    given = tokenizer(prefix)
    options = {"max_position_embeddings": 64, **sizes, **CONFIGS[prefix]}
    config = getattr(transformers, f"{prefix}Config")(vocab_size=given.vocabulary_size(), **options)
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.5)
        if prefix == "Roberta":  # of its checkpoints this one vector is zero, and KerasHub skips it
            model.base_model.embeddings.token_type_embeddings.weight.zero_()
    model.save_pretrained(folder)
    if prefix == "Roberta":
        vocabulary, merges = byte_pairs()
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    elif prefix in ("XLMRoberta", "Albert"):
        name = "spiece.model" if prefix == "Albert" else "sentencepiece.bpe.model"
        (folder / name).write_bytes(sentence_pieces(prefix))
    else:
        (folder / "vocab.txt").write_text("\n".join(given.get_vocabulary()) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return model.base_model.eval()


@pytest.mark.parametrize("prefix", CONFIGS)
def test_the_states_of_transformers(prefix, tmp_path):
    model = write_folder(prefix, tmp_path)
    import torch

    encoder = SubwordPairEncoder.from_preset(tmp_path, max_length=48)
    assert type(encoder.tokenizer) is type(tokenizer(prefix))
    found = encoder.encode(FIRST, SECOND)
    inputs = {"input_ids": found["token_ids"], "attention_mask": found["padding_mask"]}
    if prefix in ("Bert", "Albert"):
        inputs["token_type_ids"] = found["segment_ids"]
    with torch.no_grad():
        want = model(**{name: torch.tensor(x).long() for name, x in inputs.items()})
    want = want.last_hidden_state.numpy()
    mine = Backbone(str(tmp_path), "float32")
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in found.items()}
    pair = Sentence(**tensors, mask=tensors["padding_mask"] > 0)
    x = mine.embed(pair)
    for i in range(len(mine.blocks)):
        x = mine.block(i, x, pair)
    real = found["padding_mask"] > 0
    np.testing.assert_allclose(keras.ops.convert_to_numpy(x)[real], want[real], atol=5e-3)  # GELU


@pytest.mark.parametrize("kind", ["modernbert", "electra", "gpt2"])
def test_kinds_that_are_not_supported(kind, tmp_path):
    vocabulary, merges = byte_pairs()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "vocab_size": 9}))
    (tmp_path / "vocab.json").write_text(json.dumps({**vocabulary, "<|endoftext|>": 999}))
    (tmp_path / "merges.txt").write_text("\n".join(merges) + "\n")
    for load in (load_tokenizer, load_backbone):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(InputError, match=r"Expected .*BERT, RoBERTa, XLM-RoBERTa, ALBERT"):
                load(tmp_path)
