"""rLSTM: the re-read LSTM (Sha et al., COLING 2016), a baseline of DIN."""

from typing import Any

from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.hyperparameters import FLAG, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import PictureSpec
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import BidirectionalRNN, RereadingLSTM
from keras_sentmatch.layers.base import require
from keras_sentmatch.ops import masked_mean


@register_model("rlstm")
class RLSTM(PairModel):
    """An LSTM over sentence 2 that reads sentence 1 again at every word.

    Sentence 1 is the premise, sentence 2 the hypothesis: swapping them changes the prediction.

    References:
        Sha, Chang, Sui, Li: "Reading and Thinking: Re-read LSTM Unit for Textual Entailment
        Recognition", COLING 2016.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.represent_words(sentence)  # [B, L, d]
        if sentence.side == "1":
            x = self.encoding(x, sentence.mask)  # [B, L1, u]
        return Sentence(states=x, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        given = one.states, two.states, one.mask, two.mask
        means = [masked_mean(reader(*given), two.mask) for reader in self.readers.values()]
        self.show(lambda: self.attention(*given))
        return self.classify(self.output_dropout(ops.concatenate(means, axis=-1)))

    def attention(self, *given) -> dict[str, Any]:
        """What each word of sentence 2 reads in sentence 1, `[B, L2, L1]`; rows sum to 1."""
        return {
            f"attention_{way}_2": CallWith(reader, return_attention=True)(*given)[1]
            for way, reader in self.readers.items()
        }

    def __init__(self, *, units: int = 300, tanh: bool = True, **kwargs):
        """Make the model with random weights.

        Args:
            units: Width of a state: of both directions together over sentence 1, of each over
                sentence 2. An even number.
            tanh: Whether the attention's score has a tanh. Without it, as printed in the paper,
                what was read does not influence what is read next.
        """
        super().__init__(**kwargs)
        self.units = units
        self.tanh = tanh
        require(units % 2 == 0, f"units must be even. Received: units={units}")

        self.word_representation = self.make_word_representation()
        self.encoding = self.make(BidirectionalRNN, "encoding", units // 2)
        self.readers = {
            "forward": self.make(RereadingLSTM, "reading_forward", units, tanh),
            "backward": self.make(RereadingLSTM, "reading_backward", units, tanh, True),
        }
        self.output_dropout = self.make_dropout("output_dropout")
        self.classify = self.make_classifier()
        self.make_graph()

    shares_encoder = False

    paper = "Sha et al. 2016"
    summary_line = "an LSTM over one sentence that reads the other again at every word"
    presets = {"snli": {"num_classes": 3}}
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 200, 300)),
        Choice("model.tanh", FLAG),
    ]
    pictures = tuple(
        PictureSpec(
            f"attention_{way}_2",
            "2 1",
            f"Attention while reading {way}, sentence 2",
            "How much each word (row) attends to each word of sentence 1; rows sum to 1.",
        )
        for way in ("backward", "forward")
    )
