"""Recurrences on each backend's fastest engine, and a loop for those that Keras has no layer for."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

# Keras stores the weights of a layer separately. cuDNN copies them at every call, and PyTorch warns.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")

_FUSED = {
    keras.layers.LSTMCell: "lstm",
    keras.layers.GRUCell: "gru",
    keras.layers.SimpleRNNCell: "rnn_tanh",
}


def recurrent_states(layer: Any, x: Any) -> Any:
    """Return the states of a recurrent Keras layer over unmasked sequences, by the fastest engine.

    Values and gradients are those of `layer(x)`. PyTorch's fused kernels replace Keras's loop in
    Python if they compute the same numbers; otherwise, and on other backends, the layer itself runs.

    Args:
        layer: A built `keras.layers.LSTM`, `GRU` or `SimpleRNN` with `return_sequences=True`.
        x: Float `[B, L, D]`. Padding on the right does not change the states at real positions.

    Returns:
        `[B, L, units]`, in the layer's compute dtype.

    Example:
        >>> lstm = keras.layers.LSTM(4, return_sequences=True)
        >>> lstm.build((None, None, 3))
        >>> tuple(recurrent_states(lstm, np.ones((2, 5, 3), "float32")).shape)
        (2, 5, 4)
    """
    states = _fused_states(layer, x)
    if states is None:
        _keep_from_cudnn(layer)
        return layer(x)
    return states


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class LSTM(keras.layers.LSTM):
    """Keras's LSTM on the fastest engine, for functional models. Weights and files are the same."""

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False
    ) -> Any:
        if initial_state is None and mask is None:
            states = _fused_states(self, sequences)
            if states is not None:
                return states
        _keep_from_cudnn(self)
        return super().call(sequences, initial_state, mask, training)


def _fused_states(layer: Any, x: Any) -> Any:
    """Return the states from a fused kernel, or None if no kernel computes the same."""
    if keras.backend.backend() != "torch" or not _has_fused_form(layer):
        return None
    x = keras.ops.convert_to_tensor(x, layer.compute_dtype)
    return _torch_states([layer], x) if _runs_fused(x) else None


def fused_bidirectional_states(forward: Any, backward: Any, x: Any, mask: Any) -> Any:
    """Return the states of two equal layers, one of them backward, from one kernel of PyTorch.

    Returns None if no kernel computes the same, if rows differ in length, and on a GPU, because the
    processor would have to wait for the lengths.

    Args:
        forward: A layer as `recurrent_states` takes it.
        backward: Another one of the same form.
        x: Float `[B, L, D]`.
        mask: Boolean `[B, L]`, right-padded.

    Returns:
        `[B, L, 2 units]`, zeros at the padding, or None.
    """
    if keras.backend.backend() != "torch" or not _have_values(x, mask):
        return None
    if not (_has_fused_form(forward) and _has_fused_form(backward)):
        return None
    import torch

    x, mask = keras.ops.convert_to_tensor(x, forward.compute_dtype), torch.as_tensor(mask)
    if not (x.is_cpu and _runs_fused(x)):
        return None
    if mask.all():
        return _torch_states([forward, backward], x)
    shortest, longest = (int(n) for n in torch.aminmax(mask.sum(1)))
    if shortest < longest or not longest:
        return None
    states = _torch_states([forward, backward], x[:, :longest])
    return torch.nn.functional.pad(states, (0, 0, 0, x.shape[1] - longest))


def _have_values(*tensors: Any) -> bool:
    """Return whether tensors are neither symbolic nor those of a program that PyTorch records."""
    import torch

    return all(type(tensor) in (np.ndarray, torch.Tensor) for tensor in tensors)


def _keep_from_cudnn(layer: Any) -> None:
    """Prevent cuDNN in half precision on JAX, where Keras would use it and the compilation fails."""
    if keras.backend.backend() == "jax" and layer.compute_dtype in ("float16", "bfloat16"):
        layer.use_cudnn = False


def _has_fused_form(layer: Any) -> bool:
    """Return whether PyTorch's kernels compute the same as the layer."""
    plain = layer.return_sequences and not (
        layer.return_state or layer.go_backwards or layer.stateful or layer.unroll
    )
    tanh, sigmoid = keras.activations.tanh, keras.activations.sigmoid
    return (
        type(layer.cell) in _FUSED
        and plain
        and not (layer.dropout or layer.recurrent_dropout)
        and getattr(layer, "reset_after", True)
        and layer.activation is tanh
        and getattr(layer, "recurrent_activation", sigmoid) is sigmoid
    )


def _runs_fused(x: Any) -> bool:
    import torch

    wide = x.dtype in (torch.float32, torch.float64)
    traced = (
        torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )
    return not traced and x.numel() > 0 and (x.is_cuda or (x.is_cpu and wide))


def _torch_states(layers: Sequence[Any], x: Any) -> Any:
    """Return the states of a layer, or of a layer and of a second one that runs backward."""
    import torch

    first = layers[0]
    name = _FUSED[type(first.cell)]
    start = x.new_zeros(len(layers), len(x), first.units)
    states = (start, start) if name == "lstm" else start
    weights = [weight for layer in layers for weight in _torch_weights(name, layer)]
    run = getattr(torch._VF, name)
    # One layer without dropout, batch first.
    options = (first.use_bias, 1, 0.0, torch.is_grad_enabled(), len(layers) == 2, True)
    return run(x, states, weights, *options)[0]


def _torch_weights(name: str, layer: Any) -> list[Any]:
    """Return the weights of a Keras layer in PyTorch's form."""
    import torch

    def tensor(weight: Any) -> Any:
        return keras.ops.convert_to_tensor(weight, layer.compute_dtype)

    cell = layer.cell
    weights = [tensor(cell.kernel).T, tensor(cell.recurrent_kernel).T]
    if layer.use_bias:  # PyTorch adds one to each product, and so does Keras's GRU
        bias = tensor(cell.bias)
        weights += tuple(bias) if name == "gru" else (bias, torch.zeros_like(bias))
    if name == "gru":  # Keras: update, reset, candidate; PyTorch: reset, update, candidate
        parts = [weight.chunk(3) for weight in weights]
        weights = [torch.cat([reset, update, rest]) for update, reset, rest in parts]
    return [weight.contiguous() for weight in weights]


def scan_sequence(
    step: Callable[[Any, Any], tuple[Any, Any]], x: Any, state: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Carry `state` along the positions of `x`; return the outputs `[B, L, K]` and the last states.

    The loop is that of `keras.layers.RNN`. `keras.ops.scan` cannot replace it: on TensorFlow its
    outputs must have the shape of the state, so it keeps all states, and XLA cannot differentiate it.

    Args:
        step: A function of the values at one position, `[B, D]`, and the list of states. It returns
            an output `[B, K]` and the list of new states. It may use any tensor in its scope, and
            must deal with padding.
        x: Float `[B, L, D]` with `L >= 1`; `L` may be unknown.
        state: Initial states, tensors of any shape. They are cast to the dtype of `x`.
    """
    x = keras.ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    loop = keras.layers.RNN(
        _Step(step, len(state), dtype), return_sequences=True, return_state=True, dtype=dtype
    )
    outputs, *last = loop(x, initial_state=list(state))
    return outputs, last


class _Step:
    """`step` as a cell for `keras.layers.RNN`."""

    def __init__(self, step: Callable[[Any, Any], tuple[Any, Any]], states: int, dtype: str):
        self.call = step
        self.state_size = [1] * states  # not used: the first states are given
        self.compute_dtype = dtype

    def __call__(self, x: Any, states: Any) -> tuple[Any, Any]:
        return self.call(x, states)
