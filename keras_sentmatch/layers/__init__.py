"""Keras layers for sentence pairs: `keras.ops` only, explicit boolean masks, every backend and dtype policy."""

from keras_sentmatch.layers.adaptive_fusion import AdaptiveFusion
from keras_sentmatch.layers.alignment_fusion import AlignmentFusion
from keras_sentmatch.layers.autoencoder_bottleneck import AutoencoderBottleneck
from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.char_cnn import CharCNN
from keras_sentmatch.layers.char_lstm import CharLSTM
from keras_sentmatch.layers.co_attention import CoAttention
from keras_sentmatch.layers.convolutional_encoder import ConvolutionalEncoder
from keras_sentmatch.layers.decaying_dropout import DecayingDropout
from keras_sentmatch.layers.dense_co_attentive_rnn import DenseCoAttentiveRNN
from keras_sentmatch.layers.dense_interaction_cnn import DenseInteractionCNN
from keras_sentmatch.layers.dual_attention import DualAttention
from keras_sentmatch.layers.dual_attention_encoder import DualAttentionEncoder
from keras_sentmatch.layers.dynamic_sequential_attention import DynamicSequentialAttention
from keras_sentmatch.layers.factorization_machine import FactorizationMachine
from keras_sentmatch.layers.feature_attention import FeatureAttention
from keras_sentmatch.layers.highway import Highway
from keras_sentmatch.layers.hyper_lstm_cell import HyperLSTMCell
from keras_sentmatch.layers.layer_weighted_sum import LayerWeightedSum
from keras_sentmatch.layers.masked_max_pooling import MaskedMaxPooling
from keras_sentmatch.layers.matching_vector import MatchingVector
from keras_sentmatch.layers.matrix_dynamic_gru import MatrixDynamicGRU
from keras_sentmatch.layers.matrix_interaction import MatrixInteraction
from keras_sentmatch.layers.multi_perspective_matching import MultiPerspectiveMatching
from keras_sentmatch.layers.phrase_cnn import PhraseCNN
from keras_sentmatch.layers.rereading_lstm import RereadingLSTM
from keras_sentmatch.layers.rereread_attention import RerereadAttention
from keras_sentmatch.layers.selective_feature_attention import SelectiveFeatureAttention
from keras_sentmatch.layers.self_attention_pooling import SelfAttentionPooling
from keras_sentmatch.layers.self_attentive_encoder import SelfAttentiveEncoder
from keras_sentmatch.layers.stack_rnn import StackRNN
from keras_sentmatch.layers.weight_normalized_conv1d import WeightNormalizedConv1D
from keras_sentmatch.layers.weight_normalized_dense import WeightNormalizedDense
from keras_sentmatch.layers.word_representation import WordRepresentation

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
    "DualAttentionEncoder",
    "DynamicSequentialAttention",
    "FactorizationMachine",
    "FeatureAttention",
    "Highway",
    "HyperLSTMCell",
    "LayerWeightedSum",
    "MaskedMaxPooling",
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
    "WordRepresentation",
]
