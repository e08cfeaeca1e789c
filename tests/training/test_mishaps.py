"""What goes wrong around a training: two at once, a full disk, a misspelled or mistyped argument."""

import os
import resource
import signal

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.resume import LOCK, locked
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
    said = []

    def build(name, **config):
        with pytest.raises(InputError) as error:
            tiny_run(out)
        said.append(str(error.value))
        return build_tiny(name, **config)

    tiny_run(out, build=build, epochs=1)
    assert "is in use by another process. Wait for it, or name another folder" in said[0]
    assert not (out / LOCK).exists() and (out / "matcher.json").exists()


def test_the_lock_of_a_killed_process_does_not_hold(tmp_path):
    child = os.fork()
    if not child:
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sentmatch.training.resume.fcntl", None)
    with locked(tmp_path / "a"):
        assert list((tmp_path / "a").iterdir()) == []
    assert not (tmp_path / "a").exists()


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
