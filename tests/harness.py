"""One harness for every layer and model, on whichever backend is running.

Describe a layer by a `Case`, and every check runs over it, one test each:

    CASES = [Case(partial(Highway, num_layers=2), {"x": noise(2, 5, 4)}, weights=(80, 0))]
    test_checks = run_checks(CASES)

A test file's `CASES` are also what the cross-backend test saves and the API test inspects.
"""

import copy
import inspect
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.case import (
    Case,
    Runner,
    as_model,
    built,
    close,
    cut,
    emptied,
    expected,
    float_outputs,
    name_of,
    padded,
    randomize,
    shapes,
    shared,
    symbolic_outputs,
    trained_outputs,
    values,
)

# Arguments that all models share and that act in each; the others act in `WordRepresentation`.
OF_ALL_MODELS = ("num_classes", "embedding_dim", "trainable_embedding", "exact_match", "dropout")
HALF_POLICIES = ("mixed_float16", "mixed_bfloat16")
PURE_POLICIES = ("float16", "float64")  # of layers; TensorFlow casts nothing by itself


def check_config(case: Case) -> None:
    """`get_config` has every argument, survives JSON, and builds a layer with the same one."""
    layer = case.make()
    config = layer.get_config()
    arguments = signature_arguments(type(layer))
    missing = [a for a in arguments if a not in config]
    assert not missing, f"get_config lacks {missing}"
    assert not [a for a in arguments if not hasattr(layer, a)], "an argument is not an attribute"
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    before = copy.deepcopy(saved)
    again = keras.saving.deserialize_keras_object(saved)
    assert saved == before, "from_config changed the config it was given"
    assert type(again) is type(layer)
    assert plain(again.get_config()) == plain(config), "the rebuilt layer has another config"
    for a in arguments:
        one, two = plain(getattr(layer, a)), plain(getattr(again, a))
        assert one == two, f"attribute {a!r}: {one} became {two}"
        assert same_value(a, config, getattr(layer, a)), f"config[{a!r}] is not the attribute"


def signature_arguments(cls: Any) -> dict[str, inspect.Parameter]:
    """The arguments of `__init__` but self, *args and **kwargs; none where it is Keras's own."""
    if cls.__init__.__module__.startswith("keras."):
        return {}
    parameters = list(inspect.signature(cls.__init__).parameters.items())[1:]
    own = {n: p for n, p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    shared = cls.arguments() if hasattr(cls, "arguments") else {}
    return {n: p for n, p in shared.items() if n in OF_ALL_MODELS} | own


def plain(x: Any) -> Any:
    return json.loads(json.dumps(keras.saving.serialize_keras_object(x), sort_keys=True))


def same_value(argument: str, config: Mapping[str, Any], attribute: Any) -> bool:
    if isinstance(attribute, (bool, int, float, str, list, tuple, dict, type(None))):
        return plain(config[argument]) == plain(attribute)
    return True  # an activation, initializer or layer: compared after the rebuild


def check_build(case: Case) -> None:
    """`build` from shapes alone makes exactly the expected weights, and calling makes no more."""
    layer = case.make()
    if not isinstance(layer, keras.Model):
        known = shapes(case)
        names = list(inspect.signature(layer.build).parameters)
        if len(names) == 1:
            layer.build(next(iter(known.values())))
        else:
            layer.build(**{n: known.get(n.removesuffix("_shape")) for n in names})
    counts = count(layer)
    expected = counts if case.weights is None else tuple(case.weights)
    assert counts == expected, f"weights {counts}, expected {expected}"
    unbuilt = [s.name for s in layer._flatten_layers() if not s.built]
    assert not unbuilt, f"build left sublayers unbuilt: {unbuilt}"
    symbolic_outputs(case, layer)
    assert count(layer) == counts, f"the first call made weights: {count(layer)} after {counts}"


def count(layer: Any) -> tuple[int, int]:
    groups = (layer.trainable_weights, layer.non_trainable_weights)
    a, b = (sum(int(np.prod(v.shape)) for v in g) for g in groups)
    return a, b


def check_symbolic(case: Case) -> None:
    """Symbolic outputs have the eager shapes and dtypes; with unknown lengths they do not lie."""
    eager = keras.tree.flatten(expected(case)[0])
    for dynamic in (False, True):
        spec = symbolic_outputs(case, shared(case).layer, dynamic)
        assert len(spec) == len(eager), f"{len(spec)} symbolic outputs, {len(eager)} eager"
        for i, (s, e) in enumerate(zip(spec, eager)):
            want = keras.backend.standardize_dtype(e.dtype)
            assert s.dtype == want, f"output {i}: symbolic {s.dtype}, eager {want}"
            known = len(s.shape) == len(e.shape) and all(
                a == b or (dynamic and a is None) for a, b in zip(s.shape, e.shape)
            )
            assert known, f"output {i}: symbolic shape {s.shape}, eager {tuple(e.shape)}"


def make_with_policy(case: Case, policy: str) -> Any:
    if not issubclass(case.cls, keras.Model):
        return case.make(dtype=policy)
    default = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return case.make()
    finally:
        keras.config.set_dtype_policy(default)


def check_dtypes(case: Case) -> None:
    """Under each policy: outputs of the right dtype near the float32 ones, and right sublayers."""
    outputs, _ = expected(case)
    check_policy(case, "float32", shared(case).layer, outputs)
    want = values(float_outputs(outputs))
    pure = keras.backend.backend() == "tensorflow" and not issubclass(case.cls, keras.Model)
    for policy in HALF_POLICIES + PURE_POLICIES * pure:
        layer = make_with_policy(case, policy)
        if not layer.built:
            symbolic_outputs(case, layer)
        outputs = Runner(case, randomize(layer))(case.inputs)
        check_policy(case, policy, layer, outputs)
        if policy in HALF_POLICIES:
            close(float_outputs(outputs), want, policy, case.half_tolerance)
        elif policy == "float64":
            close(float_outputs(outputs), want, policy)
        assert all(np.isfinite(o).all() for o in values(outputs)), f"{policy}: not finite"


def check_policy(case: Case, policy: str, layer: Any, outputs: Any) -> None:
    for v in layer.weights:
        kind = keras.backend.standardize_dtype(v.dtype)
        known = ("float32", keras.DTypePolicy(policy).variable_dtype)
        assert kind in known or "float" not in kind, f"{policy}: {v.path} is {kind}"
    for s in layer._flatten_layers(include_self=not isinstance(layer, keras.Model)):
        if not isinstance(s, keras.layers.InputLayer) and s.name not in case.float32_sublayers:
            got = s.dtype_policy.name
            assert got == policy, f"{policy}: sublayer {s.name} has policy {got}"
    outputs = keras.tree.flatten(outputs)
    kept = range(len(outputs)) if case.float32_outputs is True else case.float32_outputs or ()
    for i, o in enumerate(outputs):
        got = keras.backend.standardize_dtype(o.dtype)
        dtype = "float32" if i in kept else keras.DTypePolicy(policy).compute_dtype
        wide = i in kept and (policy, got) == ("float64", "float64")
        right = got == dtype or wide or "float" not in got
        assert right, f"{policy}: output {i} is {got}, expected {dtype}"


def check_fit(case: Case) -> None:
    """One compiled training step (jit "auto") gives a finite loss and moves the weights."""
    layer = built(case)
    model = as_model(case, layer)
    before = values(layer.trainable_weights)
    rng = np.random.default_rng(1)
    # a loss over each output, with targets away from it
    outputs = trained_outputs(expected(case)[0], model is layer)
    targets = keras.tree.map_structure(lambda o: rng.normal(size=o.shape), outputs)
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse", jit_compile="auto")
    rows = len(next(iter(case.inputs.values())))
    history = model.fit(dict(case.inputs), targets, batch_size=rows, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0]), "the training loss is not finite"
    after = values(layer.trainable_weights)
    assert all(np.isfinite(a).all() for a in after), "a weight is not finite after one step"
    moved = any((a != b).any() for a, b in zip(after, before))
    assert moved or not before, "one training step left every weight as it was"


def check_oracle(case: Case) -> None:
    """Outputs equal the NumPy oracle's, on the inputs, with an empty row, and at length 1."""
    if case.oracle is None:
        pytest.skip("no oracle")
    run = shared(case)
    for what, inputs in {"inputs": case.inputs, **emptied(case), "length 1": cut(case, 1)}.items():
        wide = {n: a.astype("float64") if a.dtype.kind == "f" else a for n, a in inputs.items()}
        close(run(inputs), case.oracle(run.layer, **wide), f"oracle, {what}")


def check_padding(case: Case) -> None:
    """Appended pads, whatever they hold, change no output and come out as zeros."""
    _, want = expected(case)
    got = values(shared(case)(padded(case)))
    cuts = [tuple(slice(0, n) for n in w.shape) for w in want]
    close([g[c] for g, c in zip(got, cuts)], want, "with pads appended")
    for i, (g, c) in enumerate(zip(got, cuts)):
        if case.zero_pads:
            g = g.copy()
            g[c] = 0
            assert not g.any(), f"output {i} is not zero at appended pads"


def check_batch(case: Case) -> None:
    """Row i of a batch equals the result for that row alone."""
    if not case.per_row:
        pytest.skip("rows are not independent by definition")
    _, want = expected(case)
    for i in range(len(next(iter(case.inputs.values())))):
        alone = shared(case)({n: a[i : i + 1] for n, a in case.inputs.items()})
        close(alone, [w[i : i + 1] for w in want], f"row {i} alone")


def check_gradients(case: Case) -> None:
    """Every trainable weight, and every float input, has a gradient that is not all zero."""
    layer = shared(case).layer
    of_weights, of_inputs = shared(case).gradients(case.inputs)
    floats = [n for n, a in case.inputs.items() if a.dtype.kind == "f"]
    paths = [v.path for v in layer.trainable_variables]
    for path, gradient in zip([*paths, *floats], [*of_weights, *of_inputs]):
        if path in case.unused or (path in paths and any(part in path for part in case.unused)):
            continue
        assert gradient is not None, f"{path} has no gradient"
        assert np.isfinite(gradient).all(), f"the gradient of {path} is not finite"
        assert gradient.any(), f"the gradient of {path} is zero everywhere"


def check_short(case: Case) -> None:
    """Empty sentences and one-token sentences give finite outputs and finite gradients."""
    run = shared(case)
    floats = [n for n, a in case.inputs.items() if a.dtype.kind == "f"]
    for what, inputs in {**emptied(case), "length 1": cut(case, 1)}.items():
        for zeros in (False, True) if floats else (False,):
            if zeros:  # what a masked layer below would hand on
                inputs = {n: np.array(a) for n, a in inputs.items()}
                for n in floats:
                    inputs[n][0] = 0
            for i, o in enumerate(values(run(inputs))):
                assert np.isfinite(o).all(), f"{what}: output {i} is not finite"
            for group in run.gradients(inputs):
                finite = all(g is None or np.isfinite(g).all() for g in group)
                assert finite, f"{what}: a gradient is not finite"


def check_save(case: Case) -> None:
    """`.keras` round trip without `custom_objects`: same class, config and outputs."""
    model = as_model(case, shared(case).layer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        again = keras.saving.load_model(path)
    assert type(again) is type(model)
    assert plain(again.get_config()) == plain(model.get_config()), "the config changed"
    want = trained_outputs(expected(case)[0], model is shared(case).layer)
    close(Runner(case, again)(case.inputs), values(want), "loaded", 1e-6)


def differ(case: Case, one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether two settings give other weights, shapes, losses or outputs, in training or outside."""
    for kwargs in ({}, {"training": True}):
        results = []
        for setting in (one, two):
            keras.utils.set_random_seed(0)
            layer = built(case, **setting)
            layer._clear_losses()
            outputs = values(case.call(layer, case.inputs, **kwargs))
            shapes = [v.shape for v in layer.weights], len(layer.trainable_weights)
            results.append((shapes, [*outputs, *values(layer.losses)]))
        (weights_1, out_1), (weights_2, out_2) = results
        if weights_1 != weights_2 or [o.shape for o in out_1] != [o.shape for o in out_2]:
            return True
        if not all(np.allclose(a, b, atol=1e-7) for a, b in zip(out_1, out_2)):
            return True
        if "training" not in inspect.signature(layer.call).parameters:
            return False
    return False


def check_option(case: Case, option: str, one: Any, two: Any) -> None:
    """Two values of an option give other results."""
    assert differ(case, {option: one}, {option: two}), f"{option}={one!r} and {two!r} are the same"


def other_value(argument: str, used: Any) -> Any:
    """A value of an argument that must give other results than the one in use."""
    if argument.endswith("regularizer"):
        return keras.regularizers.L2(0.1)
    if argument.endswith("activation"):
        return "relu" if used == "tanh" else "tanh"
    if "dropout" in argument:
        return 0.0 if used else 0.9
    return not used if isinstance(used, bool) else used + 1


ALL: list[Callable[[Case], None]] = [
    check_config,
    check_build,
    check_symbolic,
    check_dtypes,
    check_fit,
    check_oracle,
    check_padding,
    check_batch,
    check_gradients,
    check_short,
    check_save,
]
# These cannot differ between backends where the others and tests/test_cross_backend.py pass.
ONCE = (check_config, check_build, check_padding, check_batch, check_short, check_save)
CHECKS = [pytest.param(c, marks=pytest.mark.once) if c in ONCE else pytest.param(c) for c in ALL]


def run_checks(cases: Sequence[Case], *checks: Callable[[Case], None]) -> Callable[..., None]:
    """The test of a file that runs every check on every case; or, on one backend, the `checks` given.

    tests/test_cross_backend.py compares all cases between backends.
    """

    @pytest.mark.parametrize("check", checks or CHECKS, ids=name_of)
    @pytest.mark.parametrize("case", cases, ids=name_of)
    def test(case: Case, check: Callable[[Case], None]) -> None:
        check(case)

    return pytest.mark.once(test) if checks else test


def arguments_act(cases: Sequence[Case], *elsewhere: str, **others: Any) -> Callable[..., None]:
    """The test of a file that each argument of each class acts in at least one of its cases.

    Args:
        elsewhere: Arguments that have a test of their own.
        others: Another value than the one in use, if `other_value` has none; or a dict of several
            arguments.
    """
    by_class: dict[Any, list[Case]] = {}
    for case in cases:
        by_class.setdefault(case.cls, []).append(case)

    def acts(case: Case, argument: str) -> bool:
        default = signature_arguments(case.cls)[argument].default
        used = getattr(case.make, "keywords", {}).get(argument, default)
        other = others[argument] if argument in others else other_value(argument, used)
        if other == used:
            return False
        return differ(case, {}, other if isinstance(other, dict) else {argument: other})

    every = [(cls, a) for cls in by_class for a in signature_arguments(cls)]
    assert {*elsewhere, *others} <= {a for _, a in every}, "there is no such argument"

    @pytest.mark.once
    @pytest.mark.parametrize("cls, argument", [x for x in every if x[1] not in elsewhere])
    def test(cls: Any, argument: str) -> None:
        assert any(acts(case, argument) for case in by_class[cls]), f"{argument} changes nothing"

    return test
