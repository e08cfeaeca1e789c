"""A saved model that asks for huge numbers is refused at once, whichever model and argument."""

import json
import time
import zipfile

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from tests.toys import matchers

pytestmark = pytest.mark.once
SECONDS = 5
HUGE = [10**n for n in range(3, 10)]
BLOCKS = {  # with feature attention its numbers are tried too
    name: {"feature_attention": "sfa", "feature_attention_config": {"branches": 2, "heads": 1}}
    for name in ("bimpm", "cafe", "diin", "drcn", "esim", "re2")
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """By name a run folder of the model, and the files in its model.keras; made when asked for."""
    found = {}

    def get(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            matchers.make.__wrapped__(name, **BLOCKS.get(name, {})).save(folder)
            with zipfile.ZipFile(folder / "model.keras") as archive:
                found[name] = folder, {n: archive.read(n) for n in archive.namelist()}
        return found[name]

    return get


def integers(config, place=()):
    """The places of all integers in a config."""
    items = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in items:
        if type(value) is int:
            yield (*place, key)
        elif isinstance(value, dict | list):
            yield from integers(value, (*place, key))


def try_to_load(saved, name, place, number):
    """Loads the model with another number; the seconds that took of the processor, and the error."""
    folder, files = saved(name)
    config = json.loads(files["config.json"])
    inner = config
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = number
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        for n, content in {**files, "config.json": json.dumps(config).encode()}.items():
            archive.writestr(n, content)
    start, error = time.process_time(), ""
    try:
        Matcher.load(folder)
    except InputError as refused:
        error = str(refused)
    return time.process_time() - start, error


@pytest.mark.parametrize(
    "name, argument, number",
    [
        ("drcn", "depth", 10**6),
        ("re2", "blocks", 10**9),
        ("drcn", "units", 10**7),
        ("diin", "blocks", 10**9),
        ("drr_net", "steps", 10**9),
        ("din", "hidden_layers", 10**4),
    ],
)
def test_a_huge_number_is_refused(saved, name, argument, number):
    seconds, error = try_to_load(saved, name, ("config", argument), number)
    assert f"{argument} is {number:,}. Expected at most" in error
    assert seconds < SECONDS and "\n" not in error


@pytest.mark.slow
@pytest.mark.parametrize("name", matchers.SIZES)
def test_every_integer_of_every_model(saved, name):
    """It is refused in one line, or changes nothing that is loaded."""
    config = json.loads(saved(name)[1]["config.json"])
    too_slow = {}
    for place in integers(config["config"], ("config",)):
        for number in HUGE:
            seconds, error = try_to_load(saved, name, place, number)
            assert "\n" not in error
            if seconds >= SECONDS:
                too_slow[place, number] = seconds, error
    assert not too_slow
