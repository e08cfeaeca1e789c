"""Rows of a file, as `(where, row)`: tables, JSON lines, parallel files, the TrecQA pseudo-XML.

A row is a dict by column name, or a `BadRow` that says why there is none; a table yields its columns
first, at `HEADER`. Files are streamed, `.gz` ones too. Only a line feed ends a line, so that no
other separator inside a sentence breaks it.
"""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import (
    check_depth,
    compressed_room,
    expansion_error,
    limit,
    raise_limit_hint,
)

Row = dict[str, Any]
HEADER = ":header"
_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass
class BadRow:
    """A row that cannot be read: the reason to count it by, and the message to raise."""

    reason: str
    message: str


Rows = Iterator[tuple[str, Row | BadRow]]
RowSource = Callable[[Path], Rows]


def text_lines(path: Path) -> Iterator[tuple[int, str | BadRow]]:
    """Line numbers from 1 and the lines, without line ends; a byte order mark is dropped."""
    offset, most, zipped = 0, limit("LINE_BYTES"), path.suffix == ".gz"
    try:
        room = compressed_room(path) if zipped else None
        with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(most), b""), 1):
                if len(raw) == most and not raw.endswith(b"\n"):
                    raise InputError(
                        f"{path}:{number}: a line of more than {most:,} bytes; expected a pair a line. "
                        f"{raise_limit_hint('LINE_BYTES')}"
                    )
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                    yield number, line.removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError as error:
                    yield number, BadRow("not UTF-8", _not_utf8(raw, offset, error))
                offset += len(raw)
                if room is not None and offset > room:
                    raise expansion_error(path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file ({error}); fetch it again.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _not_utf8(raw: bytes, offset: int, error: UnicodeDecodeError) -> str:
    if offset == 0 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        wrong, code = "the file is UTF-16", "UTF-16"
    else:
        wrong = f"byte {offset + error.start} (0x{raw[error.start]:02x}) is not UTF-8"
        code = "LATIN1"
    return f"{wrong}; convert the file first, for instance: iconv -f {code} -t UTF-8 FILE > NEW"


def first_line(path: Path) -> str:
    """The first line that can be read, or an empty string."""
    for _, line in text_lines(path):
        return line if isinstance(line, str) else ""
    return ""


def table(
    header: Sequence[str] | None = None,
    *,
    separator: str | None = "\t",
    quoted: bool = False,
    ragged: bool = False,
) -> RowSource:
    """Tables of separated values.

    Args:
        header: Column names where the file has no header line.
        separator: `None`: a tab if the first line has one, else a comma.
        quoted: Fields may be quoted as in CSV; otherwise a quote is an ordinary character.
        ragged: Rows may be shorter or longer (SNLI's files leave out annotator columns).
    """

    def rows(path: Path) -> Rows:
        sep = separator or ("\t" if "\t" in first_line(path) else ",")
        names = list(header) if header else None
        if names:
            yield HEADER, dict.fromkeys(names, "")
        source = _quoted_fields(path, sep) if quoted else _plain_fields(path, sep)
        for number, fields in source:
            where = f":{number}"
            if isinstance(fields, BadRow):
                yield where, fields
            elif names is None:
                names = [name.strip() for name in fields]
                yield HEADER, dict.fromkeys(names, "")
            elif len(fields) != len(names) and not ragged:
                yield where, _wrong_width(fields, names, sep, quoted)
            else:
                yield where, dict(zip(names, fields))

    return rows


def _wrong_width(fields: list[str], names: list[str], sep: str, quoted: bool) -> BadRow:
    few, kind, hint = len(fields) < len(names), "tab" if sep == "\t" else "comma", ""
    if not quoted and any('"' in field for field in fields):
        hint = ', or read it with format="tsv-quoted" if quotes protect tabs and line breaks here'
    return BadRow(
        f"too {'few' if few else 'many'} fields",
        f"{len(fields)} {kind}-separated fields where {len(names)} were expected "
        f"({', '.join(names)}); correct the row{hint}",
    )


def _plain_fields(path: Path, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield number, line
        elif line.strip():
            yield number, line.split(sep)


def _quoted_fields(path: Path, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    bad: list[tuple[int, BadRow]] = []

    def good_lines() -> Iterator[str]:
        for number, line in text_lines(path):
            if isinstance(line, BadRow):
                bad.append((number, line))
                yield "\n"  # the reader counts lines; a blank one gives no row
            else:
                yield line + "\n"

    reader = csv.reader(good_lines(), delimiter=sep, strict=True)
    fields: list[str] | BadRow | None = []
    while fields is not None:
        start = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fields = BadRow(
                "broken quotes",
                f"the quotes of the record that starts here do not close properly ({error}); double "
                "a quote inside a quoted field",
            )
        yield from bad
        bad.clear()
        if fields:
            yield start, fields


def json_records(path: Path) -> Rows:
    """One JSON object a line, or one JSON list of objects.

    A record with `question` and `candidates` gives a row for each candidate: an object with
    `sentence` and `label`, or a string that is an answer if its index is among `answers`.
    """
    if first_line(path).lstrip().startswith("["):
        records, bad = _whole_json(path)
        yield from bad
        for i, record in enumerate(records or ()):
            yield from _candidates(f" item {i}", record)
        return
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield f":{number}", line
        elif line.strip():
            try:
                record = json.loads(line)
                if line.count("[") + line.count("{") > limit("JSON_DEPTH"):
                    check_depth(record, f"{path}:{number}")
            except (ValueError, RecursionError) as error:
                yield f":{number}", BadRow("not JSON", f"not a JSON object ({error})")
            else:
                yield from _candidates(f":{number}", record)


def _whole_json(path: Path) -> tuple[Any, list[tuple[str, Row | BadRow]]]:
    """The JSON value of a file; None and the bad line where one cannot be read."""
    lines = []
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            return None, [(f":{number}", line)]
        lines.append(line)
    try:
        value = json.loads("\n".join(lines))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON ({error.msg}).") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}).") from None
    check_depth(value, path)
    return value, []


def _candidates(where: str, record: Any) -> Rows:
    if not isinstance(record, dict):
        yield where, BadRow("not JSON", f"a JSON object was expected, not {str(record)[:40]!r}")
    elif not isinstance(record.get("candidates"), list):
        yield where, record
    else:
        question, answers = record.get("question"), record.get("answers", ())
        answers = answers if isinstance(answers, list) else ()
        for i, candidate in enumerate(record["candidates"]):
            found = candidate if isinstance(candidate, dict) else {"sentence": candidate}
            shared = {"question": question, "qid": question}
            yield where, {"label": int(i in answers), **found, **shared}


def parallel(second: str, label: str) -> RowSource:
    """One sentence a line in each of two files, labels in a third.

    `second` and `label` name them from the first file's name: `{}` stands for what follows its
    first dot.
    """

    def rows(path: Path) -> Rows:
        rest = path.name.split(".", 1)[1]
        files = [path, path.with_name(second.format(rest)), path.with_name(label.format(rest))]
        for file in files:
            if not file.is_file():
                raise InputError(f"{file}: no such file; it belongs to {path}.")
        columns = [list(text_lines(file)) for file in files]
        if len({len(column) for column in columns}) > 1:
            counts = ", ".join(f"{file.name} {len(c)}" for file, c in zip(files, columns))
            raise InputError(f"{path}: the parallel files must have equally many lines: {counts}.")
        for (number, a), (_, b), (_, c) in zip(*columns):
            broken = next((x for x in (a, b, c) if isinstance(x, BadRow)), None)
            yield f":{number}", broken or {"sentence1": a, "sentence2": b, "label": c}

    return rows


def masked(source: RowSource) -> RowSource:
    """The rows of `source` with `<num>` for each number, as the JSON files of TrecQA have it."""

    def mask(text: str) -> str:
        return " ".join("<num>" if _NUMBER.fullmatch(token) else token for token in text.split())

    def rows(path: Path) -> Rows:
        for where, row in source(path):
            if isinstance(row, dict):
                row |= {side: mask(row[side]) for side in ("sentence1", "sentence2")}
            yield where, row

    return rows


def trecqa_xml(path: Path) -> Rows:
    """`<QApairs id='…'>` with a `<question>`, `<positive>` and `<negative>` blocks.

    The first line of a block holds the tokens, tab-separated; what follows is left out. A question
    without candidates gives no row.
    """
    group = question = tag = None
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield f":{number}", line
        elif line.startswith("<QApairs"):
            group, question = line.split("'")[1] if line.count("'") > 1 else str(number), None
        elif line in ("<question>", "<positive>", "<negative>"):
            tag = line[1:-1]
        elif tag:
            sentence = line.replace("\t", " ")
            if tag == "question":
                question = sentence
            elif question is None:
                yield f":{number}", BadRow("no question", f"a <{tag}> came before the <question>")
            else:
                row = {"sentence1": question, "sentence2": sentence, "qid": group}
                yield f":{number}", {**row, "label": int(tag == "positive")}
            tag = None


def advglue(task: str, columns: tuple[str, str]) -> RowSource:
    """One task of an AdvGLUE file: a JSON object with a list of records for each task.

    Beside the sentences come `original_1` and `original_2`, what they were before the attack (empty
    where the file does not say), and `category`, the attack's name.
    """

    def rows(path: Path) -> Rows:
        tasks, bad = _whole_json(path)
        yield from bad
        if bad:
            return
        if not isinstance(tasks, dict) or not isinstance(tasks.get(task), list):
            raise InputError(f"{path}: expected a JSON object with a list named {task!r}.")
        for i, record in enumerate(tasks[task]):
            where = f" {task} item {i}"
            if not isinstance(record, dict):
                yield where, BadRow("not JSON", f"an object was expected, not {str(record)[:40]!r}")
                continue
            row = {name: record.get(name) for name in ("label", "idx")}
            row["category"] = record.get("method", "")
            attacked = any(record.get(f"original_{name}") for name in columns)
            for side, name in enumerate(columns, 1):
                row[f"sentence{side}"] = record.get(name)
                original = record.get(f"original_{name}") or record.get(name) or ""
                row[f"original_{side}"] = original if attacked else ""
            yield where, row

    return rows


def counterfactual(source: RowSource) -> RowSource:
    """Rows in fives, as the combined counterfactual files have them, with a `category` each.

    Of each five one is the original, which shares its first sentence with two others and its second
    with the other two: there the one sentence has been revised. Other rows have no category.
    """

    def rows(path: Path) -> Rows:
        block: list[tuple[str, Row | BadRow]] = []
        for where, row in source(path):
            if where == HEADER and isinstance(row, dict):
                yield where, {**row, "category": ""}
                continue
            block.append((where, row))
            if len(block) == 5:
                yield from _with_categories(block)
                block = []
        yield from _with_categories(block)

    return rows


def _with_categories(block: list[tuple[str, Row | BadRow]]) -> Rows:
    sides = [
        [row.get(side) if isinstance(row, dict) else None for _, row in block]
        for side in ("sentence1", "sentence2")
    ]
    pairs = list(zip(*sides))
    originals = [pair for pair in pairs if sides[0].count(pair[0]) == sides[1].count(pair[1]) == 3]
    names = {(True, True): "original", (True, False): "revised sentence 2"}
    names[False, True] = "revised sentence 1"
    for (where, row), (one, two) in zip(block, pairs):
        category = ""
        if len(originals) == 1:
            category = names.get((one == originals[0][0], two == originals[0][1]), "")
        yield where, {**row, "category": category} if isinstance(row, dict) else row
