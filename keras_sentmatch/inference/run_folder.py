"""Reading the files of a run folder, with one clear error for each way in which they can be broken."""

import json
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.encoders.subwords import Encoder, load_encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import (
    COPY,
    check_config,
    check_sizes,
    check_tree,
    check_types,
    first_line,
    inside,
    no_larger_than,
    parse_json,
    read_bytes,
    read_object,
    replace_file,
    weight_sizes,
)
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    import keras

FORMAT = 2  # of matcher.json
SIMILARITY = "similarity"  # names the built-in matcher if no folder has this name
STATIC = "static"  # names similarity without a model if no folder has this name
AGAIN = "Copy the run folder again, or train again"
CALIBRATION = ("temperature", "threshold", "abstain_below")
_MOST_MEMBERS = 1000  # runs of an ensemble
_MEMBERS = ("metadata.json", "config.json", "model.weights.h5")  # of model.keras
_KINDS: dict[str, Any] = {  # types of the values in matcher.json
    "label_names": ([str], None),
    "task": str,
    "threshold": (float, None),
    "temperature": float,
    "vocabulary_size": int,
    "info": dict,
}


def is_packaged(folder: Path, name: str = SIMILARITY) -> bool:
    """Whether this names the built-in matcher (or `STATIC`), not a folder."""
    return folder == Path(name) and not folder.exists()


def read_card(folder: Path) -> dict[str, Any]:
    """Read and check matcher.json, in a folder that holds only files and folders."""
    path = folder / "matcher.json"
    if not path.is_file():
        found = "no such folder" if not folder.is_dir() else "it holds no matcher.json"
        fix = "Give the folder that training wrote, such as runs/NAME."
        if folder.is_file():
            found = "it is a file"
            if (folder.parent / path.name).is_file():
                fix = f"Give its folder, {folder.parent}."
        raise InputError(f"{folder} is not a run folder ({found}). {fix}")
    check_tree(folder)
    card = read_object(path, AGAIN)
    if type(card.get("format")) is not int or card["format"] != FORMAT:
        raise InputError(
            f"{path} has format {card.get('format')!r:.40} (written by {card.get('versions')!s:.200}), "
            f"but keras_sentmatch {__version__} reads format {FORMAT}. Install the version that wrote "
            "it, or train again."
        )
    if missing := [key for key in _KINDS if key not in card]:
        raise InputError(f"{path} lacks {', '.join(missing)}. {AGAIN}.")
    check_types(card, {**_KINDS, "abstain_below": [float]}, path)
    return card


def members_of(folder: Path) -> list[Path]:
    """Return the run folders that the ensemble.json of `folder` names, or `folder` without one."""
    path = folder / "ensemble.json"
    if not path.is_file():
        return [folder]
    check_tree(folder)
    noted = read_object(path)
    check_types(noted, {"seeds": [int]}, path)
    seeds = noted.get("seeds", [])
    if len(set(seeds)) < len(seeds) or len(seeds) > _MOST_MEMBERS:
        raise InputError(
            f"{path} is damaged: it names {len(seeds):,} runs, {len(set(seeds)):,} different ones. "
            f"Expected at most {_MOST_MEMBERS:,} different runs. {COPY}."
        )
    folders = [folder / f"seed-{seed}"[:99] for seed in seeds]  # no system accepts longer names
    missing = [member.name for member in folders if not (member / "matcher.json").is_file()]
    if missing or not folders:
        found = f"missing runs ({', '.join(missing)})" if missing else "no runs"
        raise InputError(f"{path} names {found:.200}. {COPY}.")
    return folders


def keep_calibration(folder: Path, report: Mapping[str, Any]) -> None:
    """Write a report of `calibrate` into metrics.json, and what `load` needs into matcher.json.

    The ensemble.json of an ensemble holds both.
    """
    found = calibration_of(report)
    ensemble, metrics = folder / "ensemble.json", folder / "metrics.json"
    check_tree(folder)
    if ensemble.is_file():
        write_json(ensemble, {**_without(read_json(ensemble)), **found, "calibration": report})
    else:
        write_json(folder / "matcher.json", {**_without(read_card(folder)), **found})
        write_json(metrics, {**read_json(metrics), "calibration": report})


def calibrated_on(folder: Path) -> tuple[Any, Any]:
    """Return the names of the data and the split that a run was calibrated on, or Nones."""
    ensemble = folder / "ensemble.json"
    noted = read_json(ensemble if ensemble.is_file() else folder / "metrics.json")
    report = noted.get("calibration")
    return (report.get("data"), report.get("split")) if isinstance(report, dict) else (None, None)


def keep_in_card(folder: Path, section: str) -> None:
    """Put a section, which begins with its heading, at the end of README.md; replace an older one."""
    path, (heading, _, _) = folder / "README.md", section.partition("\n")
    if path.is_file():
        text = read_bytes(inside(folder, path.name), "JSON_BYTES").decode("utf-8", "replace")
        before, _, _ = text.partition(f"\n{heading}\n")
        replace_file(path, f"{before.rstrip()}\n\n{section}")


def calibration_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the calibration to save; `abstain_below` only for a matcher that abstains."""
    found = {name: values[name] for name in CALIBRATION}
    if found["abstain_below"] is None:
        del found["abstain_below"]
    return found


def _without(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file holds besides an earlier calibration."""
    return {name: value for name, value in values.items() if name not in CALIBRATION}


def read_json(path: Path) -> dict[str, Any]:
    """Read the object of a JSON file; empty if the file is missing."""
    return read_object(inside(path.parent, path.name)) if path.exists() else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file at once."""
    replace_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def check_place(folder: Path) -> None:
    """Refuse to write a run into a folder whose `encoder` is something else, which would be lost."""
    old = folder / "encoder"
    if (old.exists() or old.is_symlink()) and not (old / "encoder.json").is_file():
        raise InputError(f"{old} is not an encoder's, and would be replaced. Name another folder.")


def load_run_encoder(folder: Path) -> Encoder:
    """Load the encoder in `encoder/`."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} is missing. Copy the whole run folder (model.keras, encoder/, matcher.json)."
        )
    return load_encoder(folder)


def check_keras(what: str) -> None:
    """Refuse what needs Keras if it is not installed."""
    if find_spec("keras") is None:
        raise InputError(
            f"{what} needs Keras, which is not installed. Run pip install "
            '"keras-sentmatch[torch]", or [tensorflow] or [jax].'
        )


def load_model(path: Path, card: Mapping[str, Any]) -> "keras.Model":
    """Load the model of a run folder in Keras's safe mode, after checking what the file holds."""
    check_keras(str(path))
    import keras

    import keras_sentmatch.applications  # noqa: F401  (registers the models for safe loading)

    if not path.is_file():
        raise InputError(
            f"{path} is missing. Copy the whole run folder (model.keras, encoder/, matcher.json)."
        )
    sizes = _inspect_archive(path)
    try:
        with no_larger_than(*sizes):
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Keras raises whatever the config led to
        raise InputError(
            f"{path} does not load with keras_sentmatch {__version__} and keras {keras.__version__} "
            f"({first_line(error)}). It was written by {card.get('versions')!s:.200}. Use these "
            "versions."
        ) from error
    outputs = getattr(model, "output_shape", None)
    if not (
        isinstance(model, keras.Model)
        and isinstance(model.input, dict)
        and isinstance(outputs, tuple)
        and len(outputs) == 2
        and isinstance(outputs[1], int)
    ):
        raise InputError(
            f"{path} holds a {type(model).__name__} with outputs {outputs!r:.60}. Expected a model "
            "with inputs by name and outputs [batch, outputs]."
        )
    return model


def check_fit(model: Any, encoder: Encoder, folder: Path) -> None:
    """Refuse an encoder that makes arrays or ids for which the model has no room."""
    if isinstance(encoder, PairEncoder):
        made = {"vocabulary_size": encoder.vocabulary_size}
        if "char_ids_1" in model.input:
            made["char_vocabulary_size"] = len(encoder.characters)
        if getattr(model, "pos_tags", 0):
            made["pos_tags"] = len(encoder.tags)
    else:
        made = {"max_length": encoder.max_length}
    for name, needed in made.items():
        there = getattr(model, name, needed)
        if type(there) is int and there < needed:
            raise InputError(
                f"{folder} mixes files of two runs: the encoder has {name} {needed:,}, the model "
                f"{there:,}. {COPY}."
            )
    for name, tensor in model.input.items():
        wanted: tuple[int | None, ...] = (None, None)
        if name.startswith("char_ids"):
            wanted += (getattr(encoder, "max_word_length", None),)
        if tuple(tensor.shape) != wanted:
            raise InputError(
                f"{folder} mixes files of two runs: the encoder makes {name} of shape {wanted}, the "
                f"model takes {tuple(tensor.shape)}. {COPY}."
            )


def _inspect_archive(path: Path) -> tuple[int, int, int]:
    """Check what model.keras holds; return its numbers of arrays, of values and of objects."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.namelist()
            if sorted(found) != sorted(_MEMBERS):
                raise ValueError(f"it holds {', '.join(found) or 'nothing':.200}")
            if any(info.file_size > path.stat().st_size for info in archive.infolist()):
                raise ValueError("its members are compressed, which Keras never does")
            files = {name: archive.read(name) for name in _MEMBERS}  # checks their sums
    except Exception as error:  # zipfile raises whatever the bytes led to
        raise InputError(
            f"{path} is damaged ({first_line(error)}). Expected a model that Keras saved "
            f"({', '.join(_MEMBERS)}). {AGAIN}."
        ) from error
    config = parse_json(files["config.json"], f"config.json in {path}")
    check_config(config, path)
    arrays, values = weight_sizes(files["model.weights.h5"], f"model.weights.h5 in {path}")
    check_sizes(config, arrays, values, f"config.json in {path}")
    return arrays, values, files["config.json"].count(b'"class_name"')
