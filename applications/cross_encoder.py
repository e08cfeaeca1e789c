"""The cross-encoder: a pretrained backbone and a classifier (Devlin et al., NAACL 2019)."""

from functools import partial
from typing import Any

from keras_sentmatch.applications.backbone import BackboneModel, initializer
from keras_sentmatch.applications.hyperparameters import BACKBONES, Choice
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import BACKBONE_ATTENTION
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers.base import require_choice
from keras_sentmatch.ops import masked_mean


@register_model("cross_encoder")
class CrossEncoder(BackboneModel):
    """A backbone over both sentences as one sequence, and a classifier on one vector.

    References:
        Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep Bidirectional Transformers for
        Language Understanding", NAACL 2019.
    """

    def read(self, pair: Sentence):
        x = self.bert.embed(pair)  # [B, L, D]
        for i in range(len(self.bert.blocks)):
            self.show(partial(self.attention_of, i, x, pair))
            x = self.bert.block(i, x, pair)
        v = (self.bert.pool if self.pooling == "cls" else masked_mean)(x, pair.mask)  # [B, D]
        return self.classify(self.drop(v))

    def attention_of(self, i: int, x, pair: Sentence) -> dict[str, Any]:
        """From each token to the real ones in block `i`, `[B, heads, L, L]`; rows sum to 1."""
        return {f"attention_{i}": self.bert.attention(i, x, pair)}

    def __init__(self, backbone, *, pooling: str = "cls", **kwargs):
        """Make the model: a backbone and new layers.

        Args:
            pooling: `"cls"`, the state of the first token through a tanh layer (the backbone's own
                if it has one, as BERT; a new one for RoBERTa), or `"mean"`, the mean of the states
                of all tokens.
        """
        require_choice(("cls", "mean"), pooling=pooling)
        super().__init__(backbone, **kwargs)
        self.pooling = pooling

        self.drop = self.make_dropout("dropout")
        self.classify = self.make_classifier(kernel_initializer=initializer())
        self.make_graph()

    paper = "Devlin et al. 2019"
    summary_line = (
        "a pretrained backbone (BERT, XLM-RoBERTa, …) over both sentences at once, and a classifier"
    )
    presets = {"cls": {}, "mean": {"pooling": "mean"}}
    search_space = [*BACKBONES, Choice("model.pooling", ("cls", "mean"))]
    pictures = (BACKBONE_ATTENTION,)
