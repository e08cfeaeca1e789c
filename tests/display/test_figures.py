import pytest

from keras_sentmatch.display import figures as plots
from keras_sentmatch.display.figures import confusion_matrix, learning_curve, reliability_diagram
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.calibration import calibrate_predictions

pytestmark = pytest.mark.once

PNG = b"\x89PNG\r\n"
HISTORY = "epoch,accuracy,learning_rate,loss,val_accuracy,val_loss,val_map\n"


@pytest.fixture
def history(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text(HISTORY + "0,0.5,0.1,1.0,0.4,1.1,0.3\n1,0.6,0.1,0.9,0.5,1.0,NA\n")
    return file


def test_plots_are_written(history, tmp_path):
    curve = learning_curve(history, tmp_path / "curve.png")
    matrix = confusion_matrix([0, 1, 1], [0, 1, 0], ("no", "yes"), tmp_path / "matrix.png")
    assert curve.read_bytes().startswith(PNG) and matrix.read_bytes().startswith(PNG)


def test_the_matrix_counts_true_labels_in_rows(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plots, "save_png", lambda figure, png: figures.append(figure))
    confusion_matrix([0, 0, 0, 1], [1, 1, 0, 1], ("no", "yes"), tmp_path / "matrix.png")
    texts = {text.get_position(): text.get_text() for text in figures[0].axes[0].texts}
    assert texts == {(0, 0): "1", (1, 0): "2", (0, 1): "0", (1, 1): "1"}


def test_the_reliability_diagram_shows_both(tmp_path, monkeypatch):
    report = calibrate_predictions([0, 0, 0, 1], [[0.9, 0.1]] * 4)
    assert reliability_diagram(report, tmp_path / "r.png").read_bytes().startswith(PNG)
    figures = []
    monkeypatch.setattr(plots, "save_png", lambda figure, png: figures.append(figure))
    reliability_diagram(report, tmp_path / "r.png")
    before, after, *counts = figures[0].axes
    assert [axis.get_title() for axis in (before, after)] == [
        "before: ECE 0.150",
        "after: ECE 0.000",
    ]
    assert [bar.get_height() for bar in before.patches][13] == 0.75
    assert [bar.get_height() for bar in counts[0].patches][13] == 4


def test_bad_input(tmp_path):
    png = tmp_path / "x.png"
    with pytest.raises(InputError, match="Cannot read"):
        learning_curve(tmp_path / "none.csv", png)
    (tmp_path / "empty.csv").write_text(HISTORY)
    with pytest.raises(InputError, match="holds no epochs"):
        learning_curve(tmp_path / "empty.csv", png)
    with pytest.raises(InputError, match="run from 0 to 2, but there are 2 names"):
        confusion_matrix([0, 1], [0, 2], ("no", "yes"), png)
    with pytest.raises(InputError, match="equally long"):
        confusion_matrix([0, 1], [0], ("no", "yes"), png)
