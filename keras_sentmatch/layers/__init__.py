"""Keras layers for sentence pairs: `keras.ops` only, explicit masks, every backend and dtype."""

from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.bimpm import MultiPerspectiveMatching
from keras_sentmatch.layers.cafe import FactorizationMachine
from keras_sentmatch.layers.co_attention import CoAttention
from keras_sentmatch.layers.dabert import AdaptiveFusion, DualAttention, DualAttentionBlock
from keras_sentmatch.layers.din import MatrixDynamicGRU
from keras_sentmatch.layers.drcn import DenseCoAttentiveRNN
from keras_sentmatch.layers.drr_net import RerereadAttention, SelfAttentionPooling, StackRNN
from keras_sentmatch.layers.feature_attention import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.layers.highway import Highway
from keras_sentmatch.layers.hyper_lstm import HyperLSTMCell
from keras_sentmatch.layers.ladra_net import DynamicSequentialAttention, PhraseCNN
from keras_sentmatch.layers.rlstm import RereadingLSTM
from keras_sentmatch.layers.word_representation import WordRepresentation

__all__ = [
    "AdaptiveFusion",
    "BidirectionalRNN",
    "CoAttention",
    "DenseCoAttentiveRNN",
    "DualAttention",
    "DualAttentionBlock",
    "DynamicSequentialAttention",
    "FactorizationMachine",
    "FeatureAttention",
    "Highway",
    "HyperLSTMCell",
    "MatrixDynamicGRU",
    "MultiPerspectiveMatching",
    "PhraseCNN",
    "RereadingLSTM",
    "RerereadAttention",
    "SelectiveFeatureAttention",
    "SelfAttentionPooling",
    "StackRNN",
    "WordRepresentation",
]
