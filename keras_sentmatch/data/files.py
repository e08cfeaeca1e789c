"""Rows of a file, as `(where, row)`: tables, JSON lines, parallel files, TrecQA's pseudo-XML.

A row is a dict by column name, or a `BadRow` that says why it cannot be read. A table yields its
column names first, at `HEADER`. Files are streamed, `.gz` files too. Only a line feed ends a line,
so that no other separator inside a sentence breaks it. In a file without line feeds, a carriage
return does.
"""

import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError, argument, wording
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
_MARKS = {  # byte order marks; the longer before the shorter that it begins with
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HEAD = 1 << 16  # bytes that tell how a file is written


@dataclass
class TextFile:
    """A file of pairs, and how it is written.

    Attributes:
        encoding: By default what a byte order mark says, or UTF-8.
        delimiter: What separates the fields of a table; by default each format's own way.
        is_table: Whether it has been read as a table, so that the delimiter made a difference.
        done: How much of it has been read: bytes of text, or rows of a binary table.
        size: How much that is in all; 0 where it is not known.
    """

    path: Path
    encoding: str | None = None
    delimiter: str | None = None
    is_table: bool = False
    done: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            given = self.delimiter
            self.delimiter = "\t" if given in ("tab", "\\t") else given
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
                how = argument("delimiter", given)
                raise InputError(f"{how}: expected one character such as ';', or tab.")
        try:
            "".encode(self.encoding or "utf-8")
        except LookupError:
            raise InputError(
                f"{argument('encoding', self.encoding)}: there is no such encoding; usual are "
                "utf-8, utf-16, latin-1 and cp1252."
            ) from None

    def beside(self, name: str) -> "TextFile":
        """The file of another name in the same folder, written in the same way."""
        return replace(self, path=self.path.with_name(name))

    def lines(self) -> Iterator[tuple[int, str | BadRow]]:
        """Line numbers from 1 and the lines, without line ends; a byte order mark is dropped."""
        path, offset, most = self.path, 0, limit("LINE_BYTES")
        zipped = path.suffix == ".gz"
        try:
            room = compressed_room(path) if zipped else None
            with gzip.open(path, "rb") if zipped else self.open() as file:
                self.size = 0 if zipped else os.fstat(file.fileno()).st_size
                encoding, raw_lines = self._cut(file, most)
                for number, raw in enumerate(raw_lines, 1):
                    if len(raw) >= most and not raw.endswith((b"\n", b"\r")):
                        raise InputError(
                            f"{path}:{number}: a line of more than {most:,} bytes; expected a pair "
                            f"a line. {raise_limit_hint('LINE_BYTES')}"
                        )
                    try:
                        line = raw.decode(encoding).removesuffix("\n").removesuffix("\r")
                        yield number, line.removeprefix("\ufeff") if number == 1 else line
                    except UnicodeDecodeError as error:
                        yield number, BadRow(*_undecoded(raw, offset, error))
                    offset += len(raw)
                    self.done = offset
                    if room is not None and offset > room:
                        raise expansion_error(path)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path}: not a whole gzip file ({error}); fetch it again.") from None
        except UnicodeError as error:
            raise InputError(f"{path}: {error}; {_other_encoding()}.") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None

    def open(self) -> Any:
        return open(self.path, "rb", _HEAD)

    def _cut(self, file: Any, most: int) -> tuple[str, Iterator[bytes]]:
        """The lines in bytes, with their ends, and the encoding to read them by."""
        head = file.peek(_HEAD)
        mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
        encoding = self.encoding or _MARKS.get(mark, "utf-8")
        plain = b"a\n" in "a\n".encode(encoding)  # so that lines can be cut before decoding
        text = head.decode("latin-1" if plain else encoding, "ignore")
        end = "\r" if "\r" in text and "\n" not in text else "\n"
        if plain and end == "\n":
            return encoding, iter(lambda: file.readline(most), b"")
        # Latin-1 leaves all bytes as they are
        wrapped = io.TextIOWrapper(file, "latin-1" if plain else encoding, newline=end)
        code = "latin-1" if plain else "utf-8"
        lines = iter(lambda: wrapped.readline(most).encode(code, "surrogatepass"), b"")
        return (encoding if plain else "utf-8"), lines


class StandardInput(TextFile):
    """What comes through standard input: the lines can be read once, the first one again."""

    _first: list[tuple[int, str | BadRow]] | None = None

    def open(self) -> Any:
        return open(sys.stdin.fileno(), "rb", _HEAD, closefd=False)

    def lines(self) -> Iterator[tuple[int, str | BadRow]]:
        if self._first is None:
            self._rest = super().lines()
            self._first = list(islice(self._rest, 1))
        yield from self._first
        yield from self._rest


RowSource = Callable[[TextFile], Rows]


def _undecoded(raw: bytes, offset: int, error: UnicodeDecodeError) -> tuple[str, str]:
    name = "UTF-8" if error.encoding == "utf-8" else error.encoding
    wrong = f"byte {offset + error.start} (0x{raw[error.start]:02x}) is not {name}"
    return f"not {name}", f"{wrong}; {_other_encoding()}"


def _other_encoding() -> str:
    how = wording('encoding="latin-1", "cp1252"', "--encoding latin-1, cp1252")
    return f"if the file is in another encoding, name it ({how}, …)"


def first_line(file: TextFile) -> str:
    """The first line that can be read, or an empty string."""
    for _, line in file.lines():
        return line if isinstance(line, str) else ""
    return ""


def table(
    header: Sequence[str] | None = None,
    *,
    separator: str | None = "\t",
    quoted: bool | None = False,
    ragged: bool = False,
) -> RowSource:
    """Tables of separated values.

    Args:
        header: Column names where the file has no header line.
        separator: `None`: what the first line has, of tab, comma and semicolon.
        quoted: Fields may be quoted as in CSV; otherwise a quote is an ordinary character. `None`:
            unless the separator is a tab.
        ragged: Rows may be shorter or longer (SNLI's files leave out annotator columns).
    """

    def rows(file: TextFile) -> Rows:
        file.is_table = True
        sep = file.delimiter or separator or recognized_separator(first_line(file))
        quotes = sep != "\t" if quoted is None else quoted
        names = list(header) if header else None
        if names:
            yield HEADER, dict.fromkeys(names, "")
        source = _quoted_fields(file, sep) if quotes else _plain_fields(file, sep)
        for number, fields in source:
            where = f":{number}"
            if isinstance(fields, BadRow):
                yield where, fields
            elif names is None:
                names = [name.strip() for name in fields]
                yield HEADER, dict.fromkeys(names, "")
            elif len(fields) != len(names) and not ragged:
                yield where, _wrong_width(fields, names, sep, quotes)
            else:
                yield where, dict(zip(names, fields))

    return rows


def recognized_separator(line: str) -> str:
    """What separates the fields of a table with this first line."""
    if "\t" in line:
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","


def _wrong_width(fields: list[str], names: list[str], sep: str, quoted: bool) -> BadRow:
    few, hint = len(fields) < len(names), ""
    kind = {"\t": "tab", ",": "comma", ";": "semicolon"}.get(sep, repr(sep))
    if not quoted and any('"' in field for field in fields):
        how = wording('format="tsv-quoted"', "--format tsv-quoted")
        hint = f", or read it with {how} if quotes protect tabs and line breaks here"
    return BadRow(
        f"too {'few' if few else 'many'} fields",
        f"{len(fields)} {kind}-separated fields where {len(names)} were expected "
        f"({', '.join(names)}); correct the row{hint}",
    )


def _plain_fields(file: TextFile, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    for number, line in file.lines():
        if isinstance(line, BadRow):
            yield number, line
        elif line.strip():
            yield number, line.split(sep)


def _quoted_fields(file: TextFile, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    bad: list[tuple[int, BadRow]] = []

    def good_lines() -> Iterator[str]:
        for number, line in file.lines():
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


def json_records(file: TextFile) -> Rows:
    """One JSON object a line, or one JSON list of objects.

    A record with `question` and `candidates` gives a row for each candidate: an object with
    `sentence` and `label`, or a string that is an answer if its index is among `answers`.
    """
    if first_line(file).lstrip().startswith("["):
        records, bad = _whole_json(file)
        yield from bad
        for i, record in enumerate(records or ()):
            yield from _candidates(f" item {i}", record)
        return
    for number, line in file.lines():
        if isinstance(line, BadRow):
            yield f":{number}", line
        elif line.strip():
            try:
                record = json.loads(line)
                if line.count("[") + line.count("{") > limit("JSON_DEPTH"):
                    check_depth(record, f"{file.path}:{number}")
            except (ValueError, RecursionError) as error:
                yield f":{number}", BadRow("not JSON", f"not a JSON object ({error})")
            else:
                yield from _candidates(f":{number}", record)


def _whole_json(file: TextFile) -> tuple[Any, list[tuple[str, Row | BadRow]]]:
    """The JSON value of a file; None and the bad line where one cannot be read."""
    path, lines = file.path, []
    for number, line in file.lines():
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

    def rows(file: TextFile) -> Rows:
        path = file.path
        rest = path.name.split(".", 1)[1]
        files = [file, *(file.beside(name.format(rest)) for name in (second, label))]
        for each in files:
            if not each.path.is_file():
                raise InputError(f"{each.path}: no such file; it belongs to {path}.")
        columns = [list(each.lines()) for each in files]
        if len({len(column) for column in columns}) > 1:
            counts = ", ".join(f"{each.path.name} {len(c)}" for each, c in zip(files, columns))
            raise InputError(f"{path}: the parallel files must have equally many lines: {counts}.")
        for (number, a), (_, b), (_, c) in zip(*columns):
            broken = next((x for x in (a, b, c) if isinstance(x, BadRow)), None)
            yield f":{number}", broken or {"sentence1": a, "sentence2": b, "label": c}

    return rows


def masked(source: RowSource) -> RowSource:
    """The rows of `source` with `<num>` for each number, as the JSON files of TrecQA have it."""

    def mask(text: str) -> str:
        return " ".join("<num>" if _NUMBER.fullmatch(token) else token for token in text.split())

    def rows(file: TextFile) -> Rows:
        for where, row in source(file):
            if isinstance(row, dict):
                row |= {side: mask(row[side]) for side in ("sentence1", "sentence2")}
            yield where, row

    return rows


def trecqa_xml(file: TextFile) -> Rows:
    """`<QApairs id='…'>` with a `<question>`, `<positive>` and `<negative>` blocks.

    The first line of a block holds the tokens, tab-separated; what follows is left out. A question
    without candidates gives no row.
    """
    group = question = tag = None
    for number, line in file.lines():
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

    def rows(file: TextFile) -> Rows:
        tasks, bad = _whole_json(file)
        yield from bad
        if bad:
            return
        if not isinstance(tasks, dict) or not isinstance(tasks.get(task), list):
            raise InputError(f"{file.path}: expected a JSON object with a list named {task!r}.")
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

    def rows(file: TextFile) -> Rows:
        block: list[tuple[str, Row | BadRow]] = []
        for where, row in source(file):
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
