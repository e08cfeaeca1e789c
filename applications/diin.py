"""DIIN: Densely Interactive Inference Network (Gong et al., ICLR 2018)."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import FEATURE_PICTURES, WITHIN, PictureSpec
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import Highway
from keras_sentmatch.layers.base import require
from keras_sentmatch.layers.diin import DecayingDropout, DenseInteractionCNN, SelfAttentionFusion
from keras_sentmatch.ops.masking import at_least_float32


@register_model("diin")
class DIIN(FeatureHost):
    """A DenseNet over the products of all pairs of tokens.

    Every sentence is padded or cut to `max_length` tokens, whatever the length of the batch,
    because the DenseNet needs a grid of one size. Give the encoder of the pairs the same
    `max_length`, so that it counts what is cut.

    References:
        Gong, Luo, Zhang: "Natural Language Inference over Interaction Space", ICLR 2018, arXiv
        1709.04348.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.represent_words(sentence)
        # Dropout on words and characters, but not on flags.
        dropped = self.embedding_dim + (self.char_filters if self.char_vocabulary_size else 0)
        x = ops.concatenate([self.word_dropout(x[:, :, :dropped]), x[:, :, dropped:]], axis=-1)
        return Sentence(features=self.highway(x), mask=sentence.mask)  # [B, max_length, D]

    def interact(self, one: Sentence, two: Sentence):
        p, q = self.self_attend("1", one), self.self_attend("2", two)  # [B, max_length, D]
        if self.difference_penalty or self.l2:
            p = self.penalty_loss(p)
        p, q = self.attend_features(self.feature_blocks, p, one.mask, q, two.mask)
        grid = ops.expand_dims(p, 2) * ops.expand_dims(q, 1)  # [B, max_length, max_length, D]
        return self.classify(self.output_dropout(self.dense_net(self.interaction_dropout(grid))))

    def self_attend(self, side: str, sentence: Sentence):
        """The words of a sentence in its context (eq 1-7); each side has its own weights."""
        layer, given = self.self_attentions[side], (sentence.features, sentence.mask)

        def show() -> dict[str, Any]:
            return {f"self_attention_{side}": CallWith(layer, return_attention=True)(*given)[1]}

        self.show(show)
        return layer(*given)

    def penalty(self, t):
        """The loss added at step `t`: L2, and how far the weights of both sides have moved apart."""
        one, two = (_kernels(layer) for layer in self.self_attentions.values())
        apart = sum(_half_squares(ops.subtract(a, b)) for a, b in zip(one, two))
        ramp = ops.sigmoid(8.0 * (2.0 * t / self.l2_steps - 1.0))
        squares = sum(map(_half_squares, _kernels(self)))
        return self.difference_penalty * apart + self.l2 * ramp * squares

    def make_sentence(self, side: str, inputs: Mapping[str, Any], other_word_ids) -> Sentence:
        """A sentence padded or truncated to `max_length` words."""
        sentence = super().make_sentence(side, inputs, other_word_ids)
        for name, x in vars(sentence).items():
            if name not in ("side", "mask") and x is not None:
                setattr(sentence, name, _FixedLength(self.max_length)(x))
        sentence.mask = ops.not_equal(sentence.word_ids, 0)
        return sentence

    def __init__(
        self,
        *,
        trainable_embedding: bool = True,
        char_dim: int = 8,
        char_filters: int = 100,
        exact_match: bool = True,
        max_length: int = 32,
        first_scale: float = 0.3,
        blocks: int = 3,
        layers_per_block: int = 8,
        growth_rate: int = 20,
        dropout: float = 0.0,
        dropout_decay: float = 0.977,
        dropout_decay_steps: int = 10_000,
        difference_penalty: float = 1e-3,
        l2: float = 9e-5,
        l2_steps: int = 100_000,
        **kwargs,
    ):
        """Make the model with random weights. Feature attention follows the self-attention.

        Args:
            max_length: Number of tokens a sentence is padded or cut to, at least `2 ** blocks`.
            first_scale: Share of the features that the first convolution keeps.
            blocks: Number of dense blocks.
            layers_per_block: Number of convolutions per block.
            growth_rate: Number of features that each of them adds.
            dropout: Dropout rate at the first training step.
            dropout_decay: Factor on the share of kept values per `dropout_decay_steps` steps.
            dropout_decay_steps: Number of steps, see `dropout_decay`.
            difference_penalty: Weight of half the squared difference between the self-attention
                kernels of the two sentences.
            l2: Final weight of half the squares of all kernels; at training step t it is `l2 *
                sigmoid(8 (2 t / l2_steps - 1))`.
            l2_steps: Number of steps until `l2` is reached.
        """
        super().__init__(
            trainable_embedding=trainable_embedding,
            char_dim=char_dim,
            char_filters=char_filters,
            exact_match=exact_match,
            dropout=dropout,
            **kwargs,
        )
        self.max_length = max_length
        self.first_scale = first_scale
        self.blocks = blocks
        self.layers_per_block = layers_per_block
        self.growth_rate = growth_rate
        self.dropout_decay = dropout_decay
        self.dropout_decay_steps = dropout_decay_steps
        self.difference_penalty = difference_penalty
        self.l2 = l2
        self.l2_steps = l2_steps
        require(
            max_length >> blocks,
            f"max_length must be at least 2 ** blocks, because each block halves the grid. "
            f"Received: max_length={max_length}, blocks={blocks}",
        )
        decay = dropout, dropout_decay, dropout_decay_steps

        self.word_representation = self.make_word_representation(dropout=0.0)
        self.word_dropout = self.make(DecayingDropout, "word_dropout", *decay)
        self.highway = self.make(Highway, "highway")
        self.self_attentions = {
            "1": self.make(SelfAttentionFusion, "self_attentive_encoder_1", *decay),
            "2": self.make(SelfAttentionFusion, "self_attentive_encoder_2", *decay),
        }
        self.penalty_loss = _TrainingLoss(name="penalty", dtype=self.policy.name)
        self.penalty_loss.function = self.penalty
        self.feature_blocks = self.make_feature_attention()
        self.interaction_dropout = self.make(DecayingDropout, "interaction_dropout", *decay)
        self.dense_net = self.make(
            DenseInteractionCNN,
            "dense_interaction_cnn",
            first_scale,
            blocks,
            layers_per_block,
            growth_rate,
        )
        self.output_dropout = self.make(DecayingDropout, "output_dropout", *decay)
        self.classify = self.make_classifier()
        self.make_graph()

    @classmethod
    def conflict(cls, arguments: Mapping[str, Any]) -> str | None:
        if arguments["max_length"] >> arguments["blocks"]:
            return None
        return (
            f"model.max_length = {arguments['max_length']} is too short for "
            f"{arguments['blocks']} blocks, each of which halves the grid."
        )

    paper = "Gong et al. 2018"
    summary_line = "a DenseNet over the products of all pairs of tokens"
    presets = {
        "snli": {"num_classes": 3, "max_length": 32},
        "multinli": {"num_classes": 3, "max_length": 48},
        "quora": {"num_classes": 2, "max_length": 24},
        "no_exact_match": {"exact_match": False},
        **FEATURE_PRESETS,
    }
    search_space = [
        *WORD_MODELS[:-1],  # its length is the model's too
        Choice("encoder.max_length", (16, 24, 32, 48), also=["model.max_length"]),
        Choice("model.first_scale", (0.2, 0.3, 0.4)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.layers_per_block", (3, 5, 8)),
        Choice("model.growth_rate", (10, 20, 30)),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        PictureSpec(
            "self_attention_{side}", "{side} {side}", "Self-attention, sentence {side}", WITHIN
        ),
        *FEATURE_PICTURES,
    )


def _kernels(layer: keras.layers.Layer) -> list[keras.Variable]:
    return [w for w in layer.trainable_weights if w.name.endswith("kernel")]


def _half_squares(x):
    return 0.5 * ops.sum(ops.square(at_least_float32(x)))


@keras.saving.register_keras_serializable(package="keras_sentmatch", name="FixedLength")
class _FixedLength(keras.layers.Layer):
    """Pad with zeros or cut `[B, L, ...]` to `[B, length, ...]`."""

    def __init__(self, length: int, **kwargs):
        super().__init__(**{**kwargs, "autocast": False})
        self.length = length

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "length": self.length}

    def call(self, x):
        more = [[0, 0], [0, self.length]] + [[0, 0]] * (len(x.shape) - 2)
        return ops.reshape(ops.pad(x, more)[:, : self.length], (-1, self.length, *x.shape[2:]))

    def compute_output_spec(self, x):
        return keras.KerasTensor((x.shape[0], self.length, *x.shape[2:]), dtype=x.dtype)


@keras.saving.register_keras_serializable(package="keras_sentmatch", name="TrainingLoss")
class _TrainingLoss(keras.layers.Layer):
    """Pass `x` on and, in training, add the loss `function(t)` of step t, which is counted here.

    The model sets `function`; a part of it that is saved alone has none.
    """

    function: Callable[[Any], Any] | None = None

    def build(self, x_shape):
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="steps"
        )

    def call(self, x, training=None):
        if training and self.function is not None:
            self.add_loss(self.function(ops.cast(self.steps, "float32")))
            self.steps.assign(self.steps + 1)
        return x

    def compute_output_shape(self, x_shape):
        return x_shape
