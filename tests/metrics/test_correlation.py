import warnings

import numpy as np
import pytest
from scipy import stats

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import pearson, spearman

pytestmark = pytest.mark.once


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_equals_scipy(scale):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    scores = y + rng.normal(size=60)
    assert pearson(y, scores * scale) == pytest.approx(stats.pearsonr(y, scores)[0])
    assert spearman(y, scores * scale) == pytest.approx(stats.spearmanr(y, scores)[0])


def test_ties_share_their_average_rank():
    y, scores = [1, 2, 2, 3, 3, 3, 4], [0, 0, 1, 1, 5, 2, 2]
    assert spearman(y, scores) == pytest.approx(stats.spearmanr(y, scores)[0])


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_constant_scores_give_zero_without_warning(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0.0
        assert metric([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0.0


def test_nan_is_refused():
    with pytest.raises(InputError, match="NaN or infinite"):
        pearson([1.0, 2.0], [1.0, float("nan")])
