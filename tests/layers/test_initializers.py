"""GlorotPerGate, in each layer that uses it."""

from keras_sentmatch.layers import DynamicSequentialAttention, RerereadAttention, StackRNN
from tests.harness import lengths_mask, noise, value

MASK = lengths_mask([5, 2, 1], 5)


def kernels():
    """The kernel and recurrent kernel of each GRU, at the start."""
    stack = StackRNN(units=50, depth=2)
    stack(noise(3, 5, 40), MASK)
    rereading = RerereadAttention(units=50, steps=1)
    rereading(noise(3, 5, 40), MASK, noise(3, 40), noise(3, 40))
    sequential = DynamicSequentialAttention(steps=1)
    sequential(noise(3, 3, 5, 40), MASK, noise(3, 40))
    for gru in (*stack.forward_rnns, rereading.cell, sequential.cell):
        yield from (value(weights) for weights in gru.weights[:2])


def test_kernels_start_in_the_range_of_one_gate():
    found = list(kernels())
    assert [kernel.shape for kernel in found] == [
        *((40, 150), (50, 150), (90, 150), (50, 150)),  # StackRNN
        *((40, 150), (50, 150)),  # RerereadAttention
        *((40, 120), (40, 120)),  # DynamicSequentialAttention
    ]
    for kernel in found:
        rows, columns = kernel.shape
        limit = (6 / (rows + columns / 3)) ** 0.5
        assert 0.97 * limit < abs(kernel).max() <= limit
