"""Reading the files of a run folder, with a clear error for each way in which one can be broken."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_sentmatch import __version__
from keras_sentmatch.data import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError

FORMAT = 2  # of matcher.json; 1 had no temperature
READABLE = (1, FORMAT)


def read_card(folder: Path) -> dict[str, Any]:
    """matcher.json, checked."""
    path = folder / "matcher.json"
    if not path.is_file():
        found = "no such folder" if not folder.is_dir() else "it holds no matcher.json"
        raise InputError(
            f"{folder} is not a run folder ({found}): give the folder that training wrote, such "
            "as runs/NAME."
        )
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({error}): copy the run folder again, or train anew."
        ) from error
    if not isinstance(card, dict) or card.get("format") not in READABLE:
        came = card.get("format") if isinstance(card, dict) else None
        writer = card.get("versions", {}).get("keras_sentmatch") if isinstance(card, dict) else None
        raise InputError(
            f"{path} has format "
            f"{came!r}{f' (written by keras_sentmatch {writer})' if writer else ''}, but "
            f"keras_sentmatch {__version__} reads formats 1 to {FORMAT}: install the version that "
            "wrote it, or train anew."
        )
    if card["format"] == 1:
        card["temperature"] = 1.0
    missing = [
        key
        for key in ("label_names", "task", "threshold", "temperature", "vocabulary_size", "info")
        if key not in card
    ]
    if missing:
        raise InputError(
            f"{path} lacks {', '.join(missing)}: copy the run folder again, or train anew."
        )
    return card


def members_of(folder: Path) -> list[Path]:
    """The run folders to load for `folder`: its seeds, if it is that of an ensemble, else itself."""
    if not (folder / "ensemble.json").is_file():
        return [folder]
    folders = sorted(path.parent for path in folder.glob("seed-*/matcher.json"))
    if not folders:
        raise InputError(f"{folder} has an ensemble.json, but no seed-* runs: copy it whole.")
    return folders


def keep_calibration(folder: Path, report: Mapping[str, Any]) -> None:
    """Writes what `calibrate` found: temperature and threshold to where `load` reads them, all of it
    into metrics.json. Of an ensemble everything goes into its ensemble.json."""
    found = {name: report[name] for name in ("temperature", "threshold")}
    ensemble, metrics = folder / "ensemble.json", folder / "metrics.json"
    if ensemble.is_file():
        write_json(ensemble, {**read_json(ensemble), **found, "calibration": report})
        return
    write_json(folder / "matcher.json", {**read_card(folder), "format": FORMAT, **found})
    write_json(metrics, {**read_json(metrics), "calibration": report})


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file; an empty one if there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): copy the run folder again.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object: copy the run folder again.")
    return found


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON file beside itself and moves it in, so that it is never half written."""
    temporary = path.with_name(f".{path.name}")
    text = json.dumps(value, indent=2, ensure_ascii=False)
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, path)


def load_encoder(folder: Path) -> PairEncoder | SubwordPairEncoder:
    if not folder.is_dir():
        raise InputError(
            f"{folder} is missing: copy the whole run folder (model.keras, encoder/, matcher.json)."
        )
    try:
        return PairEncoder.load(folder)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder} is damaged ({error}): copy the run folder again, or train anew."
        ) from error


def load_model(path: Path, card: Mapping[str, Any]) -> keras.Model:
    import keras_sentmatch.applications  # noqa: F401  (registers the models for safe loading)

    if not path.is_file():
        raise InputError(
            f"{path} is missing: copy the whole run folder (model.keras, encoder/, matcher.json)."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        broken = str(error)
    if broken:
        raise InputError(f"{path} is damaged ({broken}): copy the run folder again, or train anew.")
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} was written by {card.get('versions')} and does not load with keras_sentmatch "
            f"{__version__}, keras {keras.__version__} ({_first_line(error)}): use the versions "
            "that wrote it."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
