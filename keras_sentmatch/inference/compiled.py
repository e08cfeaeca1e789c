"""A Keras model as one compiled function per shape, without the overhead of `predict`."""

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.ops.sequence import equal_lengths

Array = np.ndarray
MOST = 64  # compiled shapes
_EAGER = 3  # fewest calls of a shape on PyTorch before it is compiled
_processes: list[str] = []  # "forked" in a process that was forked after a model had run
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _processes.append("forked"))


class CompiledModel:
    """`model(arrays, training=False)` on NumPy arrays, always with the present weights.

    Attributes:
        traces: Number of times that the model was traced into a program.
        patient: Whether PyTorch compiles a shape only once that pays. Defaults to `True`.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.names = list(model.input)
        self.variables = list(model.variables)
        self.traces = 0
        self.patient = True
        self._functions: dict[Any, Callable[..., Any]] = {}
        self._eager: dict[Any, tuple[int, float]] = {}  # number of calls and seconds per shape
        self._compiling = 0.0  # longest time in seconds to compile a shape
        self._lock = threading.Lock()  # servers predict in several threads
        self._run = {"jax": self._jax, "torch": self._torch, "tensorflow": self._tensorflow}[
            keras.config.backend()
        ]

    def __call__(self, arrays: Mapping[str, Array]) -> Array:
        return self._run([arrays[name] for name in self.names])

    def _answer(self, arrays: Any, weights: Any) -> Any:
        """The function that is traced."""
        self.traces += 1
        with keras.StatelessScope(list(zip(self.variables, weights))):
            return self.model(dict(zip(self.names, arrays)), training=False)

    def _function(self, key: Any, make: Callable[[], Callable[..., Any]]) -> Any:
        """Return the compiled function of a key, such as a shape; the oldest function is dropped."""
        with self._lock:
            if key not in self._functions:
                while len(self._functions) >= MOST:
                    del self._functions[next(iter(self._functions))]
                self._functions[key] = make()
            return self._functions[key]

    def _jax(self, arrays: list[Array]) -> Array:
        import jax

        function = self._function(_shapes(arrays), lambda: jax.jit(self._answer))
        return np.asarray(function(arrays, [variable.value for variable in self.variables]))

    def _tensorflow(self, arrays: list[Array]) -> Array:
        import tensorflow as tf

        if _processes:
            raise InputError(
                "This process was forked from one that uses TensorFlow, which would hang here. Start "
                'processes with multiprocessing.get_context("spawn"), or predict with BatchScorer.'
            )
        equal = len({array.shape[1] for array in arrays}) == 1  # as `Matcher` pads them

        def trace() -> Any:
            shapes = [self.model.input[name].shape for name in self.names]
            specs = [tf.TensorSpec(shape, x.dtype) for shape, x in zip(shapes, arrays)]
            function = tf.function(lambda *xs: self._answer(xs, ()), specs, autograph=False)
            with equal_lengths() if equal else contextlib.nullcontext():
                return function.get_concrete_function()

        # One program for all shapes: tracing takes longer than what a fixed shape saves.
        function = self._function(equal, trace)
        return np.asarray(function(*map(tf.constant, arrays)))

    def _torch(self, arrays: list[Array]) -> Array:
        import torch
        from keras.src.backend.torch.core import get_device

        shape = _shapes(arrays)
        tensors = [torch.from_numpy(array).to(get_device()) for array in arrays]
        calls, seconds = self._eager.get(shape, (0, 0.0))
        begin = time.perf_counter()
        # A shape is compiled when its calls have taken as long as compiling takes. So a stream of
        # predictions takes at most twice the optimal time.
        wait = self.patient and (calls < _EAGER or seconds < self._compiling)
        if shape not in self._functions and wait:
            with torch.no_grad():
                outputs = self.model(dict(zip(self.names, tensors)), training=False)
            answer = np.asarray(outputs.cpu())
            self._eager[shape] = calls + 1, seconds + time.perf_counter() - begin
            return answer
        weights = [variable.value.detach() for variable in self.variables]
        function = self._function(shape, lambda: self._torch_program(tensors, weights))
        # Optimization takes longer than it saves: the gain comes from tracing.
        jit: Any = torch.jit
        with torch.inference_mode(), jit.optimized_execution(False):
            return np.asarray(function(*tensors, *weights).cpu())

    def _torch_program(self, tensors: list[Any], weights: list[Any]) -> Callable[..., Any]:
        """Return the operations as a TorchScript program, or the model if they depend on values."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        count, begin = len(tensors), time.perf_counter()

        def answer(*xs: Any) -> Any:
            return self._answer(xs[:count], xs[count:])

        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # make_fx has checked what they warn of
                # Constants that were computed when the model was built are not fake.
                record = make_fx(answer, tracing_mode="fake", _allow_non_fake_inputs=True)
                graph = record(*tensors, *weights)
                graph.graph.eliminate_dead_code()
                graph.recompile()
                trace: Any = torch.jit.trace
                program: Callable[..., Any] = trace(graph, (*tensors, *weights), check_trace=False)
                return program
        except Exception:  # operations that depend on values raise anything
            return lambda *xs: self.model(dict(zip(self.names, xs[:count])), training=False)
        finally:
            self._compiling = max(self._compiling, time.perf_counter() - begin)


def _shapes(arrays: list[Array]) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in arrays)
