"""Sentence pairs from TensorFlow Datasets, by name."""

from typing import Any

from keras_sentmatch.data.dataset import PairDataset, ReadReport
from keras_sentmatch.data.formats import LABEL, SCORE, SENTENCES
from keras_sentmatch.errors import InputError

# The first of these that a data set has becomes the part.
_SPLITS = {
    "train": ("train",),
    "validation": ("validation", "validation_matched", "dev"),
    "test": ("test", "test_matched"),
}


def load_tfds(name: str) -> dict[str, PairDataset]:
    """Loads a TensorFlow dataset of sentence pairs, such as `"glue/mrpc"`; it is downloaded once.

    Label names come from the dataset's info. Rows labeled -1 (no gold label) are left out and
    counted; a part in which every row is so is unlabeled.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise InputError(
            f"tfds:{name} needs tensorflow_datasets: pip install keras-sentmatch[datasets]."
        ) from None
    try:
        builder = tfds.builder(name)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"tfds:{name}: no such TensorFlow dataset ({reason}).") from None
    features = builder.info.features
    columns = [key for key in features if hasattr(features[key], "np_dtype")]
    sentences = next((pair for pair in SENTENCES if set(pair) <= set(columns)), None)
    if sentences is None:
        raise InputError(
            f"tfds:{name} is no data set of sentence pairs: its columns are {', '.join(columns)}."
        )
    label = next((column for column in LABEL + SCORE if column in columns), None)
    try:
        builder.download_and_prepare()
    except ImportError as error:
        raise InputError(f"tfds:{name} needs another package: pip install {error.name}.") from error
    except OSError as error:
        raise InputError(
            f"tfds:{name} could not be downloaded or written ({error}); check the network and "
            "TFDS_DATA_DIR, or point at local files."
        ) from error
    parts = {}
    for split, candidates in _SPLITS.items():
        found = next((part for part in candidates if part in builder.info.splits), None)
        if found is not None:
            rows = tfds.as_numpy(builder.as_dataset(split=found))
            kind = features[label] if label else None
            parts[split] = _pairs(rows, sentences, label, kind, f"tfds:{name}", split)
    return parts


def _pairs(
    rows: Any, sentences: tuple[str, str], label: str | None, kind: Any, name: str, split: str
) -> PairDataset:
    found = [
        (*(row[side].decode("utf-8") for side in sentences), row[label].item() if label else -1)
        for row in rows
    ]
    regression = label is not None and isinstance(found[0][2] if found else 0, float)
    labeled = [row for row in found if row[2] != -1]
    kept = found if regression or not labeled else labeled
    report = ReadReport(f"{name} {split}", rows=len(found), kept=len(kept))
    if len(kept) < len(found):
        report.skipped["no gold label"] = len(found) - len(kept)
    first, second, values = zip(*kept) if kept else ((), (), ())
    return PairDataset(
        first,
        second,
        None if all(value == -1 for value in values) else values,
        label_names=tuple(kind.names) if hasattr(kind, "names") else None,
        task="regression" if regression else "classification",
        name=name.removeprefix("tfds:"),
        split=split,
        report=report,
    )
