"""What goes wrong around a training: two at once, a full disk, a misspelled or mistyped argument."""

import json
import os
import resource
import socket

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.lock import LOCK, locked
from tests.toys.training import build_tiny, tiny_run

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
        pytest.raises(
            InputError, match="on elsewhere has been writing there since 2026.*delete .*lock"
        ),
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
