"""Feature attention (FA, SFA) as a part of other models, its hosts (Zang and Liu, 2024)."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_sentmatch.applications.pair_model import PairModel
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.layers.base import require
from keras_sentmatch.ops.similarity import dot_matrix

KINDS = {"fa": FeatureAttention, "sfa": SelectiveFeatureAttention}
Blocks = tuple[keras.layers.Layer, ...]  # one for each sentence; none without feature attention


def _sfa(**config) -> dict[str, Any]:
    return {"feature_attention": "sfa", "feature_attention_config": config}


# Presets of every host: both blocks, the rows of the paper's Fig 3, and a control without gates.
FEATURE_PRESETS: dict[str, dict[str, Any]] = {
    "fa": {"feature_attention": "fa"},
    "sfa": {"feature_attention": "sfa"},
    "sfa_no_autoencoder": _sfa(autoencoder=False),
    "sfa_no_max_pooling": _sfa(max_pooling=False),
    "sfa_no_mean_pooling": _sfa(mean_pooling=False),
    "sfa_no_selection": _sfa(selection=False),
    "sfa_as_printed": _sfa(units="literal"),
    "residual_bigru": _sfa(gates=False, residual=True),
}


class FeatureHost(PairModel):
    """A model whose features can be gated by feature attention, one block per sentence.

    Args:
        feature_attention: `"fa"`, `"sfa"`, or `None` for no blocks.
        feature_attention_config: Arguments of the blocks, and `share`, whether both sentences share
            one block. Missing arguments have the host's `feature_attention_defaults`, else the
            layer's own defaults.
    """

    feature_attention_defaults: ClassVar[dict[str, dict[str, Any]]] = {}  # of "fa" and of "sfa"

    def __init__(
        self,
        *,
        feature_attention: str | None = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.feature_attention = feature_attention
        self.feature_attention_config = feature_attention_config

    def make_feature_attention(self, name: str = "feature_attention", **defaults) -> Blocks:
        """Make a block for each sentence (`name_1`, `name_2`), or none.

        `defaults` are arguments of the block that those of the host and of the user override. Each
        sentence has its own block, as in the paper, which makes a symmetric host tell the first
        sentence from the second.
        """
        kind, config = self.feature_attention, dict(self.feature_attention_config or {})
        if kind is None:
            none = f"feature_attention_config={config} has no block. Set feature_attention to 'fa' or 'sfa'."
            require(not config, none)
            return ()
        share = config.pop("share", False)

        def block(side: str) -> keras.layers.Layer:
            of_host = self.feature_attention_defaults.get(kind, {})
            return self.make(KINDS[kind], f"{name}_{side}", **{**defaults, **of_host, **config})

        try:
            return (block("both"),) * 2 if share else (block("1"), block("2"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"No feature attention can be made from feature_attention={kind!r} and "
                f"feature_attention_config={self.feature_attention_config!r}: {error}. Expected "
                f"None, {', '.join(map(repr, KINDS))}, and the block's arguments."
            ) from error

    def attend_features(
        self, blocks: Blocks, x1, mask_1, x2, mask_2, each: bool = False
    ) -> tuple[Any, Any]:
        """Feature attention of both sentences; without any `blocks`, `x1` and `x2`.

        Shows `feature_map_base` `[B, L1, L2]`, the mean over the features of `x1_i * x2_j` (the
        paper's Fig 5). With blocks `feature_map_before` and `feature_map`, the same of what they
        read and return; `gates_1` and `gates_2`, `[B, D]` of FA, `[B, N, W]` of SFA; and of SFA
        `selection_1` and `selection_2` `[B, N, W]`, the weights of the branches.
        """
        if not blocks:
            self.show(lambda: {"feature_map_base": dot_matrix(x1, x2) / x1.shape[-1]}, each=each)
            return x1, x2
        u1, *seen_1 = blocks[0](x1, mask_1, return_gates=True)
        u2, *seen_2 = blocks[1](x2, mask_2, return_gates=True)
        for side, seen in (("1", seen_1), ("2", seen_2)):
            gates = {f"{name}_{side}": x for name, x in zip(("gates", "selection"), seen)}
            self.show(each=each, **gates)
        self.show(
            lambda: {
                "feature_map_before": dot_matrix(x1, x2) / x1.shape[-1],
                "feature_map": dot_matrix(u1, u2) / u1.shape[-1],
            },
            each=each,
        )
        return u1, u2

    def departures(self) -> list[str]:
        found = super().departures()
        if self.feature_attention == "sfa":
            units = {**self.block_defaults("sfa"), **(self.feature_attention_config or {})}["units"]
            if units != "literal":
                found.append(
                    f"feature_attention_config.units is {units!r}, not 'literal': eq 4-8 give three "
                    "times the parameters of Table 1"
                )
        return found

    @classmethod
    def block_defaults(cls, kind: str) -> dict[str, Any]:
        """The arguments of a block of this host: its own defaults, else those of the layer."""
        parameters = inspect.signature(KINDS[kind]).parameters.values()
        of_layer = {p.name: p.default for p in parameters if p.default is not p.empty}
        return {**of_layer, **cls.feature_attention_defaults.get(kind, {})}
