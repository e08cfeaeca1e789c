"""What goes wrong around a training: two at once, a full disk, a misspelled or mistyped argument."""

import json
import os
import resource
import socket

import pytest

from keras_sentmatch.applications import list_models
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import load_recipe, train
from keras_sentmatch.training.lock import LOCK, locked
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_run, tiny_splits

pytestmark = pytest.mark.backend("torch")  # nothing in it depends on the backend


@pytest.fixture
def small_disk():
    """A function that bounds the size of every file; more is an error, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_two_trainers_on_one_folder(tmp_path):
    out = tmp_path / "a"
    first = {}

    def build(name, **config):
        with pytest.raises(InputError) as error:
            tiny_run(out)
        first["message"] = str(error.value)
        return build_tiny(name, **config)

    tiny_run(out, build=build, epochs=1)
    assert f"process {os.getpid()} on {socket.gethostname()}" in first["message"]
    assert "name another folder" in first["message"]
    assert not (out / LOCK).exists() and (out / "matcher.json").exists()


def test_a_lock_of_a_dead_process_is_taken_over_and_one_of_another_machine_is_not(tmp_path):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    noted = {"pid": child, "host": socket.gethostname(), "started": "2026-01-01 00:00:00"}
    (tmp_path / LOCK).write_text(json.dumps(noted))
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    (tmp_path / LOCK).write_text(json.dumps(noted | {"host": "elsewhere"}))
    with (
        pytest.raises(InputError, match="on elsewhere writes there, since 2026.*delete .*lock"),
        locked(tmp_path),
    ):
        pass
    (tmp_path / LOCK).write_text("{")  # of a process that was killed as it wrote
    with locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_the_run_goes_on(tmp_path, small_disk):
    whole = tiny_run(tmp_path / "whole")
    out = tmp_path / "a"

    def build(name, **config):
        small_disk(3000)  # the weights of the first epoch are larger
        return build_tiny(name, **config)

    with pytest.raises(InputError, match=rf"Cannot write into {out}: File too large.* --resume"):
        tiny_run(out, build=build)
    small_disk(resource.RLIM_INFINITY)
    again = tiny_run(out, options={"resume": True})
    assert again.history == whole.history
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.folder.iterdir()}


def test_a_disk_that_fills_up_later_keeps_the_epochs_before(tmp_path, small_disk):
    out, whole = tmp_path / "a", tiny_run(tmp_path / "whole")
    with pytest.raises(OSError, match="is full"):
        tiny_run(out, build=struck_build(OSError("this disk is full"), 2))
    again = tiny_run(out, options={"resume": True})
    assert again.history == whole.history


@pytest.mark.parametrize(
    "setting, message",
    [
        ("model.units=fifty", "model.units is 'fifty'; expected an integer"),
        ("model.units=1.5", "model.units is 1.5; expected an integer"),
        ("model.dropout='x'", "model.dropout is 'x'; expected a number"),
        ("model.trainable_embedding=1", "model.trainable_embedding is 1; expected true or false"),
        ("model.alignment=3", "model.alignment is 3; expected a string"),
        ("model.unitz=50", "no argument 'unitz'.*Did you mean units"),
    ],
)
def test_arguments_of_the_model_are_checked_before_anything_runs(setting, message, tmp_path):
    recipe = load_recipe("re2", overrides=[setting])
    with pytest.raises(InputError, match=message):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["RE2", "Re2", "drr-net", "DRrNet", "BiMPM", "LadRa-Net"])
def test_names_of_models_in_any_spelling(name):
    recipe = load_recipe(name)
    assert recipe.name in list_models()
    assert recipe.name.replace("_", "") == name.lower().replace("-", "")


def test_every_recipe_has_arguments_of_the_right_type():
    from keras_sentmatch.training.prepare import check_model

    for name in list_models():
        check_model(load_recipe(name, "sick"))
    with pytest.raises(InputError, match="no model 'nothing'"):
        load_recipe("nothing")
    check_model(tiny_recipe())  # a model of one's own is not looked at
