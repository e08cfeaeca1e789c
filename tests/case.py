"""What the harness works on: a `Case`, and the helpers that call, pad, truncate and compare it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A layer or model, its inputs, and what is expected of it.

    Args:
        make: `make(**overrides)` returns a new layer: a `functools.partial` of the class with
            keyword arguments only.
        inputs: Arrays by name of `call` argument, or of a functional model's input.
        weights: Numbers of trainable and of non-trainable parameters. None if another test asserts them.
        oracle: `oracle(layer, **inputs)` in NumPy, with the structure of the outputs.
        name: Test id. Defaults to the class name.
        options: Further arguments of a layer's `call`, the same in every call.
        pad_axes: Axes along which an input grows with padding, by input. Defaults to axis 1 for
            masks, ids and sequences, and to none for a `[B, D]` float array.
        zero_pads: Whether outputs are zero at padded positions.
        per_row: Whether row i of each output depends on row i of the inputs alone.
        float32_outputs: Outputs that stay float32 under every policy: True for all, or their places
            in the flattened outputs.
        float32_sublayers: Names of sublayers that stay float32 under every policy.
        half_tolerance: Greatest difference of a half-precision output from the float32 one.
        unused: Parts of weight paths, or input names, that may have no gradient, with the reason.
    """

    make: Callable[..., keras.layers.Layer]
    inputs: Mapping[str, np.ndarray]
    weights: tuple[int, int] | None
    oracle: Callable[..., Any] | None = None
    name: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pad_axes: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    zero_pads: bool = True
    per_row: bool = True
    float32_outputs: bool | Sequence[int] = False
    float32_sublayers: tuple[str, ...] = ()
    half_tolerance: float = 0.1
    unused: tuple[str, ...] = ()

    def axes(self, name: str) -> Sequence[int]:
        array = self.inputs[name]
        flat_float = array.ndim < 3 and array.dtype.kind == "f"
        return self.pad_axes.get(name, () if flat_float or array.ndim < 2 else (1,))

    def call(self, layer: Any, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        """Calls with NumPy or symbolic inputs: a model takes the dict, a layer takes arguments."""
        tensors = {
            n: keras.ops.convert_to_tensor(x) if isinstance(x, np.ndarray) else x
            for n, x in inputs.items()
        }
        if isinstance(layer, keras.Model):
            return layer(tensors, **kwargs)
        return layer(**tensors, **self.options, **kwargs)

    @property
    def masks(self) -> list[str]:
        return [n for n, a in self.inputs.items() if a.dtype == bool]

    @property
    def cls(self) -> Any:
        return getattr(self.make, "func", self.make)


def name_of(x: Any) -> str:
    return (x.name or x.cls.__name__) if isinstance(x, Case) else getattr(x, "__name__", str(x))


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def lengths_mask(lengths: Sequence[int], length: int) -> np.ndarray:
    return np.arange(length)[None, :] < np.asarray(lengths)[:, None]


def value(x: Any) -> np.ndarray:
    """A variable, tensor or array as NumPy, in float64 if it is floating (bfloat16 too)."""
    x = x.value if isinstance(x, keras.Variable) else x
    plain = isinstance(x, (np.ndarray, np.generic, float, int))
    array = np.asarray(x) if plain else keras.ops.convert_to_numpy(x)
    return array if array.dtype.kind in "iub" else array.astype("float64")


def values(tensors: Any) -> list[np.ndarray]:
    return [value(t) for t in keras.tree.flatten(tensors)]


def weights_of(layer: Any) -> list[np.ndarray]:
    return values(layer.weights)


def randomize(layer: keras.layers.Layer, seed: int = 0) -> keras.layers.Layer:
    """Give every weight random values, so that no zero bias or unit scale hides a mistake."""
    rng = np.random.default_rng(seed)
    for v in layer.weights:
        if "float" in str(v.dtype):
            new = rng.normal(size=v.shape, scale=0.4)
            v.assign(np.abs(new) + 0.5 if "variance" in v.path else new)
    return layer


def shapes(case: Case, dynamic: bool = True) -> dict[str, tuple[int | None, ...]]:
    """Input shapes; `dynamic` makes the batch and every padded axis unknown."""
    return {
        n: tuple(
            None if dynamic and (i == 0 or i in case.axes(n)) else d for i, d in enumerate(a.shape)
        )
        for n, a in case.inputs.items()
    }


def built(case: Case, **overrides: Any) -> Any:
    """A new layer, built for the inputs, with random weights (the same for the same shapes)."""
    layer = case.make(**overrides)
    if not layer.built:
        symbolic_outputs(case, layer)
    return randomize(layer)


def symbolic_outputs(case: Case, layer: Any, dynamic: bool = False) -> list[Any]:
    ins = {
        n: keras.KerasTensor(s, dtype=str(case.inputs[n].dtype), name=n)
        for n, s in shapes(case, dynamic).items()
    }
    return keras.tree.flatten(case.call(layer, ins))


def float_outputs(outputs: Any) -> list[Any]:
    flat = keras.tree.flatten(outputs)
    return [o for o in flat if "float" in keras.backend.standardize_dtype(o.dtype)]


def trained_outputs(outputs: Any, of_model: bool) -> Any:
    """What a model of the layer returns: its float outputs; a model's own outputs as they are."""
    return outputs if of_model else [o for o in float_outputs(outputs) if o.shape]


def as_model(case: Case, layer: Any) -> keras.Model:
    """The layer in a functional model with dynamic shapes, boolean mask inputs included."""
    if isinstance(layer, keras.Model):
        return layer
    ins = {
        n: keras.Input(shape[1:], dtype=str(case.inputs[n].dtype), name=n)
        for n, shape in shapes(case).items()
    }
    return keras.Model(ins, trained_outputs(case.call(layer, ins), False))


def close(got: Any, want: Any, what: str, tolerance: float = TOLERANCE) -> None:
    """Equal structures of arrays up to `tolerance`, measured against max(1, |want|)."""
    got, want = values(got), [np.asarray(w) for w in keras.tree.flatten(want)]
    assert len(got) == len(want), f"{what}: {len(got)} outputs, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        assert g.shape == w.shape, f"{what}: output {i} is {g.shape}, expected {w.shape}"
        assert np.isfinite(g).all(), f"{what}: output {i} is not finite"
        error = np.abs(g - w) / np.maximum(1, np.abs(w)) if g.size else np.zeros(1)
        assert error.max() <= tolerance, f"{what}: output {i} differs by {error.max():.3g}"


def padded(case: Case, extra: int = 3) -> dict[str, np.ndarray]:
    """Pads are False in masks, 0 in ids, and noise in features."""
    rng, out = np.random.default_rng(2), {}
    for n, a in case.inputs.items():
        for axis in case.axes(n):
            shape = (*a.shape[:axis], extra, *a.shape[axis + 1 :])
            fill = rng.normal(size=shape, scale=5) if a.dtype.kind == "f" else np.zeros(shape)
            a = np.concatenate([a, fill.astype(a.dtype)], axis)
        out[n] = a
    return out


def cut(case: Case, length: int) -> dict[str, np.ndarray]:
    """The first `length` tokens, all of them real."""
    out = {}
    for n, a in case.inputs.items():
        for axis in case.axes(n):
            a = np.take(a, range(length), axis)
        out[n] = np.ones_like(a) if n in case.masks else a
    return out


def emptied(case: Case) -> dict[str, dict[str, np.ndarray]]:
    """The inputs with row 0 empty: in sentence 1, in sentence 2 (`*_1`, `*_2`), in all."""
    tokens = [n for n, a in case.inputs.items() if a.dtype.kind in "bi" and case.axes(n)]
    sides = [[n for n in tokens if n.endswith(suffix)] for suffix in ("_1", "_2")]
    out = {}
    for group in filter(None, [*sides, tokens]):
        changed = {n: np.array(a) for n, a in case.inputs.items()}
        for n in group:
            changed[n][0] = 0
        out[f"empty {' '.join(group)}"] = changed
    return out


class Runner:
    """A layer ready to be called with NumPy inputs, and differentiated.

    On JAX each becomes one compiled program a shape: operation by operation takes far longer.
    """

    def __init__(self, case: Case, layer: Any) -> None:
        self.case, self.layer = case, layer
        self.compiled: dict[str, Any] = {}

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Any:
        if keras.backend.backend() != "jax":
            return self.case.call(self.layer, inputs)
        return self._jit("forward", self._outputs)(self._state(), dict(inputs))[0]

    def gradients(self, inputs: Mapping[str, np.ndarray]) -> tuple[list, list]:
        """Gradients of a random projection of the float outputs plus `layer.losses`.

        Returns those of the trainable weights and of the float inputs; None where nothing flows.
        """
        layer = self.layer
        floats = [n for n, a in inputs.items() if a.dtype.kind == "f"]
        weights = [v.value for v in layer.trainable_variables]
        if keras.backend.backend() == "jax":
            features = {n: inputs[n] for n in floats}
            others = {n: a for n, a in inputs.items() if n not in floats}
            gradient = self._jit("gradients", self._grad)
            of_weights, of_features = gradient(*self._state(), features, others)
            found = [*of_weights, *(of_features[n] for n in floats)]
            return self._split(found, len(weights))
        tensors = {n: keras.ops.convert_to_tensor(x) for n, x in inputs.items()}
        layer._clear_losses()  # Keras keeps those of earlier eager calls
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                tape.watch([tensors[n] for n in floats])
                loss = projection(self.case.call(layer, tensors), layer.losses)
            found = tape.gradient(loss, weights + [tensors[n] for n in floats])
        else:
            for v in weights:
                v.grad = None
            tensors.update({n: tensors[n].detach().clone().requires_grad_() for n in floats})
            projection(self.case.call(layer, tensors), layer.losses).backward()
            found = [x.grad for x in [*weights, *(tensors[n] for n in floats)]]
        return self._split(found, len(weights))

    @staticmethod
    def _split(found: list, weights: int) -> tuple[list, list]:
        arrays = [None if g is None else value(keras.ops.convert_to_tensor(g)) for g in found]
        return arrays[:weights], arrays[weights:]

    def _state(self) -> tuple[list, list]:
        layer = self.layer
        groups = layer.trainable_variables, layer.non_trainable_variables
        return tuple([v.value for v in group] for group in groups)  # type: ignore[return-value]

    def _jit(self, name: str, function: Callable[..., Any]) -> Any:
        import jax

        return self.compiled.setdefault(name, jax.jit(function))

    def _outputs(self, state: tuple[list, list], inputs: dict) -> Any:
        layer = self.layer
        variables = [*layer.trainable_variables, *layer.non_trainable_variables]
        layer._clear_losses()
        with keras.StatelessScope(zip(variables, [*state[0], *state[1]]), collect_losses=True):
            return self.case.call(layer, inputs), layer.losses

    def _grad(self, trainable: list, others: list, features: dict, inputs: dict) -> Any:
        import jax

        def loss(trainable: list, features: dict) -> Any:
            return projection(*self._outputs((trainable, others), {**inputs, **features}))

        return jax.grad(loss, argnums=(0, 1))(trainable, features)


def projection(outputs: Any, losses: Sequence[Any]) -> Any:
    rng = np.random.default_rng(3)
    terms = [
        keras.ops.sum(o * keras.ops.cast(rng.normal(size=tuple(o.shape)), o.dtype))
        for o in float_outputs(outputs)
    ]
    return sum([*terms, *losses])


@functools.lru_cache(maxsize=2)
def shared(case: Case) -> Runner:
    """The case's layer, built once for all the checks that leave its weights as they are."""
    return Runner(case, built(case))


@functools.lru_cache(maxsize=2)
def expected(case: Case) -> tuple[Any, list[np.ndarray]]:
    """The outputs of the case's inputs, as tensors and as NumPy."""
    outputs = shared(case)(case.inputs)
    return outputs, values(outputs)


def gradients(case: Case, layer: Any, inputs: Mapping[str, np.ndarray]) -> tuple[list, list]:
    """`Runner.gradients` of a layer, which is built if it is not."""
    if not layer.built:
        case.call(layer, inputs)
    return Runner(case, layer).gradients(inputs)
