"""Golden outputs of every application model: `python tests/golden/record.py` writes them into golden.npz.

They are recorded on TensorFlow and hold on every backend. Weights are not stored: each is drawn by its path.
"""

import functools
import inspect
import json
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.applications import build_model, get_model_class

FILE = Path(__file__).with_name("golden.npz")
FULL = 128  # of an array with more values, projections of each row are kept
PROJECTIONS = 3

WORDS = {"vocabulary_size": 12, "embedding_dim": 3}
CHARS = {"char_dim": 2, "max_word_length": 6}
CNN = {**CHARS, "char_filters": 2, "char_kernel_size": 3}
BERT = {"backbone": "Bert"}
TINY: dict[str, dict[str, Any]] = {
    "bag_of_words": WORDS,
    "bimpm": {
        **WORDS, **CHARS, "char_units": 2, "units": 3, "aggregation_units": 2, "hidden_units": 4, "perspectives": 2,
    },
    "cafe": {**WORDS, **CNN, "units": 4, "factors": 2},
    "cross_encoder": BERT,
    "dabert": {**BERT, "attention_units": 4},
    "diin": {
        **WORDS, **CNN, "max_length": 8, "first_scale": 0.6, "blocks": 2, "layers_per_block": 2, "growth_rate": 2,
    },
    "din": {**WORDS, "units": 9},
    "drcn": {**WORDS, **CNN, "units": 2, "depth": 3, "autoencoder_units": 6, "hidden_units": 5},
    "drr_net": {
        **WORDS, **CNN, "units": 3, "depth": 2, "attention_units": 2, "steps": 2, "beta": 3.0, "hidden_units": 8,
    },
    "esim": {**WORDS, "units": 4},
    "hybrid": {**WORDS, "units": 4},
    "hyper_lstm": {**WORDS, "units": 4, "hyper_units": 3, "embedding_units": 2},
    "ladra_net": {
        **BERT, "units": 3, "depth": 2, "hidden_filters": 3, "attention_units": 3, "steps": 2, "beta": 2.0,
        "hidden_units": 5,
    },
    "re2": {**WORDS, "units": 4},
    "rlstm": {**WORDS, "units": 4},
}  # fmt: skip
WITHDRAWN = {  # what a preset says and tiny sizes must not override
    ("cafe", "linear"): ["factors"],
    ("ladra_net", "table7_1_bert"): ["steps"],
    ("ladra_net", "table7_2_bert_pcnn"): ["steps"],
}
ALL_FEATURES = {"char_vocabulary_size": 6, "pos_tags": 4, "antonym": True}
HOSTS = ("bimpm", "cafe", "diin", "drcn", "esim", "hybrid", "re2")
BLOCKS: list[dict[str, Any]] = [
    {"feature_attention": "fa"},
    {"feature_attention": "sfa"},
    {"feature_attention": "fa", "feature_attention_config": {"share": True, "reduction": 2}},
]
CODES = {"attention": False, "exact_match": False}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "bag_of_words": [{"matching_features": True}, {"matching_features": True, "num_classes": 1}],
    "bimpm": [
        *({"strategies": [name]} for name in ("full", "max", "attentive", "max_attentive")),
        {"cell": "gru"},
        {"cell": "rnn"},
        {"attentive": "sum"},
        {"max_attentive": "elementwise"},
        {"trainable_embedding": True},
    ],
    "cafe": [
        {"char_vocabulary_size": 6, "char_encoder": "lstm"},
        {"inter_attention": False, "intra_attention": False},
        {"meta_factors": 2},
        {"append_intra": True},
        {"highway_layers": 1, "l2": 0.1},
        {"meta_factors": 2, "append_intra": True, "feature_attention": "sfa"},
    ],
    "cross_encoder": [
        {"trainable_backbone": False},
        {"backbone": "Roberta"},
        {"backbone": "Roberta", "pooling": "mean"},
    ],
    "dabert": [
        {"distance": "l2"},
        {"distance": "l2_squared"},
        {"distance": "sum"},
        {"cross": True},
        {"alignment": "literal"},
        {"output_mode": "replace"},
        {"dual_layers": [0, 1], "hidden_units": 5},
        {"dual_layers": [1], "trainable_backbone": False},
        {"backbone": "Roberta", "cross": True},
    ],
    "diin": [
        {"mask_padding": False},
        {"max_length": 4},
        {"kernel_size": 1, "compression": 0.9, "highway_layers": 1},
        {"l2": 0.1, "l2_steps": 1},
        {"difference_penalty": 0.5, "l2": 0.0},
        {"difference_penalty": 0.0, "l2": 0.0},
        {"exact_match": False, "feature_attention": "sfa"},
    ],
    "din": [
        {"concat": "split"},
        {"use_bias": False},
        {"variant": "din2", "use_bias": False},
        {"encode_hypothesis": True},
        {"shared_transform": True, "encode_hypothesis": True},
        {"hidden_layers": 0},
        {"variant": "static_interaction"},
        {"transpose_premise": True},
        {"compare_means": True},
        {"reset_after": True},
    ],
    "drcn": [
        {"recurrent_connection": "residual"},
        {"attentive_connection": "residual"},
        {"embedding_connection": "none"},
        {"cell": "gru"},
        {"cell": "rnn"},
        {"attention": False},
        {"exact_match": False},
        {"temperature": True},
        {"autoencoder_after": [1, 3]},
        {"autoencoder_activation": "linear", "autoencoder_stop_gradient": True},
        {"reconstruction_weight": 0.5, "l2": 0.1},
        {**CODES, "feature_attention": "sfa"},
        {"feature_attention": "fa", "autoencoder_after": [2]},
        {"feature_attention": "sfa", "autoencoder_after": [1, 3]},
    ],
    "drr_net": [
        {"selection": "straight_through"},
        {"selection": "hard"},
        {"bidirectional": True},
        {"init_projection": False},
        {"exact_match": False},
        {"highway_layers": 1},
        {"aux_loss_weight": 0.5},
        {"aux_loss_weight": 0.0},
        {"use_global": False, "use_initial_vector": False, "use_guide": False},
    ],
    "esim": [
        {"cell": "gru"},
        {"cell": "rnn"},
        {"trainable_embedding": False},
        {"placement": "attended", "feature_attention": "fa"},
        {"placement": "attended", "feature_attention": "sfa"},
    ],
    "hybrid": [
        {"prediction": "symmetric"},
        {"trainable_embedding": True},
        {"blocks": 1, "encoder_layers": 3, "kernel_size": 1},
    ],
    "hyper_lstm": [{"layer_norm": True}, {"layer_norm": True, "shared_encoder": True}],
    "ladra_net": [
        {"layer_weighting": "free"},
        {"coverage": "log"},
        {"coverage": "off"},
        {"clip_coverage": False},
        {"coverage_update": "score"},
        {"select_special": False},
        {"fuse_word": False},
        {"encoder": "stack_gru", "widths": [3], "trainable_backbone": False},
        {"backbone": "Roberta", "select_special": False},
    ],
    "re2": [
        {"alignment": "identity"},
        {"fusion": "simple"},
        {"connection": "residual"},
        {"connection": "none"},
        {"prediction": "symmetric"},
        {"prediction": "simple"},
        {"activation": "tanh"},
        {"weight_normalization": False, "trainable_embedding": True},
        {"blocks": 1, "encoder_layers": 3, "kernel_size": 1},
    ],
    "rlstm": [{"tanh": False}, {"first_attention": "learned"}],
}  # fmt: skip


def _variants(name: str) -> Iterator[dict[str, Any]]:
    arguments = inspect.signature(get_model_class(name)).parameters
    yield {}
    yield {"num_classes": 1}
    yield {"num_classes": 2}
    features = {n: v for n, v in ALL_FEATURES.items() if n in arguments}
    if features:
        yield features
    yield from OPTIONS[name]
    yield from BLOCKS if name in HOSTS else []
    yield from ({"preset": preset} for preset in get_model_class(name).presets)


def _configs() -> dict[str, tuple[str, dict[str, Any]]]:
    """By id the model and its arguments; a preset that at tiny sizes is like another config shares that."""
    found, seen = {}, set()
    for name in TINY:
        cls = get_model_class(name)
        arguments = inspect.signature(cls).parameters
        for variant in _variants(name):
            preset = variant.get("preset", "")
            tiny = {
                n: v for n, v in TINY[name].items() if n not in WITHDRAWN.get((name, preset), ())
            }
            config = {**tiny, **variant}
            whole = {**cls.presets.get(preset, {}), **config}
            # An argument that says what is the default anyway makes no config of its own.
            key = {n: v for n, v in whole.items() if n != "preset" and v != arguments[n].default}
            if preset:
                key.pop("num_classes", None)
            key = json.dumps([name, key], sort_keys=True)
            if key not in seen:
                seen.add(key)
                found[" ".join([name, *(f"{n}={_short(v)}" for n, v in variant.items())])] = (
                    name,
                    config,
                )
    return found


def _short(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, dict)) else str(value)


CONFIGS = _configs()


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


def _values(model: keras.Model) -> tuple[list[Any], list[Any]]:
    return (
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
    )


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
    return json.loads(json.dumps({name: get_model_class(name).presets for name in TINY}))


def recorded(name: str, config: dict[str, Any]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What golden.npz holds of a configuration, and its values."""
    values: list[np.ndarray] = []
    model = make(name, config)
    inputs = inputs_of(model, config.get("backbone", ""))
    entry = facts(model)
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


def main() -> None:
    """Adds the configurations that golden.npz lacks; what stands there stays."""
    entries: dict[str, Any] = {}
    values: list[np.ndarray] = []
    end, old, old_values = 0, {}, np.zeros(0)
    if FILE.exists():
        with np.load(FILE) as file:
            old, old_values = json.loads(file["about"].tobytes())["configs"], file["values"]
    for key, (name, config) in CONFIGS.items():
        if key in old:
            entry = old[key]
            found = [old_values[a:b] for a, b in entry["values"].values()]
        else:
            entry, found = recorded(name, config)
            print(key, file=sys.stderr)
        for what, array in zip(entry["values"], found, strict=True):
            entry["values"][what] = [end, end + len(array)]
            end += len(array)
        values += found
        entries[key] = entry
    about = json.dumps({"presets": presets(), "configs": entries}, separators=(",", ":"))
    np.savez_compressed(
        FILE, values=np.concatenate(values), about=np.frombuffer(about.encode(), "uint8")
    )
    print(
        f"{len(entries)} configs, {end} values, {FILE.stat().st_size} bytes on {keras.backend.backend()}"
    )


if __name__ == "__main__":
    main()
