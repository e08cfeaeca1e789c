"""`mine` and `rank`: the matching pairs or groups of many sentences, and the best matches of one."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, working
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Scoring, cards_of, check_label, suggest_explain
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
TABLES = (".tsv", ".csv", ".jsonl")
PAGES = (".html", ".htm")
SHOWN = 20
MOST_ON_PAGE = 500  # groups
PAIR = ("line1", "line2", "sentence1", "sentence2", "score")
GROUP = ("group", "size", "representative")
OWN = ("index", "line", "sentence", "score")  # columns that these commands write
Rows = list[dict[str, Any]]


def mine(
    run: options.Run,
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="The sentences: a text with one per line, or a table (.tsv, .csv, .jsonl).",
        ),
    ],
    scoring: Scoring,
    against: Annotated[Path | None, option("Pair each sentence with those of this file.")] = None,
    groups: Annotated[
        bool, option("Find groups of sentences that match each other.", "--groups")
    ] = False,
    column: Annotated[
        str | None,
        option(
            "Column of a table with the sentences. Default: sentence. Groups keep the other columns."
        ),
    ] = None,
    threshold: Annotated[
        float | None, option("Lowest score of a match. Default: the run's threshold, or 0.5.")
    ] = None,
    label: Annotated[
        str | None,
        option("Label whose probability is the score; required for more than two labels."),
    ] = None,
    candidates: Annotated[int, option("Number of candidates per sentence.", min=1)] = 10,
    out: Annotated[
        Path | None,
        option(
            "File for the pairs or groups (.tsv, .csv, .jsonl; groups also .html). Default: show some."
        ),
    ] = None,
    resume: Annotated[
        bool, option("Continue an interrupted run with the same --out.", "--resume")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Find the matching pairs of sentences in a file, the best first, or groups of them."""
    suffixes = TABLES + PAGES if groups else TABLES
    if out is not None and (as_json or out.suffix not in suffixes):
        raise InputError(
            f"--out is {out}. Expected a name that ends in {', '.join(suffixes)}, and no --json."
        )
    if groups and against is not None:
        raise InputError("--groups cannot be combined with --against.")
    if resume and out is None:
        raise InputError("--resume needs --out, the file of the interrupted run.")
    if out is not None and not resume and (partial := Path(f"{out}.partial")).exists():
        raise InputError(
            f"{partial} has the scores of an interrupted run. Continue with --resume, or delete it to "
            "start again."
        )
    if threshold is None and not any(card["label_names"] for card in cards_of(run).values()):
        raise InputError(
            f"{run} returns scores, so --threshold, the lowest one of a match, is needed."
        )
    files = [file for file in (corpus, against) if file is not None]
    if out is not None and out.is_dir():
        raise InputError(f"--out is {out}, a folder. Name a file.")
    for file in files:
        if out is not None and out.exists() and file.exists() and out.samefile(file):
            raise InputError(f"--out is {out}, a file of the sentences. Name another file.")
    check_label(run, label)
    texts = read_sentences(column, files, (*OWN, *GROUP))
    matcher = scoring.load(run).matcher
    given: Any = {"threshold": threshold, "label": label, "candidates": candidates}
    given |= {"batch_size": scoring.batch_size, "partial": out}
    sentences = [[row["sentence"] for row in rows] for rows in texts]
    from keras_sentmatch import corpus as corpora

    try:
        find: Any = corpora.group if groups else corpora.mine
        found: Rows = find(matcher, *sentences, **given)
    except KeyboardInterrupt:
        if Path(f"{out}.partial").exists():
            log.info("the scores so far are in %s.partial: continue with --resume", out)
        raise
    for one in found:
        for member in one.get("members", ()):
            member.update(texts[0][member.pop("index")])
    if not groups:
        lines = [(texts[0][o.pop("index1")], texts[-1][o.pop("index2")]) for o in found]
        pairs = zip(lines, found)
        found = [{"line1": a["line"], "line2": b["line"], **one} for (a, b), one in pairs]
    if as_json:
        print_json(found)
        return
    if not found:
        log.info("no sentences match")
    if out is not None:
        names = (
            PAIR if not groups else (*GROUP, *dict.fromkeys(["sentence", "score", *texts[0][0]]))
        )
        _write(out, found, names, corpus, len(sentences[0]))
        for name in (f"{out}.partial", f"{out}.partial.json"):
            Path(name).unlink(missing_ok=True)
        log.info("%s in %s", f"{len(found):,} {'groups' if groups else 'pairs'}", out)
    elif found:
        heads = ["size", "representative"] if groups else PAIR
        print_table(heads, [[row[name] for name in heads] for row in found[:SHOWN]])
        if len(found) > SHOWN:
            log.info("%s more: write them to a file with --out", f"{len(found) - SHOWN:,}")
    if out is not None and out.suffix in PAGES:
        log.info("next: open %s in a browser", out)
    elif found and groups and out is None:
        page = "--groups", "--out", "groups.html"
        next_step("mine", run, corpus, *page, why="look through them")
    elif found and not groups:
        suggest_explain(run, found[0]["sentence1"], found[0]["sentence2"])


def _write(out: Path, found: Rows, names: Any, corpus: Path, sentences: int) -> None:
    from keras_sentmatch.display.rendering import render_page
    from keras_sentmatch.display.tables import write_text
    from keras_sentmatch.inference.answer_file import as_text

    if out.suffix in PAGES:
        counts = {"count": len(found), "members": sum(one["size"] for one in found)}
        shown = found[:MOST_ON_PAGE]
        title = f"Groups of {corpus.name}"
        text = render_page("groups.html", title, groups=shown, sentences=sentences, **counts)
    else:
        if out.suffix == ".jsonl":
            names = list(found[0]) if found else []
        elif "group" in names:  # one row per sentence
            found = [{**one, **member} for one in found for member in one["members"]]
        text = as_text({name: [row[name] for row in found] for name in names}, out.suffix[1:])
    write_text(out, text)


def rank(
    run: options.Run,
    query: Annotated[str, typer.Argument(help="The first sentence of every pair.")],
    scoring: Scoring,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="CANDIDATES",
            help="Second sentences: a text with one per line, or a table (.tsv, .csv, .jsonl).",
        ),
    ] = None,
    index: Annotated[
        Path | None, option("Folder of an index, instead of CANDIDATES: only the best are scored.")
    ] = None,
    save_index: Annotated[
        Path | None, option("Build an index of CANDIDATES in this folder, and use it.")
    ] = None,
    column: Annotated[
        str | None,
        option(
            "Column of a table with the sentences. Default: sentence. Its other columns are kept."
        ),
    ] = None,
    candidates: Annotated[
        int | None, option("Number of sentences of an index to score. Default: 100.", min=1)
    ] = None,
    top_k: Annotated[int, option("Number of sentences to show.", min=1)] = 10,
    label: Annotated[
        str | None, option("Label to rank by; required for more than two labels.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Order the sentences of a file or an index by how well they match a sentence."""
    if (file is None) == (index is None) or (index is not None and save_index is not None):
        raise InputError("Give the candidates either as a file, or as an index with --index.")
    folder = index or save_index
    if column is not None and file is None:
        raise InputError("--column names a column of a file, and an index has its sentences.")
    if candidates is not None and folder is None:
        raise InputError("--candidates needs an index. All sentences of a file are scored.")
    given: Any = {"top_k": top_k, "label": label, "batch_size": scoring.batch_size}
    rows = [] if file is None else read_sentences(column, [file], OWN)[0]
    opened: Any = None
    if index is not None:
        from keras_sentmatch.corpus import Index

        opened = Index(index, None)  # a damaged one is seen before Keras is imported
    check_label(run, label)
    if save_index is not None:
        from keras_sentmatch.corpus import Index

        with working(f"indexing {len(rows):,} sentences"):
            further = [name for name in rows[0] if name != "sentence"]
            columns = {name: [row[name] for row in rows] for name in further}
            Index.build([row["sentence"] for row in rows], save_index, columns=columns)
        log.info("%s sentences in %s", f"{len(rows):,}", save_index)
        opened = Index(save_index, None)
    loaded = scoring.load(run)
    found: Rows
    if opened is not None:
        opened.matcher, most = loaded.matcher, 100 if candidates is None else candidates
        with scoring.working(range(min(most, len(opened)))):
            found = [dict(one) for one in opened.rank(query, candidates=most, **given)]
        for one in found:
            del one["index"]  # its line is among the columns
    else:
        with scoring.working(rows):
            best = loaded.matcher.rank(query, [row["sentence"] for row in rows], **given)
        found = [{**rows[one["index"]], "score": one["score"]} for one in best]
    loaded.log_encoding()
    if as_json:
        print_json(found)
    elif found:
        print_table(list(found[0]), [list(row.values()) for row in found])
        suggest_explain(run, query, found[0]["sentence"])
    else:
        log.info("no sentence of the index shares a word with the query")


def read_sentences(column: str | None, paths: list[Path], own: Sequence[str]) -> list[Rows]:
    """Return the sentences of texts or tables: `line`, `sentence` and other columns of each.

    Other columns with a name in `own` are called `own_NAME`. All rows get all columns: what a record
    of a .jsonl does not have is empty.
    """
    if column is not None and not any(path.suffix in TABLES for path in paths):
        raise InputError(
            f"--column is {column}, but {paths[0]} has one sentence per line. A table has a name that "
            f"ends in {', '.join(TABLES)}."
        )
    found = []
    for path in paths:
        if path.exists() and not path.is_file():  # opening a pipe would wait forever
            raise InputError(f"{path} is a folder, a device or a pipe. Give a file of sentences.")
        table = path.suffix in TABLES
        found.append(_table_rows(path, column or "sentence", own) if table else list(_lines(path)))
        if not found[-1]:
            raise InputError(f"{path} contains no sentences. Write one sentence per line.")
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    from keras_sentmatch.data.files import TextFile

    blank = 0
    for number, line in TextFile(path).lines():
        if not isinstance(line, str):
            raise InputError(f"{path}:{number}: {line.message}.")
        if line.strip():
            yield {"line": number, "sentence": line}
        else:
            blank += 1
    if blank:
        log.info("%s: %d blank lines skipped", path, blank)


def _table_rows(path: Path, column: str, own: Sequence[str]) -> Rows:
    from keras_sentmatch.data.files import HEADER, BadRow, TextFile, json_records, table

    read: Callable[..., Any] = json_records
    if path.suffix != ".jsonl":
        read = table(separator=None, quoted=None)
    lines: list[tuple[int, dict[str, Any]]] = []
    for where, row in read(TextFile(path)):
        if isinstance(row, BadRow):
            raise InputError(f"{path}{where}: {row.message}.")
        if not isinstance(row.get(column), str):
            raise InputError(
                f"{path}{where.removesuffix(HEADER)} has the columns {', '.join(row)}, and no text "
                f"under {column!r}. Name the column of the sentences with --column."
            )
        if where == HEADER:
            continue
        lines.append((int(where.removeprefix(":")), row))
    columns = dict.fromkeys(name for _, row in lines for name in row)
    taken = {*own, *columns}
    names = {n: _free_name(n, taken) if n in own else n for n in columns if n != column}
    return [
        {"line": line, "sentence": row[column]}
        | {new: row.get(name, "") for name, new in names.items()}
        for line, row in lines
    ]


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"own_{name}"
    return name
