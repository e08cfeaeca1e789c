"""DABERT: Dual Attention Enhanced BERT (Wang et al., COLING 2022)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import keras

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.backbone import BackboneModel, initializer, segments_of
from keras_sentmatch.applications.hyperparameters import BACKBONES, FLAG, Choice
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import (
    BACKBONE_ATTENTION,
    HEADS,
    PictureSpec,
    joined_rows,
)
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import DualAttentionBlock
from keras_sentmatch.layers.base import require
from keras_sentmatch.text.backbones import KINDS


@register_model("dabert")
class DABERT(BackboneModel):
    """A backbone whose first layer also attends to differences, with the `[CLS]` classifier.

    The chosen layers become `DualAttentionBlock`s with the weights of those they replace. What
    differences add starts at zero (`output_stddev`), so a new model gives what the same
    `CrossEncoder` would. The backbone's attention must be BERT's: all kinds but DeBERTa-v3, whose
    attention sees relative positions. ALBERT's layers share their weights; a replaced one gets a
    copy of its own.

    References:
        Wang et al.: "DABERT: Dual Attention Enhanced BERT for Semantic Matching", COLING 2022, eq
        1-7 and Table 5.
    """

    def read(self, pair: Sentence):
        segments = segments_of(pair) if self.cross else None
        x = self.bert.embed(pair)  # [B, L, D]
        for i in range(len(self.bert.blocks)):
            if i in self.duals:  # eq 1-7
                self.show(partial(self.attention_of, i, x, pair.mask, segments))
                x = self.duals[i](x, pair.mask, segments)
            else:
                x = self.bert.block(i, x, pair)
        return self.classify(self.drop(self.bert.pool(x, pair.mask)))

    def attention_of(self, i: int, *given) -> dict[str, Any]:
        """What layer `i` attends to (Fig 3).

        `affinity_i` and `difference_i` `[B, heads, L, L]`, from each token to the others; `gate_i`
        `[B, L]`, how much of the fused vector is affinity; `filter_i` `[B, L]`, how much of it is
        let through; `change_i` `[B, L]`, the length of what is added over that of the affinity.
        """
        _, *found = CallWith(self.duals[i], return_attention=True)(*given)
        names = ("affinity", "difference", "gate", "filter", "change")
        return {f"{name}_{i}": x for name, x in zip(names, found)}

    def __init__(
        self,
        backbone,
        *,
        dual_layers: Sequence[int] = (0,),
        channels: str = "both",
        distance: str = "l1",
        cross: bool = False,
        attention_units: int = 128,
        alignment: str = "additive",
        gate: bool = True,
        filter_gate: bool = True,
        output_mode: str = "residual",
        output_stddev: float = 0.0,
        regulation: bool = True,
        **kwargs,
    ):
        """Make the model: a backbone with dual attention in some layers, and a classifier.

        Args:
            dual_layers: The layers to replace, counted from 0.
            channels: What is fused: `"both"`, or `"affinity"` or `"difference"` alone.
            distance: Between a query and a key, `"l1"` or `"sum"` (as printed), see
                `DualAttention`.
            cross: Whether a token's differences are those to the other sentence only.
            attention_units: Width of the alignment's hidden layer.
            alignment: `"additive"`, `"literal"` (as printed) or `"none"`, see `AdaptiveFusion`.
            gate: Whether a gate weighs affinity and difference; otherwise they are averaged.
            filter_gate: Whether a gate filters what is added.
            output_mode: `"residual"` adds to the affinity, `"replace"` (as printed) puts the fused
                vector in its place.
            output_stddev: Standard deviation of what the last layer of the fusion starts with; with
                0 it starts at zero, and so does what differences add.
            regulation: With `False` there is no fusion but the mean of both channels.

        Raises:
            InputError: The backbone lacks the layers, has another attention than BERT's or cannot
                be loaded, or an option is unknown.
        """
        super().__init__(backbone, **kwargs)
        self.dual_layers = dual_layers
        self.channels = channels
        self.distance = distance
        self.cross = cross
        self.attention_units = attention_units
        self.alignment = alignment
        self.gate = gate
        self.filter_gate = filter_gate
        self.output_mode = output_mode
        self.output_stddev = output_stddev
        self.regulation = regulation

        kind, others = self.bert.kind, ", ".join(k.name for k in KINDS if k.plain_attention)
        require(
            kind.plain_attention,
            f"backbone: DABERT replaces BERT's attention, and that of {kind.name} is different. "
            f"Give one of {others}; or train a cross_encoder or ladra_net.",
        )
        depth = len(self.bert.blocks)
        require(
            dual_layers and all(i in range(depth) for i in dual_layers),
            f"dual_layers must be some of the {depth} layers of the backbone, 0 to {depth - 1}. "
            f"Received: dual_layers={dual_layers!r}",
        )
        self.duals = {i: self.make_dual_layer(i) for i in dual_layers}
        self.drop = self.make_dropout("dropout")
        self.classify = self.make_classifier(kernel_initializer=initializer())
        self.make_graph()
        for i, dual in self.duals.items():
            _carry_over(self.bert.blocks[i], dual)

    def make_dual_layer(self, i: int) -> DualAttentionBlock:
        """What stands in for block `i` of the backbone."""
        block = self.bert.blocks[i]
        return self.make(
            DualAttentionBlock,
            f"dual_attention_{i}",
            intermediate_dim=block.intermediate_dim,
            num_heads=block.num_heads,
            dropout=block.dropout,
            activation=block.activation,
            layer_norm_epsilon=block.layer_norm_epsilon,
            channels=self.channels,
            distance=self.distance,
            cross=self.cross,
            fusion_options={
                "attention_units": self.attention_units,
                "alignment": self.alignment,
                "gate": self.gate,
                "filter_gate": self.filter_gate,
                "output_mode": self.output_mode,
                "output_stddev": self.output_stddev,
                "regulation": self.regulation,
            },
        )

    def backbone_layers(self) -> list[keras.layers.Layer]:
        carried = [layer for dual in self.duals.values() for layer in dual.backbone_layers]
        return [*super().backbone_layers(), *carried]

    paper = "Wang et al. 2022"
    summary_line = "BERT whose first layer also attends to what differs between the sentences"
    presets = {
        "table5_1_full": {},
        "table5_2_no_affinity": {"channels": "difference"},
        "table5_3_no_difference": {"channels": "affinity"},
        "table5_4_no_guide": {"alignment": "none"},
        "table5_5_no_gate": {"gate": False},
        "table5_6_no_filter": {"filter_gate": False},
        "table5_7_no_regulation": {"regulation": False},
        "as_printed": {"distance": "sum", "alignment": "literal", "output_mode": "replace"},
    }
    reasons = {
        "distance": "eq 4 sums signed differences, so every query has the same order of keys",
        "alignment": "eq 5, read literally, gives every position the same result",
        "output_mode": "eq 7 puts the fused vector in place of BERT's, which loses the pretraining",
    }
    search_space = [
        *BACKBONES,
        Choice("training.global_clipnorm", (1.0, 7.5, 10.0, 15.0)),
        Choice("model.dual_layers", {"0": [0], "0+1": [0, 1]}),
        Choice("model.cross", FLAG),
        Choice("model.attention_units", (64, 128, 256)),
        Choice("model.output_mode", ("replace", "residual")),
    ]
    pictures = (
        PictureSpec(
            "affinity_{layer}", "head joint joint", "Affinity attention, layer {layer}", HEADS
        ),
        PictureSpec(
            "difference_{layer}", "head joint joint", "Difference attention, layer {layer}", HEADS
        ),
        *joined_rows(
            "joint",
            "Fusion gates, layer {layer}",
            "How much of each piece's fused vector is affinity, and how much of it is let through.",
            **{"gate_{layer}": "share of affinity g", "filter_{layer}": "let through f"},
        ),
        PictureSpec(
            "change_{layer}",
            "joint",
            "Size of the change, layer {layer}",
            "How long the vector that the fusion adds to each piece is, as a share of the affinity: near "
            "0 the layer does nothing beyond BERT's own attention.",
            "added / affinity",
        ),
        BACKBONE_ATTENTION,
    )


def _carry_over(block, dual: DualAttentionBlock) -> None:
    """Gives `dual` the weights of KerasHub's transformer block."""
    attention = block._self_attention_layer
    for new, old in (
        (dual.attention.query, attention.query_dense),
        (dual.attention.key, attention.key_dense),
        (dual.attention.value, attention.value_dense),
        (dual.join, attention.output_dense),
        (dual.attention_norm, block._self_attention_layer_norm),
        (dual.wide, block._feedforward_intermediate_dense),
        (dual.narrow, block._feedforward_output_dense),
        (dual.feedforward_norm, block._feedforward_layer_norm),
    ):
        new.set_weights(old.get_weights())
