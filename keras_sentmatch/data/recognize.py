"""Which data set a file or folder is."""

import difflib
from pathlib import Path

from keras_sentmatch.data.formats import FAMILIES, FORMATS, OWN, Format, Layout, file_names
from keras_sentmatch.data.rows import TextFile, first_line
from keras_sentmatch.errors import InputError, argument, wording

SPLITS = ("train", "validation", "test")
_SUFFIXES = {"tsv": "tsv", "txt": "tsv", "csv": "csv", "json": "jsonl", "jsonl": "jsonl"}
_SUFFIXES["ndjson"] = "jsonl"
_SUFFIXES |= dict.fromkeys(("parquet", "arrow", "feather", "xlsx"), "frame")
_OFFICIAL = [known for known in FORMATS.values() if known.name not in OWN]


def existing_path(path: str | Path) -> Path:
    """The path of a file or folder that is there; `InputError` with a hint otherwise."""
    path = Path(path).expanduser()
    if path.exists():
        if not path.is_file() and not path.is_dir():
            raise InputError(f"{path} is a device or a pipe; expected a file or a folder of pairs.")
        return path
    prefix, _, rest = str(path).partition(":")
    if rest and len(prefix) > 1 and not Path(prefix).exists() and "/" not in prefix:
        known = ", ".join(("tfds", *FAMILIES, *FORMATS))
        raise InputError(f"{path}: no such file, and {prefix!r} is no format; there are {known}.")
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names)
    hint = f"did you mean {', '.join(near)}?" if near else "check the path."
    raise InputError(f"{path}: no such file or folder; {hint}")


def _formats(name: str | None) -> tuple[list[Format], bool]:
    """The formats to try, and whether folder names count as hints."""
    if name is None:
        return _OFFICIAL, True
    if name not in (*FAMILIES, *FORMATS):
        near = difflib.get_close_matches(name, FORMATS, n=1)
        raise InputError(
            f"{argument('format', name)} is unknown"
            f"{f'; did you mean {near[0]!r}?' if near else ''}; there are {', '.join((*FAMILIES, *FORMATS))}."
        )
    return [FORMATS[member] for member in FAMILIES.get(name, (name,))], False


def recognize_file(path: Path, name: str | None) -> tuple[Format, Layout, str | None]:
    """The format and layout of a file, of the format `name` if given, and its split if known."""
    formats, hints = _formats(name)
    for known in formats:
        for layout in known.layouts:
            if split := layout.split_of(path, hints):
                return known, layout, split
    if name is not None:
        if len(formats) == 1 and (name in OWN or len(formats[0].layouts) == 1):
            return formats[0], formats[0].layouts[0], None
        files = "; ".join(file_names(known) for known in formats)
        raise InputError(f"{path}: not a file of the format {name!r}, which has {files}.")
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if suffix not in _SUFFIXES and "\t" not in first_line(TextFile(path)):
        raise InputError(
            f"{path}: not a known kind of file; expected TSV, CSV, JSONL, Parquet, Arrow, Feather or Excel, or "
            f"{wording('a format=…', '--format NAME')}."
        )
    own = FORMATS[_SUFFIXES.get(suffix, "tsv")]
    return own, own.layouts[0], None


def recognize_folder(
    folder: Path, name: str | None
) -> tuple[Format, dict[str, tuple[Path, Layout]]]:
    """The format of a folder, and the file and layout of each split in it."""
    formats, hints = _formats(name)
    for known in formats if name else FORMATS.values():
        found = {}
        for split in SPLITS:
            for layout in known.layouts:
                if file := layout.find(folder, split, hints):
                    found[split] = (file, layout)
                    break
        if found:
            return known, found
    if name is not None:
        files = "; ".join(file_names(known) for known in formats)
        raise InputError(f"{folder}: no file of the format {name!r} is here; it has {files}.")
    names = sorted(path.name for path in folder.iterdir())
    inside = ", ".join(names[:8]) + ", …" * (len(names) > 8) or "nothing"
    raise InputError(
        f"{folder}: no known data set is in this folder, it holds {inside}. Expected train, dev and "
        "test as .tsv, .csv or .jsonl, or the files of "
        f"{', '.join(known.name for known in _OFFICIAL)}; or point at one file."
    )
