"""Keras layers for sentence pairs: `keras.ops` only, explicit masks, every backend and dtype."""

from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.bimpm import MultiPerspectiveMatching
from keras_sentmatch.layers.cafe import FactorizationMachine
from keras_sentmatch.layers.co_attention import CoAttention
from keras_sentmatch.layers.dabert import AdaptiveFusion, DualAttention, DualAttentionBlock
from keras_sentmatch.layers.diin import DecayingDropout, DenseInteractionCNN, SelfAttentiveEncoder
from keras_sentmatch.layers.din import MatrixDynamicGRU, MatrixInteraction
from keras_sentmatch.layers.drcn import AutoencoderBottleneck, DenseCoAttentiveRNN
from keras_sentmatch.layers.drr_net import RerereadAttention
from keras_sentmatch.layers.feature_attention import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.layers.highway import Highway
from keras_sentmatch.layers.hybrid import JointAnswer, MatchingFeatures, WideLogits
from keras_sentmatch.layers.hyper_lstm import HyperLSTMCell
from keras_sentmatch.layers.ladra_net import DynamicSequentialAttention, LayerWeightedSum, PhraseCNN
from keras_sentmatch.layers.masked_max_pooling import MaskedMaxPooling
from keras_sentmatch.layers.matching_vector import MatchingVector
from keras_sentmatch.layers.re2 import (
    AlignmentFusion,
    ConvolutionalEncoder,
    WeightNormalizedConv1D,
    WeightNormalizedDense,
)
from keras_sentmatch.layers.rlstm import RereadingLSTM
from keras_sentmatch.layers.self_attention_pooling import SelfAttentionPooling
from keras_sentmatch.layers.stack_rnn import StackRNN
from keras_sentmatch.layers.word_representation import CharCNN, CharLSTM, WordRepresentation

__all__ = [
    "AdaptiveFusion",
    "AlignmentFusion",
    "AutoencoderBottleneck",
    "BidirectionalRNN",
    "CharCNN",
    "CharLSTM",
    "CoAttention",
    "ConvolutionalEncoder",
    "DecayingDropout",
    "DenseCoAttentiveRNN",
    "DenseInteractionCNN",
    "DualAttention",
    "DualAttentionBlock",
    "DynamicSequentialAttention",
    "FactorizationMachine",
    "FeatureAttention",
    "Highway",
    "HyperLSTMCell",
    "JointAnswer",
    "LayerWeightedSum",
    "MaskedMaxPooling",
    "MatchingFeatures",
    "MatchingVector",
    "MatrixDynamicGRU",
    "MatrixInteraction",
    "MultiPerspectiveMatching",
    "PhraseCNN",
    "RereadingLSTM",
    "RerereadAttention",
    "SelectiveFeatureAttention",
    "SelfAttentionPooling",
    "SelfAttentiveEncoder",
    "StackRNN",
    "WeightNormalizedConv1D",
    "WeightNormalizedDense",
    "WideLogits",
    "WordRepresentation",
]
