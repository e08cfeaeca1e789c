"""Golden outputs of every model and preset, in golden.npz.

They were recorded on TensorFlow and hold on every backend. Weights are not stored: each is drawn by its path. The
file says how each model was made: tiny sizes, or a preset at tiny sizes.

    python tests/golden/record.py                       remove what the library no longer has
    python tests/golden/record.py re2 '{"vocabulary_size": 12, "embedding_dim": 3, "units": 5}'    record one more
    python tests/golden/record.py re2 '{"preset": "quora", "vocabulary_size": 12, …}'    the same of a preset
"""

import functools
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime

from keras_sentmatch.applications import build_model, get_model_class, list_models
from keras_sentmatch.inference import onnx_file
from keras_sentmatch.inference.onnx_graph import write_model

FILE = Path(__file__).with_name("golden.npz")
FULL = 128  # of an array with more values, projections of each row are kept
PROJECTIONS = 3


def read() -> tuple[dict[str, Any], np.ndarray]:
    """What the file says of each configuration, and all values."""
    with np.load(FILE) as file:
        return json.loads(file["about"].tobytes()), file["values"]


def inputs_of(model: keras.Model, backbone: str = "") -> dict[str, np.ndarray]:
    """Four pairs: lengths differ, most are padded, and the last one has an empty second sentence."""
    rng = np.random.default_rng(0)
    if backbone:
        # [CLS] is 2 and [SEP] 3, padding 0; <s> is 0 and </s> 2, padding 1
        start, end, between, pad = (2, 3, [3], 0) if backbone == "Bert" else (0, 2, [2, 2], 1)
        ids, segments = np.full((4, 11), pad), np.zeros((4, 11))
        for row, (n1, n2) in enumerate([(4, 3), (1, 3), (3, 2), (2, 0)]):
            one, two = rng.integers(5, 14, n1), rng.integers(5, 14, n2)
            tokens = [start, *one, *between, *two, end]
            ids[row, : len(tokens)] = tokens
            segments[row, n1 + 2 : len(tokens)] = 1
        real = np.arange(11) < np.array([[4 + 3], [1 + 3], [3 + 2], [2]]) + 2 + len(between)
        found = {"token_ids": ids, "segment_ids": segments, "padding_mask": real}
    else:
        found = {}
        for side, length, lengths in (("1", 6, [5, 2, 4, 3]), ("2", 5, [3, 5, 1, 0])):
            real = np.arange(length) < np.array(lengths)[:, None]
            found[f"word_ids_{side}"] = rng.integers(1, 12, real.shape) * real
            found[f"char_ids_{side}"] = rng.integers(1, 6, (*real.shape, 6)) * real[..., None]
            found[f"pos_{side}"] = rng.integers(1, 4, real.shape) * real
            found[f"antonym_{side}"] = rng.integers(0, 2, real.shape) * real
        found["word_ids_2"][0, 1] = found["word_ids_1"][0, 2]  # a word of both
    return {n: found[n].astype("int32") for n in model.input_names}


@functools.cache
def _backbone(kind: str) -> dict[str, Any]:
    import keras_hub

    made = getattr(keras_hub.models, f"{kind}Backbone")(
        vocabulary_size=14,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=16,
    )
    return keras.saving.serialize_keras_object(made)


def path_of(model: keras.Model, variable: Any) -> str:
    """Without the model's name, and without the numbers that Keras gives to cells that have no name (of HyperLSTM)."""
    return re.sub(r"_cell_\d+/", "_cell/", variable.path.removeprefix(f"{model.name}/"))


def make(name: str, config: dict[str, Any]) -> keras.Model:
    """The model, no dropout, each weight drawn by its path."""
    if "backbone" in config:
        config = {**config, "backbone": _backbone(config["backbone"])}
    keras.backend.clear_session(free_memory=False)  # so that numbers in names start anew
    model = build_model(name, **config)
    paths = [path_of(model, v) for v in model.weights]
    assert len(set(paths)) == len(paths), sorted(p for p in paths if paths.count(p) > 1)
    for path, variable in zip(paths, model.weights):
        if "float" in variable.dtype:
            rng = np.random.default_rng(zlib.crc32(path.encode()))
            drawn = rng.normal(size=tuple(variable.shape), scale=0.3)
            positive = path.endswith("variance")
            variable.assign((abs(drawn) + 0.5 if positive else drawn).astype("float32"))
    for layer in model._flatten_layers():
        if isinstance(getattr(layer, "rate", None), (int, float)):
            layer.rate = 0.0
    return model


def run(model: keras.Model, inputs: dict[str, np.ndarray]) -> Any:
    """What the model gives in inference; compiled on JAX, where single operations take far longer."""
    inputs = {n: keras.ops.convert_to_tensor(x) for n, x in inputs.items()}
    if keras.backend.backend() == "jax":
        import jax

        call = jax.jit(lambda tv, ntv, x: model.stateless_call(tv, ntv, x)[0])
        out = call(*_values(model), inputs)
    else:
        out = model(inputs, training=False)
    return keras.tree.map_structure(keras.ops.convert_to_numpy, out)


def _values(model: keras.Model) -> list[list[Any]]:
    groups = model.trainable_variables, model.non_trainable_variables
    return [[v.value for v in group] for group in groups]


def loss_of(model: keras.Model, inputs: dict[str, np.ndarray]) -> float:
    """The first loss of training: the compiled one, penalties, what a model adds. Counters and moving means change."""
    classes = model.output_shape[-1]
    model.compile(loss="sparse_categorical_crossentropy" if classes > 1 else "mse")
    y = np.arange(4) % classes if classes > 1 else np.array([[0.5], [1.0], [0.0], [2.0]], "float32")
    x, y = keras.tree.map_structure(keras.ops.convert_to_tensor, (inputs, y))
    if keras.backend.backend() == "jax":
        import jax

        def loss(tv: Any, ntv: Any) -> Any:
            rest = [
                [v.value for v in vs] for vs in (model.metrics_variables, model.optimizer.variables)
            ]
            return model.compute_loss_and_updates(tv, ntv, rest[0], x, y, None, True, rest[1])[1][0]

        return float(jax.jit(loss)(*_values(model)))
    model._clear_losses()
    loss = model.compute_loss(x, y, model(x, training=True), None, training=True)
    return float(keras.ops.convert_to_numpy(loss))


def halves_output(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The output by way of `split()`."""
    *encoders, interaction = model.split()
    encodings = {}
    for side, encoder in zip("12", encoders):
        mine = {n.removesuffix(f"_{side}"): x for n, x in inputs.items() if n.endswith(f"_{side}")}
        encodings.update({f"{n}_{side}": x for n, x in run(encoder, mine).items()})
    return run(interaction, encodings)


def explained(model: keras.Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """What the explainer gives, by name; None without one."""
    try:
        explainer = model.explainer()
    except NotImplementedError:
        return None
    return run(explainer, inputs)


def lengthened(array: np.ndarray, length: int) -> np.ndarray:
    """With zeros at its end along axis 1."""
    axes = [(0, 0), (0, length - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, axes)


def onnx_output(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The output of the model as ONNX, where both sentences have the length of the longer one."""
    width = max(x.shape[1] for x in inputs.values())
    inputs = {name: lengthened(x, width) for name, x in inputs.items()}
    content, _ = write_model(lambda arrays: {"y": model(arrays)}, model.input, ["y"], {})
    onnx_file.check_model(content, onnx_file.MADE)  # what a run folder may hold
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: inputs[one.name] for one in session.get_inputs()})[0]


def facts(model: keras.Model) -> dict[str, Any]:
    """What holds without running the model."""
    weights = sorted([path_of(model, v), list(v.shape)] for v in model.weights)
    return {
        "inputs": model.input_names,
        "params": model.count_params(),
        "params_without_words": model.count_params_without_word_embeddings(),
        "trainable": sum(int(np.prod(v.shape)) for v in model.trainable_weights),
        "weights": zlib.crc32(json.dumps(weights).encode()),
        "can_split": model.can_split,
    }


def kept(array: Any) -> np.ndarray:
    """The values of an array; of a large one some projections of each row of the batch."""
    array = np.asarray(array, "float64")
    if array.size > FULL:
        rows = array.reshape(len(array), -1)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (rows.shape[1], PROJECTIONS))
        array = rows @ signs / np.sqrt(rows.shape[1])
    return array.ravel().astype("float32")


def presets() -> dict[str, Any]:
    """All presets, as JSON has them."""
    return json.loads(json.dumps({name: get_model_class(name).presets for name in list_models()}))


def recorded(name: str, config: dict[str, Any]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What golden.npz holds of a configuration, and its values."""
    values: list[np.ndarray] = []
    model = make(name, config)
    inputs = inputs_of(model, config.get("backbone", ""))
    entry = {"model": name, "arguments": config, **facts(model)}
    arrays = {"output": run(model, inputs)}
    if entry["can_split"]:
        assert abs(halves_output(model, inputs) - arrays["output"]).max() < 1e-6, name
    shown = explained(model, inputs)
    entry["explained"] = (
        None if shown is None else {n: list(x.shape) for n, x in sorted(shown.items())}
    )
    arrays.update({f"explainer {n}": x for n, x in sorted((shown or {}).items())})
    arrays["loss"] = np.array(loss_of(model, inputs))
    entry["values"] = dict.fromkeys(arrays)  # places in the file
    for n, x in arrays.items():
        found = kept(x)
        assert np.isfinite(found).all(), (name, n)
        values.append(found)
    return entry, values


def exists(entry: dict[str, Any]) -> bool:
    """Whether the library still has the model, the preset and the arguments."""
    if entry["model"] not in list_models():
        return False
    cls, arguments = get_model_class(entry["model"]), dict(entry["arguments"])
    preset = arguments.pop("preset", None)
    return preset in (None, *cls.presets) and arguments.keys() <= cls.arguments().keys()


def main(*more: str) -> None:
    about, old = read()
    entries = {key: entry for key, entry in about["configs"].items() if exists(entry)}
    values = [[old[a:b] for a, b in entry["values"].values()] for entry in entries.values()]
    if more:
        name, config = more[0], json.loads(more[1])
        changes = [f"{n}={value}" for n, value in config.items() if name in entries]
        key = " ".join([name, *changes])  # the first of a model has its name
        entries[key], found = recorded(name, config)
        values.append(found)
    end = 0
    for entry, arrays in zip(entries.values(), values, strict=True):
        for what, array in zip(entry["values"], arrays, strict=True):
            entry["values"][what] = [end, end + len(array)]
            end += len(array)
    text = json.dumps({"presets": presets(), "configs": entries}, separators=(",", ":"))
    np.savez_compressed(
        FILE,
        values=np.concatenate([array for arrays in values for array in arrays]),
        about=np.frombuffer(text.encode(), "uint8"),
    )
    print(f"{len(entries)} configurations, {end} values on {keras.backend.backend()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
