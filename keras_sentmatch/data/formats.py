"""The data sets that the readers know, and how a file or folder is recognized.

Each data set is a `Format` with one `Layout` per kind of files. To add one, add a `Format` to the list.
"""

import difflib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from keras_sentmatch.data import files
from keras_sentmatch.data.dataset import Task
from keras_sentmatch.data.files import RowSource, TextFile, json_records, parallel, table
from keras_sentmatch.data.frames import frame_file
from keras_sentmatch.errors import InputError, argument, wording

log = logging.getLogger(__name__)
NLI = ("entailment", "neutral", "contradiction")
TWO_WAY = ("entailment", "not_entailment")
PARAPHRASE = ("not_paraphrase", "paraphrase")
DUPLICATE = ("not_duplicate", "duplicate")
ANSWER = ("not_answer", "answer")


@dataclass(frozen=True)
class Layout:
    """How the files of a data set are named and read, with their columns if they are not the usual ones.

    Common file names need more: the first line must have the column names `needs` (in lower case), or
    the folder or its parent one of the words `hint` in its name and the first line `fields` fields.
    """

    files: dict[str, tuple[str, ...]]  # patterns below the folder by split; case, .gz do not count
    rows: RowSource
    sentence1: str | None = None
    sentence2: str | None = None
    label: str | None = None
    group: str | None = None
    needs: tuple[str, ...] = ()
    hint: tuple[str, ...] = ()
    fields: int = 0
    label_of: Callable[[str], str] = str  # from a raw label to a label name or number
    skips: tuple[str, ...] = ()  # reasons for which the official file itself has unusable rows
    keep: tuple[str, ...] = ()  # further columns to keep in `PairDataset.columns`

    def find(self, folder: Path, split: str, hints: bool = True) -> Path | None:
        """Return the file of `split` in `folder` if it is there and looks like this layout."""
        for pattern in self.files.get(split, ()):
            for path in sorted((folder / pattern).parent.glob("*")):
                if _named(path, pattern) and path.is_file() and self._fits(path, folder, hints):
                    return path
        return None

    def split_of(self, path: Path, hints: bool = True) -> str | None:
        """Return the split of `path` if it is a file of this layout."""
        for split, patterns in self.files.items():
            for pattern in patterns:
                folder = path.parent.parent if "/" in pattern else path.parent
                if _named(path, pattern) and self._fits(path, folder, hints):
                    return split
        return None

    def _fits(self, path: Path, folder: Path, hints: bool) -> bool:
        parents = " ".join(folder.resolve().parts[-2:]).lower()
        if self.hint and hints and not any(word in parents for word in self.hint):
            return False
        if not self.needs and not (self.fields and hints):
            return True
        names = [name.strip() for name in TextFile(path).first_line().lower().split("\t")]
        return set(self.needs) <= set(names) and self.fields in (0, len(names))


@dataclass(frozen=True)
class Format:
    """A data set."""

    name: str
    description: str
    labels: tuple[str, ...]  # in index order; empty for regression and if the file has them
    metric: str  # the usual one
    layouts: tuple[Layout, ...]  # for each split, the first layout that has it counts
    task: Task | None = "classification"
    clean: tuple[str, ...] = ()  # splits that keep only questions with a right and a wrong answer
    own_split: bool = False  # whether the test part is split off, as for your own data


def _named(path: Path, pattern: str) -> bool:
    """Return whether the end of a path matches a pattern, which may include the folder."""
    end = "/".join(path.parts[-1 - pattern.count("/") :]).lower()
    return fnmatch(end.removesuffix(".gz"), pattern.lower())


def _files(
    pattern: str, train: str = "train", dev: str = "dev", test: str = "test"
) -> dict[str, tuple[str, ...]]:
    """Expand `{}` in patterns to the names of splits; `|` separates patterns and names."""
    splits = {"train": train, "validation": dev, "test": test}
    return {
        split: tuple(p.replace("{}", name) for p in pattern.split("|") for name in names.split("|"))
        for split, names in splits.items()
        if names
    }


def _votes(raw: str) -> str:
    """Read the votes "(k, 6)" of Twitter-URL: three of six annotators give no label."""
    k = raw.strip("() ").split(",")[0]
    if not k.isdigit():
        return raw
    return "1" if int(k) >= 4 else "0" if int(k) <= 2 else "-"


def _yes(raw: str) -> str:
    return {"True": "yes", "False": "no"}.get(raw, raw)


_HEADED, _RAGGED = table(), table(ragged=True)
_CSV, _OWN_TABLE = table(separator=None, quoted=True), table(separator=None, quoted=None)


def _trecqa(name: str, what: str, train: str, clean: bool) -> Format:
    """Return a format of TrecQA. Next to JSON files, which have `<num>` for numbers, XML is masked too."""
    rows = files.masked(files.trecqa_xml) if train == "train-all" else files.trecqa_xml
    layouts = [Layout(_files("{}.xml|xml/{}.xml", train), rows)]
    if train == "train-all":
        layouts.append(Layout({"train": ("train-all.jsonl",)}, json_records))
    if clean:
        layouts.append(Layout({"test": ("test-filtered.jsonl",)}, json_records))
    splits = ("validation", "test") if clean else ()
    return Format(name, what, ANSWER, "map", tuple(layouts), "ranking", clean=splits)


def _multinli(name: str, what: str, dev: str) -> Format:
    """Return the format of MultiNLI with the matched or the mismatched dev part."""
    parts = {"dev": f"dev_{dev}", "test": ""}
    needs = ("sentence1_parse", "sentence2_parse")
    layouts = (
        Layout(_files("multinli_1.0_{}.jsonl", **parts), json_records),
        Layout(_files("multinli_1.0_{}.txt", **parts), _RAGGED, "sentence1", "sentence2"),
        Layout(
            _files("{}.tsv", dev=f"dev_{dev}", test=f"test_{dev}"),
            _RAGGED, "sentence1", "sentence2", "gold_label", needs=needs,
        ),
        Layout(_files("*mnli_{}*.tsv", **parts), _HEADED),
    )  # fmt: skip
    return Format(name, what, NLI, "accuracy", layouts)


def _own(name: str, what: str, suffixes: str, rows: RowSource) -> Format:
    pattern = "|".join("{}." + suffix for suffix in suffixes.split())
    layout = Layout(_files(pattern, dev="dev|validation|valid|val"), rows)
    return Format(name, what, (), "", (layout,), task=None)


_MSRP = ("#1 String", "#2 String", "Quality")
_FORMATS = (
    Format("snli", "SNLI: image captions, three-way inference", NLI, "accuracy", (
        Layout(_files("snli_1.0_{}.jsonl"), json_records),
        Layout(_files("snli_1.0_{}.txt"), _RAGGED, "sentence1", "sentence2"),
        Layout(_files("{}.tsv", dev="dev|validation"), _HEADED,
               needs=("premise", "hypothesis"), hint=("snli",)),
        Layout(_files("s1.{}"), parallel("s2.{}", "labels.{}")),
    )),
    Format("snli-hard", "SNLI-hard: test pairs whose second sentence does not tell the label", NLI, "accuracy", (
        Layout({"test": ("snli_1.0_test_hard.jsonl",)}, json_records),
    )),
    _multinli("multinli", "MultiNLI: ten genres, three-way inference; dev matched", "matched"),
    _multinli("multinli-mismatched", "MultiNLI: dev of other genres (mismatched)", "mismatched"),
    Format("sick", "SICK: three-way inference, compositional", NLI, "accuracy", (
        Layout(_files("SICK_{}.txt", dev="trial", test="test_annotated"), _HEADED,
               "sentence_A", "sentence_B", "entailment_judgment"),
    )),
    Format("msrp", "Microsoft paraphrases (GLUE: MRPC): news", PARAPHRASE, "accuracy", (
        Layout(_files("msr_paraphrase_{}.txt"), _HEADED, *_MSRP),
        Layout(_files("{}.tsv"), _HEADED, *_MSRP, needs=("#1 string", "#2 string")),
    )),
    Format("twitter-url", "Twitter-URL: paraphrases of tweets", PARAPHRASE, "f1", (
        Layout(_files("{}/a.toks"), parallel("b.{}", "sim.txt")),
        Layout(_files("Twitter_URL_Corpus_{}.txt"),
               table(("sentence1", "sentence2", "votes", "url"), ragged=True),
               label="votes", label_of=_votes),
    )),
    _trecqa("trecqa", "TrecQA, raw: answers to questions", "train", False),
    _trecqa("trecqa-clean", "TrecQA, clean dev and test", "train", True),
    _trecqa("trecqa-all", "TrecQA, raw, trained on TRAIN-ALL", "train-all", False),
    _trecqa("trecqa-all-clean", "TrecQA, clean, trained on TRAIN-ALL", "train-all", True),
    Format("wikiqa", "WikiQA: answers in Wikipedia", ANSWER, "map", (
        Layout(_files("WikiQA-{}.tsv"), _HEADED, "Question", "Sentence", group="QuestionID"),
    ), "ranking"),
    Format("selqa", "SelQA: answer sentence selection", ANSWER, "map", (
        Layout(_files("SelQA-ass-{}.tsv"), table(("question", "candidate", "label")),
               group="question"),
        Layout(_files("SelQA-ass-{}.json"), json_records),
    ), "ranking"),
    Format("stsb", "STS benchmark (GLUE: STS-B): similarity 0 to 5", (), "pearson", (
        Layout(_files("stsb-*-{}.csv"),
               table(("sentence1", "sentence2", "score"), separator=",", quoted=True)),
        Layout(_files("sts-{}.csv"),
               table(("genre", "file", "year", "id", "score", "sentence1", "sentence2"),
                     ragged=True)),
        Layout(_files("{}.tsv"), _HEADED, label="score", needs=("genre", "old_index")),
    ), "regression"),
    Format("rte", "GLUE RTE: two-way inference", TWO_WAY, "accuracy", (
        Layout(_files("{}.tsv"), _HEADED,
               needs=("index", "sentence1", "sentence2"), hint=("rte",)),
    )),
    Format("qnli", "GLUE QNLI: does the sentence hold the answer", TWO_WAY, "accuracy", (
        Layout(_files("{}.tsv"), _HEADED, needs=("index", "question", "sentence")),
    )),
    Format("qqp", "GLUE QQP: Quora duplicates, GLUE's parts", DUPLICATE, "accuracy", (
        Layout(_files("{}.tsv"), _HEADED, "question1", "question2", "is_duplicate",
               needs=("id", "question1", "question2"), skips=("too few fields",)),
    )),
    Format("quora", "Quora duplicate questions", DUPLICATE, "accuracy", (
        Layout(_files("{}.tsv|bimpm_{}.tsv"), table(("label", "question1", "question2", "id")),
               hint=("quora", "bimpm"), fields=4),
        Layout({"train": ("quora_duplicate_questions.tsv", "quora-*.csv")}, _CSV,
               label="is_duplicate"),
    ), own_split=True),
    Format("scitail", "SciTail: science, two-way inference", ("entailment", "neutral"), "accuracy", (
        Layout(_files("scitail_1.0_{}.tsv|tsv_format/scitail_1.0_{}.tsv"),
               table(("premise", "hypothesis", "label"))),
        Layout(_files("scitail_1.0_{}.txt|snli_format/scitail_1.0_{}.txt"), json_records),
        Layout(_files("scitail_{}*.csv"), _CSV),
    )),
    Format("paws", "PAWS: paraphrases with swapped words", PARAPHRASE, "accuracy", (
        Layout(_files("{}.tsv"), _HEADED, needs=("id", "sentence1", "sentence2"), hint=("paws",)),
    )),
    Format("boolq", "BoolQ: yes or no, from a passage", ("no", "yes"), "accuracy", (
        Layout({"train": ("train.jsonl",), "validation": ("dev.jsonl", "val.jsonl")}, json_records,
               "passage", "question", "answer", hint=("boolq",), label_of=_yes),
        Layout(_files("{}.tsv", dev="dev|validation"), _HEADED, "passage", "question",
               needs=("passage", "question", "label")),
    )),
    Format("breaking-nli", "Breaking NLI: one word of the premise replaced", NLI, "accuracy", (
        Layout({"test": ("bnli.jsonl",)}, json_records, keep=("category",)),
        Layout({"test": ("dataset.jsonl",)}, json_records, hint=("breaking",), keep=("category",)),
    )),
    _own("tsv", "your own tab-separated files, quotes are text", "tsv txt", _OWN_TABLE),
    _own("tsv-quoted", "your own tab-separated files, quoted like CSV", "tsv", table(quoted=True)),
    _own("csv", "your own CSV files", "csv", _CSV),
    _own("jsonl", "your own JSON objects, one per line", "jsonl ndjson json", json_records),
    _own("frame", "your own Parquet or Excel files", "parquet xlsx", frame_file),
)  # fmt: skip

FORMATS = {known.name: known for known in _FORMATS}
OWN = ("tsv", "tsv-quoted", "csv", "jsonl", "frame")
# Usual names of columns in lower case, in the order in which they are tried.
SENTENCES = (
    ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"),
    ("sentence_a", "sentence_b"), ("sentence_1", "sentence_2"), ("text_a", "text_b"),
    ("text_1", "text_2"), ("text1", "text2"), ("s1", "s2"), ("q1", "q2"), ("source1", "source2"),
    ("question", "sentence"), ("question", "answer"), ("question", "candidate"),
    ("query", "document"), ("query", "passage"), ("passage", "question"),
    ("#1 string", "#2 string"), ("first", "second"), ("text", "hypothesis"), ("a", "b"),
)  # fmt: skip
LABEL = (
    "gold_label",
    "gold",
    "label",
    "labels",
    "is_duplicate",
    "entailment_judgment",
    "quality",
    "class",
)
SCORE = ("score", "similarity", "similarity_score", "relatedness_score", "relatedness")
GROUP = ("qid", "questionid", "question_id", "query_id", "group")
WEIGHT = ("weight",)
ID = ("id", "pairid", "pair_id", "index", "idx", "sentenceid", "#1 id")


def list_formats() -> list[tuple[str, str, str, tuple[str, ...], str]]:
    """Return name, description, files, labels and metric of each format."""
    return [
        (known.name, known.description, file_names(known), known.labels, known.metric)
        for known in FORMATS.values()
    ]


def file_names(known: Format) -> str:
    """Return the first file name pattern of each layout and split, for messages."""
    names = [patterns[0] for layout in known.layouts for patterns in layout.files.values()]
    return ", ".join(dict.fromkeys(names))


SPLITS = ("train", "validation", "test")
_SUFFIXES = {"tsv": "tsv", "txt": "tsv", "csv": "csv", "parquet": "frame", "xlsx": "frame"}
_SUFFIXES |= dict.fromkeys(("json", "jsonl", "ndjson"), "jsonl")
_OFFICIAL = [known for known in FORMATS.values() if known.name not in OWN]


def existing_path(path: str | Path) -> Path:
    """Return the path of an existing file or folder, or raise `InputError` with a hint."""
    if not isinstance(path, str | os.PathLike):
        kind = type(path).__name__
        tables = "a table of pandas, polars, Arrow or Hugging Face's datasets that is in memory"
        raise InputError(f"The pairs are a {kind}. Expected the path of a file, or {tables}.")
    path = Path(path).expanduser()
    if path.exists():
        if not path.is_file() and not path.is_dir():
            raise InputError(f"{path} is a device or a pipe. Give a file or a folder of pairs.")
        return path
    prefix, _, rest = str(path).partition(":")
    if rest and len(prefix) > 1 and not Path(prefix).exists() and "/" not in prefix:
        wrong = f"There is no file {path}, and no format {prefix!r}"
        raise InputError(f"{wrong}. The formats are {', '.join(('tfds', *FORMATS))}.")
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names)
    hint = f"Did you mean {', '.join(near)}?" if near else "Check the path."
    raise InputError(f"There is no file or folder {path}. {hint}")


def _formats(name: str | None) -> tuple[list[Format], bool]:
    """Return the formats to try, and whether folder names count as hints."""
    if name is None:
        return _OFFICIAL, True
    if name not in FORMATS:
        hint = "".join(f" Did you mean {x!r}?" for x in difflib.get_close_matches(name, FORMATS, 1))
        known = f"The formats are {', '.join(FORMATS)}."
        raise InputError(f"{argument('format', name)} does not exist.{hint} {known}")
    return [FORMATS[name]], False


def recognize_file(path: Path, name: str | None) -> tuple[Format, Layout, str | None]:
    """Return the format (`name`, if given) and layout of a file, and its split if it is known."""
    formats, hints = _formats(name)
    for known in formats:
        for layout in known.layouts:
            if split := layout.split_of(path, hints):
                return known, layout, split
    if name is not None:
        if name in OWN or len(known.layouts) == 1:
            return known, known.layouts[0], None
        has = f"That format has {file_names(known)}"
        raise InputError(f"{path} is not a file of the format {name!r}. {has}.")
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if suffix not in _SUFFIXES and "\t" not in TextFile(path).first_line():
        expected = "Expected TSV, CSV, JSONL, Parquet or Excel, or"
        how = wording("a format=…", "--format NAME")
        raise InputError(f"{path} is not a known kind of file. {expected} {how}.")
    own = FORMATS[_SUFFIXES.get(suffix, "tsv")]
    return own, own.layouts[0], None


def _with_other_kinds(
    folder: Path, found: dict[str, tuple[Path, Layout]]
) -> dict[str, tuple[Path, Layout]]:
    """Add the parts that are files of another kind of your own, and warn of files that are no part."""
    for split in SPLITS:
        for layout in (FORMATS[kind].layouts[0] for kind in OWN):
            if split not in found and (file := layout.find(folder, split)):
                found[split] = file, layout
    used = [file for file, _ in found.values()]
    kinds = "*.[tc]sv", "*.jsonl", "*.parquet", "*.xlsx"
    left = [x.name for x in sorted(folder.iterdir()) if any(_named(x, kind) for kind in kinds)]
    if left := [name for name in left if folder / name not in used]:
        names = ", ".join(left[:3]) + ", …" * (len(left) > 3)
        log.warning(f"{folder}: {names} not read. Parts are called train, dev and test.")
    return {split: found[split] for split in SPLITS if split in found}


def recognize_folder(
    folder: Path, name: str | None
) -> tuple[Format, dict[str, tuple[Path, Layout]]]:
    """Return the format of a folder, and the file and layout of each split in it."""
    formats, hints = _formats(name)
    for known in formats if name else FORMATS.values():
        found = {}
        for split in SPLITS:
            for layout in known.layouts:
                if file := layout.find(folder, split, hints):
                    found[split] = (file, layout)
                    break
        if found:
            return known, _with_other_kinds(folder, found) if known.name in OWN else found
    if name is not None:
        has = f"That format has {file_names(known)}"
        raise InputError(f"{folder} has no file of the format {name!r}. {has}.")
    names = sorted(path.name for path in folder.iterdir())
    inside = ", ".join(names[:8]) + ", …" * (len(names) > 8) or "nothing"
    raise InputError(
        f"{folder} has no known data set. It contains {inside}. Expected train, dev and test as .tsv, "
        f".csv or .jsonl, the files of {', '.join(known.name for known in _OFFICIAL)}, or one file."
    )
