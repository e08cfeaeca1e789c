"""DIIN: Densely Interactive Inference Network (Gong et al., ICLR 2018)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    _CallWith,
    classifier,
    encode_both,
    feature_blocks,
    pair_inputs,
    register_model,
)
from keras_sentmatch.applications.pictures import FEATURE_MAP, FEATURE_PICTURES, WITHIN, PictureSpec
from keras_sentmatch.applications.search_space import (
    FEATURE_ATTENTION,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    DecayingDropout,
    DenseInteractionCNN,
    Highway,
    SelfAttentiveEncoder,
    WordRepresentation,
)
from keras_sentmatch.ops import at_least_float32


@register_model("diin")
class DIIN(PairModel):
    """Densely Interactive Inference Network: a DenseNet over the products of all pairs of tokens.

    Every sentence is padded or cut to `max_length` tokens, whatever the length of the batch: the DenseNet needs a grid of
    one size. Give the encoder of the pairs the same `max_length`, so that it counts what is cut.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `True`.
        char_vocabulary_size: number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_dim: width of a character embedding. Defaults to `8`.
        char_filters: width of the character feature. Defaults to `100`.
        char_kernel_size: characters in a window. Defaults to `5`.
        max_word_length: characters a word is padded to. Defaults to `16`.
        pos_tags: number of part-of-speech ids (`pos_1`, `pos_2`; the paper has 47); 0 leaves them out. Defaults to `0`.
        exact_match: whether to flag words of the other sentence. Defaults to `True`.
        max_length: tokens a sentence is padded or cut to, at least `2 ** blocks`. Defaults to `32`.
        highway_layers: highway layers over the word features. Defaults to `2`.
        first_scale: features kept by the first convolution, as a share. Defaults to `0.3`.
        blocks: dense blocks. Defaults to `3`.
        layers_per_block: convolutions in each. Defaults to `8`.
        growth_rate: features that each of them adds. Defaults to `20`.
        kernel_size: cells in a row of their windows. Defaults to `3`.
        compression: features kept after a block, as a share. Defaults to `0.5`.
        mask_padding: whether padding gets no attention and its cells of the grid are zero; `False` treats it as a word.
            Defaults to `True`.
        dropout: rate at the first training step, see `DecayingDropout`. Defaults to `0.0`.
        dropout_decay: what the share of kept values is multiplied by every `dropout_decay_steps` steps. Defaults to `0.977`.
        dropout_decay_steps: see there. Defaults to `10_000`.
        difference_penalty: weight of half the squared difference between the two encoders' kernels. Defaults to `1e-3`.
        l2: weight, in the end, of half the squares of all kernels; at training step t it is
            `l2 * sigmoid(8 (2 t / l2_steps - 1))`. Defaults to `9e-5`.
        l2_steps: steps until it is there. Defaults to `100_000`.
        feature_attention: blocks that gate the features of each encoding: `"fa"`, `"sfa"`, a layer to
            copy, or `None`. Defaults to `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with those features `char_ids_1`
        `[B, L1, max_word_length]`, `char_ids_2`, `pos_1`, `pos_2`. Right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DIIN
        >>> model = DIIN(vocabulary_size=20, embedding_dim=8, max_length=8, growth_rate=2)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Gong, Luo, Zhang: "Natural Language Inference over Interaction Space", ICLR 2018, arXiv 1709.04348.
    """

    paper = "Gong et al. 2018"
    summary_line = "a DenseNet over the products of all pairs of tokens"
    presets = {
        "snli": {"num_classes": 3, "max_length": 32},
        "multinli": {"num_classes": 3, "max_length": 48},
        "quora": {"num_classes": 2, "max_length": 24},
        "no_exact_match": {"exact_match": False},
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        Choice("encoder.max_length", (16, 24, 32, 48), also=["model.max_length"]),
        Choice("model.highway_layers", (1, 2, 3)),
        Choice("model.first_scale", (0.2, 0.3, 0.4)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.layers_per_block", (3, 5, 8)),
        Choice("model.growth_rate", (10, 20, 30)),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        *FEATURE_PICTURES,
        PictureSpec(
            "self_attention_{side}", "{side} {side}", "Self-attention, sentence {side}", WITHIN
        ),
        FEATURE_MAP,
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = True,
        char_vocabulary_size: int = 0,
        char_dim: int = 8,
        char_filters: int = 100,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        pos_tags: int = 0,
        exact_match: bool = True,
        max_length: int = 32,
        highway_layers: int = 2,
        first_scale: float = 0.3,
        blocks: int = 3,
        layers_per_block: int = 8,
        growth_rate: int = 20,
        kernel_size: int = 3,
        compression: float = 0.5,
        mask_padding: bool = True,
        dropout: float = 0.0,
        dropout_decay: float = 0.977,
        dropout_decay_steps: int = 10_000,
        difference_penalty: float = 1e-3,
        l2: float = 9e-5,
        l2_steps: int = 100_000,
        feature_attention: Any = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        if max_length < 2**blocks:
            raise InputError(
                f"max_length must be at least 2 ** blocks = {2**blocks}: each block halves the grid. "
                f"Received: max_length={max_length}, blocks={blocks}"
            )
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))
        schedule = (dropout, dropout_decay, dropout_decay_steps)

        def drop(name: str) -> Any:
            return DecayingDropout(*schedule, dtype=dtype, name=name)

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding=trainable_embedding,
            fixed_embedding=not trainable_embedding,
            char_vocabulary_size=char_vocabulary_size,
            char_dim=char_dim,
            char_filters=char_filters,
            char_kernel_size=char_kernel_size,
            exact_match=exact_match,
            pos_tags=pos_tags,
            dropout=0.0,
            dtype=dtype,
            name="word_representation",
        )
        word_dropout = drop("word_dropout")
        highway = Highway(highway_layers, dtype=dtype, name="highway")
        encoders = {  # eq 1-7
            side: SelfAttentiveEncoder(
                *schedule, dtype=dtype, name=f"self_attentive_encoder_{side}"
            )
            for side in ("1", "2")
        }
        attend_features = feature_blocks(feature_attention, feature_attention_config, dtype=dtype)
        interaction_dropout = drop("interaction_dropout")
        dense_net = DenseInteractionCNN(
            first_scale,
            blocks,
            layers_per_block,
            growth_rate,
            kernel_size,
            compression,
            dtype=dtype,
            name="dense_interaction_cnn",
        )
        output_dropout = drop("output_dropout")
        classify = classifier(num_classes)

        def penalty(t: Any) -> Any:
            """L2, and how far the encoders have moved apart."""
            one, two = (
                [w for w in encoder.trainable_weights if w.name.endswith("kernel")]
                for encoder in encoders.values()
            )
            apart = sum(_half_squares(ops.subtract(a, b)) for a, b in zip(one, two))
            everywhere = [w for w in self.trainable_weights if w.name.endswith("kernel")]
            ramp = ops.sigmoid(8.0 * (2.0 * t / l2_steps - 1.0))
            return difference_penalty * apart + l2 * ramp * sum(map(_half_squares, everywhere))

        # === Functional model ===
        inputs = pair_inputs(char_vocabulary_size, max_word_length, pos_tags)

        def embed(sentence: Encoding) -> Encoding:
            x, mask = words(**sentence), ops.not_equal(sentence["word_ids"], 0)
            dropped = embedding_dim + (char_filters if char_vocabulary_size else 0)  # never flags
            x = ops.concatenate([word_dropout(x[:, :, :dropped]), x[:, :, dropped:]], axis=-1)
            return {"features": highway(x), "mask": mask if mask_padding else ops.ones_like(mask)}

        def self_attend(sentence: Encoding, side: str) -> Encoding:
            mask = sentence["mask"]
            states = attend_features.one(side, encoders[side](sentence["features"], mask), mask)
            return {"states": states, "mask": mask}

        def encode(sentence: Encoding, side: str) -> Encoding:
            return self_attend(
                embed({n: _FixedLength(max_length)(x) for n, x in sentence.items()}), side
            )

        def interact(one: Encoding, two: Encoding) -> Any:
            p, q = one["states"], two["states"]
            grid = ops.expand_dims(p, 2) * ops.expand_dims(q, 1)
            return classify(output_dropout(dense_net(interaction_dropout(grid))))

        fixed = {name: _FixedLength(max_length)(x) for name, x in inputs.items()}
        embedded = encode_both(embed, fixed, dtype)
        one, two = (self_attend(x, side) for x, side in zip(embedded, ("1", "2")))
        if difference_penalty or l2:
            one["states"] = _TrainingLoss(penalty, dtype=dtype, name="penalty")(one["states"])
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(
            encode,
            interact,
            "it flags exact matches; make it with exact_match=False" if exact_match else "",
        )
        self._explain = (encoders, attend_features, embedded)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what meets what.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `self_attention_1` and `self_attention_2`
            `[B, max_length, max_length]`, whose rows sum to 1 at real tokens; what `FeatureBlocks.explain` gives, of which
            `feature_map_base` (with feature attention `feature_map`) is the mean over the features of the grid of products.
        """
        encoders, attend_features, embedded = self._explain
        shown = {}
        for side, sentence in zip(("1", "2"), embedded):
            _, shown[f"self_attention_{side}"] = _CallWith(encoders[side], return_attention=True)(
                sentence["features"], sentence["mask"]
            )
        shown.update(attend_features.explain())
        return keras.Model(
            self.input, {"probabilities": self.output, **shown}, name=f"{self.name}_explainer"
        )


def _half_squares(x: Any) -> Any:
    return 0.5 * ops.sum(ops.square(at_least_float32(x)))


class _FixedLength(keras.layers.Layer):
    """Pads with zeros or cuts `[B, L, ...]` to `[B, length, ...]`."""

    def __init__(self, length: int):
        super().__init__(autocast=False)
        self.length = length

    def call(self, x: Any) -> Any:
        more = [[0, 0], [0, self.length]] + [[0, 0]] * (len(x.shape) - 2)
        return ops.reshape(ops.pad(x, more)[:, : self.length], (-1, self.length, *x.shape[2:]))

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((x.shape[0], self.length, *x.shape[2:]), dtype=x.dtype)


class _TrainingLoss(keras.layers.Layer):
    """Hands `x` on and, in training, adds the loss `function(t)` of the step t, which it counts."""

    def __init__(self, function: Callable[[Any], Any], **kwargs: Any):
        super().__init__(**kwargs)
        self.function = function

    def build(self, x_shape: Any) -> None:
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="steps"
        )

    def call(self, x: Any, training: bool | None = None) -> Any:
        if training:
            self.add_loss(self.function(ops.cast(self.steps, "float32")))
            self.steps.assign(self.steps + 1)
        return x

    def compute_output_shape(self, x_shape: Any) -> Any:
        return x_shape
