"""Rows of a file, as `(where, row)`: tables, JSON lines, parallel files, TrecQA's pseudo-XML.

A row is a dict by column name, or a `BadRow` that says why it cannot be read. A table yields its
column names first, at `HEADER`. Files are streamed, compressed ones too. Only a line feed ends a
line, so that no other separator inside a sentence breaks it. In a file without line feeds, a
carriage return does.
"""

import codecs
import csv
import gzip
import io
import json
import logging
import os
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from keras_sentmatch import safety
from keras_sentmatch.errors import InputError, argument, wording

Row = dict[str, Any]
HEADER = ":header"
_NUMBER = re.compile(r"\d[\d,.]*")
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of undecodable bytes
_MARKS = {  # byte order marks; a longer mark before the shorter one that it begins with
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HEAD = 1 << 16  # bytes from which encoding and line end are recognized
_SAMPLE = 50  # lines from which the separator is recognized
_MOST_BLANK = 100_000  # blank lines in a row
log = logging.getLogger(__name__)


@dataclass
class BadRow:
    """A row that cannot be read: the reason to count, and the message to raise."""

    reason: str
    message: str


Rows = Iterator[tuple[str, Row | BadRow]]


@dataclass
class TextFile:
    """A file of pairs, and how it is written."""

    path: Path
    encoding: str | None = None  # the byte order mark's, or UTF-8
    delimiter: str | None = None  # the format's own
    numbered: bool = False  # a table without header, whose columns are numbered from 0
    is_table: bool = False  # whether it has been read as a table, so that the delimiter was used
    done: int = 0  # bytes of the file, or rows of a binary table, that have been read
    size: int = 0  # total of `done`; 0 if it is unknown

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            given = self.delimiter
            self.delimiter = "\t" if given in ("tab", "\\t") else given
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
                how = argument("delimiter", given)
                raise InputError(f"{how} is not accepted. Give one character such as ';', or tab.")
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, UnicodeError):
            wrong = f"{argument('encoding', self.encoding)} does not exist"
            raise InputError(f"{wrong}. Common encodings are utf-8 and latin-1.") from None

    def open(self) -> Any:
        return open(self.path, "rb", _HEAD)

    def lines(self) -> Iterator[tuple[int, str | BadRow]]:
        """Yield line numbers from 1 and lines, without line ends and byte order mark."""
        path, most, blank = self.path, safety.limit("LINE_BYTES"), 0
        try:
            with self.open() as raw:
                self.size = os.fstat(raw.fileno()).st_size
                packed = raw.peek(2)[:2] == b"\x1f\x8b"
                text = self._decoded(gzip.GzipFile(fileobj=raw) if packed else raw)
                room = safety.compressed_room(path) if packed and path.is_file() else None
                for number, line in enumerate(iter(lambda: text.readline(most), ""), 1):
                    if len(line) >= most and line[-1] not in "\r\n":
                        wrong = f"{path}:{number}: the line has more than {most:,} characters"
                        raise InputError(f"{wrong}. {safety.raise_limit_hint('LINE_BYTES')}")
                    if room is not None and (room := room - len(line)) < 0:
                        raise safety.expansion_error(path)
                    line = line.removesuffix("\n").removesuffix("\r")
                    blank = 0 if line and not line.isspace() else blank + 1
                    if blank > _MOST_BLANK:
                        wrong = f"there are more than {_MOST_BLANK:,} blank lines in a row"
                        raise InputError(f"{path}:{number}: {wrong}. Remove them.")
                    if self.size and not number % 1024:
                        self.done = raw.tell()
                    yield number, line if line.isascii() else self._checked(line, number)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a whole gzip file ({error}). Copy it again.") from None
        except UnicodeError as error:
            raise InputError(f"{path}: {error}. {_other_encoding()}.") from None
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"{path} cannot be read ({why}). Check the file.") from None

    def sample(self) -> list[str]:
        """Return the first lines that can be read."""
        return [line for _, line in islice(self.lines(), _SAMPLE) if isinstance(line, str)]

    def first_line(self) -> str:
        """Return the first line if it can be read, or else an empty string."""
        first = next(self.lines(), (1, ""))[1]
        return first if isinstance(first, str) else ""

    def _decoded(self, file: Any) -> io.TextIOWrapper:
        head = file.peek(_HEAD)
        if head.startswith((b"PK\3\4", b"PAR1")):
            kinds = "is a zip archive, an Excel file or a Parquet file, not text"
            raise InputError(f"{self.path} {kinds}. Unpack it, or name it .xlsx or .parquet.")
        mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
        encoding = self.encoding or _MARKS.get(mark, "utf-8")
        if mark and not codecs.lookup(encoding).name.startswith(_MARKS[mark]):
            wrong = f"begins with the byte order mark of {_MARKS[mark]}, so it is not"
            how = f"Leave out {argument('encoding')}"
            raise InputError(f"{self.path} {wrong} {encoding.upper()}. {how}.")
        if not self.encoding and not mark and head[:1000].count(0) > len(head[:1000]) / 4:
            named = "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
            how = argument("encoding", named)
            raise InputError(f"{self.path} has zero bytes as in UTF-16. Name its encoding: {how}.")
        text = head.decode(encoding, "ignore")
        end = "\r" if "\r" in text and "\n" not in text else "\n"
        return io.TextIOWrapper(file, encoding, "surrogateescape", newline=end)

    def _checked(self, line: str, number: int) -> str | BadRow:
        bad = _BAD_BYTE.search(line)
        if not bad:
            return line.lstrip("\ufeff") if number == 1 else line
        name = (self.encoding or "UTF-8").upper()
        wrong = f"character {bad.start() + 1} is the byte 0x{ord(bad[0]) - 0xDC00:x}, which is not"
        return BadRow(f"not {name}", f"{wrong} {name}. {_other_encoding()}")


class StandardInput(TextFile):
    """Standard input, whose lines can be read once, and the sample again."""

    _sample: list[tuple[int, str | BadRow]] | None = None

    def open(self) -> Any:
        return open(sys.stdin.fileno(), "rb", _HEAD, closefd=False)

    def lines(self) -> Iterator[tuple[int, str | BadRow]]:
        if self._sample is None:
            self._rest = super().lines()
            self._sample = list(islice(self._rest, _SAMPLE))
        yield from self._sample
        yield from self._rest


RowSource = Callable[[TextFile], Rows]


def _other_encoding() -> str:
    how = wording('encoding="latin-1", "cp1252"', "--encoding latin-1, cp1252")
    return f"If the file has another encoding, name it ({how}, …)"


def unnamed_apart(names: Sequence[str]) -> list[str]:
    """Return the names with 0, 1, 2, … spaces for columns without a name, so that all are kept."""
    blank = count()
    return [name or " " * next(blank) for name in names]


def check_names(names: Sequence[str], place: Any) -> None:
    """Refuse two columns of the same name."""
    if twice := [name for name, count in Counter(names).items() if count > 1 and name]:
        wrong = f"{place} has two columns of the same name {twice[0]!r} ({', '.join(names)})"
        raise InputError(f"{wrong}. Rename one of them.")


def table(
    header: Sequence[str] | None = None,  # if the file has no header line
    *,
    separator: str | None = "\t",  # None: tab, comma or semicolon, as in the first records
    quoted: bool
    | None = False,  # whether fields may be quoted; None: unless the separator is a tab
    ragged: bool = False,  # whether rows may be shorter or longer (SNLI leaves out columns)
) -> RowSource:
    """Return a reader of tables of separated values."""

    def rows(file: TextFile) -> Rows:
        file.is_table = True
        sep = file.delimiter or separator or _recognized_separator(file, quoted)
        quotes = sep != "\t" if quoted is None else quoted
        watch = quoted is None and not quotes
        names = list(header) if header and not file.numbered else None
        if names:
            yield HEADER, dict.fromkeys(names, "")
        for number, fields in (_quoted_fields if quotes else _plain_fields)(file, sep):
            where = f":{number}"
            if isinstance(fields, BadRow):
                yield where, fields
                continue
            if names is None:
                names = unnamed_apart([name.strip() for name in fields])
                if file.numbered:
                    names = [str(column) for column in range(len(fields))]
                check_names(names, file.path)
                yield HEADER, dict.fromkeys(names, "")
                if not file.numbered:
                    continue
            if watch and (all(map(_is_quoted, fields)) or any(map(_looks_quoted, fields))):
                how = wording('format="tsv-quoted"', "--format tsv-quoted")
                cell = next(filter(_looks_quoted, fields), fields[0])
                said = f"{cell:.40} is quoted as in CSV, and is read as it stands"
                log.warning(f"{file.path}{where}: {said}. If quotes only protect it, pass {how}.")
                watch = False
            if len(fields) != len(names) and not ragged:
                yield where, _wrong_width(fields, names, sep, quotes)
            else:
                yield where, dict(zip(names, fields))

    return rows


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _looks_quoted(cell: str) -> bool:
    """Return whether a cell is quoted as in CSV, with doubled quotes inside."""
    inside = cell[1:-1]
    return '""' in inside and _is_quoted(cell) and '"' not in inside.replace('""', "")


def _recognized_separator(file: TextFile, quoted: bool | None) -> str:
    """Return the separator by which most of the first records have equally many fields."""
    lines, best = file.sample(), (0.0, 0, ",")
    for sep in ",;\t":
        quotes = sep != "\t" if quoted is None else quoted
        whole = (line + "\n" for line in lines)
        records = csv.reader(whole, delimiter=sep) if quotes else (x.split(sep) for x in lines if x)
        try:
            widths = [len(record) for record in records if record]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            agreed = widths.count(widths[0]) / len(widths)
            best = max(best, (agreed, widths[0], sep), key=lambda found: found[:2])
    return best[2]


def _wrong_width(fields: list[str], names: list[str], sep: str, quoted: bool) -> BadRow:
    few, hint = len(fields) < len(names), ""
    kind = {"\t": "tab", ",": "comma", ";": "semicolon"}.get(sep, repr(sep))
    if not quoted and any('"' in field for field in fields):
        how = wording('format="tsv-quoted"', "--format tsv-quoted")
        hint = f", or read the file with {how} if quotes protect tabs and line breaks"
    found = f"there are {len(fields)} {kind}-separated fields"
    wanted = f"{len(names)} were expected ({', '.join(names)})"
    reason = f"too {'few' if few else 'many'} fields"
    return BadRow(reason, f"{found}, but {wanted}. Correct the row{hint}")


def _plain_fields(file: TextFile, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    empty, started = list[tuple[int, list[str]]](), False
    for number, line in file.lines():
        if isinstance(line, str) and not line.strip():
            empty += [(number, line.split(sep))] if started and sep in line else []
            continue
        yield from empty  # rows of empty cells between other rows
        empty.clear()
        started = True
        yield number, line if isinstance(line, BadRow) else line.split(sep)
    if empty:
        log.warning(f"{file.path}: {len(empty):,} rows without text at the end are left out.")


def _quoted_fields(file: TextFile, sep: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    lines, again = file.lines(), deque[tuple[int, str | BadRow]]()
    record: list[tuple[int, str | BadRow]] = []  # the lines of the record that is read now

    def feed() -> Iterator[str]:
        while (found := again.popleft() if again else next(lines, None)) is not None:
            record.append(found)
            yield "\n" if isinstance(found[1], BadRow) else found[1] + "\n"

    def reader() -> Any:
        return csv.reader(feed(), delimiter=sep, strict=True)

    records = reader()
    fields: list[str] | None = []
    while fields is not None:
        record.clear()
        try:
            fields = next(records, None)
        except csv.Error as error:
            wrong = (
                "the record that starts here has quotes that do not close properly, or a field of"
            )
            wrong += f" more than {csv.field_size_limit():,} characters ({error})"
            yield (
                record[0][0],
                BadRow("broken quotes", f"{wrong}. Double a quote inside a quoted field"),
            )
            again.extendleft(reversed(record[1:]))  # an open quote does not cost the next records
            records = reader()
            continue
        broken = [(number, line) for number, line in record if isinstance(line, BadRow)]
        yield from broken
        if fields and not broken:
            yield record[0][0], fields


def json_records(file: TextFile) -> Rows:
    """Read one JSON object per line, or one JSON list of objects.

    A record with `question` and `candidates` gives one row per candidate, an object or a string.
    """
    if file.first_line().lstrip().startswith("["):
        yield from _json_list(file)
        return
    for number, line in file.lines():
        where = f":{number}"
        if isinstance(line, BadRow):
            yield where, line
        elif line.strip():
            try:
                record = json.loads(line, object_pairs_hook=_object)
                if line.count("[") + line.count("{") > safety.limit("JSON_DEPTH"):
                    safety.check_depth(record, f"{file.path}:{number}")
            except (ValueError, RecursionError) as error:
                wrong = f"this is not a JSON object ({error}). Correct it"
                yield where, BadRow("not JSON", wrong)
            else:
                yield from _candidates(where, record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


def _json_list(file: TextFile) -> Rows:
    lines = []
    for number, line in file.lines():
        if isinstance(line, BadRow):
            raise InputError(f"{file.path}:{number}: {line.message}.")
        lines.append(line)
    try:
        value = json.loads("\n".join(lines), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        where = f"{file.path}:{getattr(error, 'lineno', 1)}"
        raise InputError(f"{where}: this is not valid JSON ({error}). Correct the file.") from None
    safety.check_depth(value, file.path)
    for i, record in enumerate(value):
        yield from _candidates(f" item {i}", record)


def _candidates(where: str, record: Any) -> Rows:
    if not isinstance(record, dict):
        wrong = f"this is {str(record)[:40]!r}. Expected a JSON object. Correct it"
        yield where, BadRow("not JSON", wrong)
    elif not isinstance(record.get("candidates"), list):
        yield where, record
    else:
        question, candidates = record.get("question"), record["candidates"]
        known = "question_id" in record or "query_id" in record
        shared = {
            key: value for key, value in record.items() if key not in ("candidates", "answers")
        }
        shared = shared if known else {"qid": question, **shared}
        answers = record.get("answers", [])
        if not isinstance(answers, list) or any(
            type(place) is not int or not 0 <= place < len(candidates) for place in answers
        ):
            wrong = f"the answers are {str(answers)[:60]}. Expected numbers of candidates from 0"
            yield where, BadRow("bad answers", f"{wrong}. Correct them")
            return
        for i, candidate in enumerate(candidates):
            found = candidate if isinstance(candidate, dict) else {"sentence": candidate}
            label = {"label": int(i in answers)} if "answers" in record else {}
            yield where, {**label, **shared, **found, "question": question}


def parallel(second: str, label: str) -> RowSource:
    """Return a reader of two files of sentences and one of labels; `{}` is the first one's suffix."""

    def rows(file: TextFile) -> Rows:
        rest = file.path.name.split(".", 1)[1]
        paths = [file.path.with_name(name.format(rest)) for name in (second, label)]
        if missing := [path for path in paths if not path.is_file()]:
            raise InputError(f"There is no file {missing[0]}, which belongs to {file.path}.")
        columns = [list(f.lines()) for f in (file, *(replace(file, path=path) for path in paths))]
        counts = [len(column) for column in columns]
        if len(set(counts)) > 1:
            wrong = f"the parallel files have different numbers of lines {counts}"
            raise InputError(f"{file.path}: {wrong}. Copy them again.")
        for (number, a), (_, b), (_, c) in zip(*columns):
            broken = next((x for x in (a, b, c) if isinstance(x, BadRow)), None)
            yield f":{number}", broken or {"sentence1": a, "sentence2": b, "label": c}

    return rows


def masked(source: RowSource) -> RowSource:
    """Replace each number in the rows of `source` with `<num>`, as in TrecQA's JSON files."""

    def mask(text: str) -> str:
        return " ".join("<num>" if _NUMBER.fullmatch(token) else token for token in text.split())

    def rows(file: TextFile) -> Rows:
        for where, row in source(file):
            if isinstance(row, dict):
                row |= {side: mask(row[side]) for side in ("sentence1", "sentence2")}
            yield where, row

    return rows


def trecqa_xml(file: TextFile) -> Rows:
    """Read `<QApairs id='…'>` with a `<question>`, `<positive>` and `<negative>` blocks.

    The first line of a block holds the tokens, separated by tabs; the others are left out.
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
                yield f":{number}", BadRow("no question", f"a <{tag}> stands before the <question>")
            else:
                row = {"sentence1": question, "sentence2": sentence, "qid": group}
                yield f":{number}", {**row, "label": int(tag == "positive")}
            tag = None
