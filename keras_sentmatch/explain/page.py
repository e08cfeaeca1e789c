"""The page: plain HTML and CSS in one file, without scripts, fonts or anything from the network."""

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from keras_sentmatch.explain.colors import (
    DIVERGING,
    PALETTES,
    SEQUENTIAL,
    is_dark,
    kind,
    levels,
    png_uri,
)
from keras_sentmatch.explain.erasure import Erasure
from keras_sentmatch.explain.explanation import Explanation
from keras_sentmatch.explain.pictures import TOKENS, Picture

MOST_NUMBERED = 24  # columns up to which cells carry numbers
MOST_CELLS = 48  # channels or features a side up to which there is a cell for each
LEAST_CHANGE = 0.05  # of a probability that gets the darkest colour

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """
:root { color-scheme: light }
body { font: 15px/1.45 system-ui, "DejaVu Sans", "Noto Sans", sans-serif; color: #1a1a1a; background: #fff;
  max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; border-top: 1px solid #ccc; padding-top: .8rem }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem } p { margin: .3rem 0 }
blockquote { margin: .4rem 0 .8rem; padding: .3rem .8rem; border-inline-start: 4px solid #9ecae1; overflow-wrap: anywhere }
.note, figcaption, .facts { color: #444; font-size: .87rem }
figure { margin: 1.2rem 0 } figcaption b { color: #1a1a1a; font-size: 1rem }
.scroll { overflow-x: auto; padding-bottom: .3rem }
table.grid, .words { color: #000 }
table.grid { border-collapse: collapse; font-size: 12px; line-height: 1.1; margin-top: .3rem }
.grid td { width: 16px; min-width: 16px; height: 17px; padding: 0; border: 1px solid #e4e4e4; text-align: center }
.grid.wide td { width: 30px; min-width: 30px; height: 22px; font-size: 11px; font-variant-numeric: tabular-nums }
.grid td.top { outline: 2px solid #d95f02; outline-offset: -2px }
.grid td.x { background: #b0b0b0 }
.grid th { font-weight: normal; padding: 0 }
.grid thead th { vertical-align: bottom; height: 2em }
.grid thead span { writing-mode: vertical-rl; text-orientation: sideways; transform: rotate(180deg); white-space: nowrap;
  max-height: 11em; overflow: hidden; text-overflow: ellipsis; padding: 3px 0; unicode-bidi: isolate }
.grid tbody th { text-align: right; padding-right: 6px; white-space: nowrap; max-width: 15em; overflow: hidden;
  text-overflow: ellipsis; unicode-bidi: isolate }
.grid tbody + tbody, .grid colgroup + colgroup { border: 0 solid #555; border-top-width: 2px }
.grid colgroup + colgroup { border-width: 0 0 0 2px }
.grid td.fine { padding: 0; min-width: 0 } img { image-rendering: pixelated; display: block }
.fine img { width: 100% } .parts { display: flex; flex-wrap: wrap; gap: .8rem; margin-top: .6rem; font-size: 12px }
.parts img { width: 130px; border: 1px solid #ccc }
.legend { display: inline-flex; align-items: center; gap: .4rem; font-size: 12px; margin-top: .3rem }
.legend i { width: 120px; height: 10px; border: 1px solid #bbb }
.bars { display: grid; grid-template-columns: max-content minmax(6rem, 24rem) max-content; gap: .25rem .6rem;
  align-items: center; margin: .4rem 0 } .bars i { height: 1rem; background: #1764ab; display: block }
.bars .least i { background: #b35806 } .bars .chosen { font-weight: bold } .bars div { background: #f1f1f1 }
.words { line-height: 1.2 } .words span { display: inline-block; text-align: center; margin: 2px 1px; padding: 2px 4px;
  border-radius: 3px; border: 1px solid #ddd; max-width: 100%; overflow-wrap: anywhere }
.words small { display: block; font-size: 10.5px; font-variant-numeric: tabular-nums }
.words .flip { outline: 2px dashed #111 } .reading { color: #1a1a1a }
table.list { border-collapse: collapse }
.list td, .list th { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top }
.list bdi { overflow-wrap: anywhere }
"""
COLORS = "".join(
    f".{name}{level} {{ background: #{bytes(color).hex()}{'; color: #fff' if is_dark(color) else ''} }}\n"
    for name, colors in PALETTES.items()
    for level, color in enumerate(colors)
)


def page(explanation: Explanation) -> str:
    """The HTML document of an explanation."""
    found = explanation
    parts = [
        "<h1>An answer explained</h1>",
        _sentence("Sentence 1", found.sentence1),
        _sentence("Sentence 2", found.sentence2),
        _answer(found),
        f"<p class=facts>{' · '.join(f'{escape(k)}: {escape(v)}' for k, v in found.facts.items())}</p>",
        _unknown(found),
        *(f"<p class=note>{escape(note)}</p>" for note in found.notes),
    ]
    if found.pictures:
        parts.append("<h2>Inside the model</h2>")
        parts += [_figure(picture) for picture in found.pictures]
    if found.erasure is not None:
        parts += _erasure(found.erasure)
    return document(f"{found.label or found.score}: {found.sentence1} / {found.sentence2}", parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A whole document around the parts of its body."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title[:120])}</title>\n<style>{STYLE}{COLORS}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def frame(html: str) -> str:
    """The document as part of another one, whose style it leaves alone."""
    return (
        f'<iframe sandbox srcdoc="{escape(html)}" style="width: 100%; height: 640px; border: 1px solid #ccc">'
        "</iframe>"
    )


def index(rows: Sequence[tuple[str, Explanation]], title: str) -> str:
    """A page that links to those of many pairs, each with the address of its page."""
    golden = any(found.gold is not None for _, found in rows)
    heads = ["", "sentence 1", "sentence 2", *["given"] * golden, "answer", ""]
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for number, (address, found) in enumerate(rows, 1):
        sure = found.score if found.label is None else found.probabilities[found.label]
        cells = [
            f'<a href="{escape(address)}">{number}</a>',
            *(f"<bdi>{escape(text)}</bdi>" for text in (found.sentence1, found.sentence2)),
            *[escape("" if found.gold is None else str(found.gold))] * golden,
            escape(found.label or "score"),
            f"{sure:.3f}",
        ]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return document(
        title, [f"<h1>{escape(title)}</h1>", f"<table class=list>{''.join(lines)}</table>"]
    )


def _sentence(name: str, text: str) -> str:
    return f"<p class=note>{name}</p><blockquote dir=auto>{escape(text) or '<i>(empty)</i>'}</blockquote>"


def _unknown(found: Explanation) -> str:
    words = ", ".join(f"<bdi>{escape(word)}</bdi>" for word in found.unknown)
    return f"<p class=note>Not in the vocabulary: {words}.</p>" if words else ""


def _answer(found: Explanation) -> str:
    given = "" if found.gold is None else f" (the data says <b>{escape(str(found.gold))}</b>)"
    if found.label is None:
        return f"<p>Score: <b>{found.score:.4f}</b>{given}</p>"
    rows = [
        _bar(name, share, 1.0, "chosen" if name == found.label else "")
        for name, share in found.probabilities.items()
    ]
    return (
        f"<p>Answer: <b>{escape(found.label)}</b>{given}</p><div class=bars>{''.join(rows)}</div>"
    )


def _bar(name: str, value: float, high: float, style: str = "") -> str:
    width = 100 * min(abs(value) / high, 1.0) if np.isfinite(value) else 0
    style += " least" if value < 0 else ""
    return (
        f'<span class="{style}"><bdi>{escape(name)}</bdi></span>'
        f'<div class="{style}"><i style="width: {width:.1f}%"></i></div><span>{value:.3f}</span>'
    )


def _figure(picture: Picture) -> str:
    reading = _reading(picture) if picture.reread else ""
    if picture.kind == "bars":
        body = _bars(picture)
    else:
        body = f"<div class=scroll>{_table(picture)}</div>{_legend(picture.low, picture.high)}"
    parts = ""
    if picture.parts:
        every = np.stack(list(picture.parts.values()))
        low, high = min(picture.low, every.min()), max(picture.high, every.max())
        low = -max(high, -low) if low < 0 else 0.0
        small = "".join(
            f'<span>{escape(name)}<img alt="{escape(name)}" src="{png_uri(x, low, high)}"></span>'
            for name, x in picture.parts.items()
        )
        parts = f"<div class=parts>{small}</div>{_legend(low, high)}"
    said = [picture.caption]
    if power := _power(picture):
        said.append(f"Numbers times 10^-{power}.")
    caption = f"<figcaption><b>{escape(picture.title)}</b> {escape(' '.join(said))}</figcaption>"
    keys = escape(" ".join(picture.keys))
    return f'<figure data-keys="{keys}">{caption}{reading}{body}{parts}</figure>'


def _bars(picture: Picture) -> str:
    several = len(picture.rows) > 1
    bars = [
        _bar(
            " · ".join([row] * several + [column] * (len(picture.columns) > 1)) or row,
            float(value),
            picture.high,
        )
        for row, values in zip(picture.rows, picture.values)
        for column, value in zip(picture.columns, values)
    ]
    return f"<div class=bars>{''.join(bars)}</div>"


def _reading(picture: Picture) -> str:
    words = (f"<bdi>{escape(word)}</bdi> {weight:.2f}" for word, weight in picture.steps)
    return f"<p class=reading>Read again: {', '.join(words)}</p>"


def _table(picture: Picture) -> str:
    """Cells for what can be read one by one; else an image under the tokens."""
    across, down = picture.axes[1] in TOKENS, picture.axes[0] in TOKENS
    few_columns = across or len(picture.columns) <= MOST_CELLS
    few_rows = down or len(picture.rows) <= MOST_CELLS
    groups = [f"<colgroup><col></colgroup>{_column_groups(picture)}"]
    if few_columns:
        heads = "".join(
            f'<th scope=col title="{escape(name)}"><span dir=auto>{escape(name)}</span></th>'
            for name in picture.columns
        )
        groups.append(f"<thead><tr><th></th>{heads}</tr></thead>")
    if few_columns and few_rows:
        groups += _cells(picture)
    elif few_columns:
        image = _image(picture.values, picture, 3 * len(picture.rows))
        span = f"<td class=fine colspan={len(picture.columns)}>{image}</td>"
        groups.append(f"<tbody><tr><th>{len(picture.rows)} rows</th>{span}</tr></tbody>")
    else:
        rows = (
            f"<tr><th scope=row>{escape(name)} (mean {values.mean():.2f})</th>"
            f"<td class=fine style='width: 44rem'>{_image(values[None], picture, 22)}</td></tr>"
            for name, values in zip(picture.rows, picture.values)
        )
        groups.append(f"<tbody>{''.join(rows)}</tbody>")
    wide = "wide" if len(picture.columns) <= MOST_NUMBERED else ""
    return f'<table class="grid {wide}">{"".join(groups)}</table>'


def _cells(picture: Picture) -> Iterator[str]:
    levels_ = levels(picture.values, picture.low, picture.high)
    letter, numbered = kind(picture.low), len(picture.columns) <= MOST_NUMBERED
    factor = 10.0 ** _power(picture)
    tops = picture.values.argmax(1) if picture.reread else np.full(len(picture.rows), -1)
    breaks = _breaks(picture.rows) if picture.axes[0] == "joint" else []
    names = [escape(name) for name in picture.columns]
    yield "<tbody>"
    for number, (row, values, shades) in enumerate(zip(picture.rows, picture.values, levels_)):
        if number in breaks:
            yield "</tbody><tbody>"
        name = escape(row)
        yield f'<tr><th scope=row title="{name}"><span dir=auto>{name}</span></th>'
        for place, (column, value, shade) in enumerate(zip(names, values, shades)):
            style = f"{letter}{shade}" if shade >= 0 else "x"
            style = f'"{style} top"' if place == tops[number] else style
            text = short(value * factor) if numbered else ""
            yield f'<td class={style} title="{name} · {column}: {value:.3g}">{text}</td>'
        yield "</tr>"
    yield "</tbody>"


def _power(picture: Picture) -> int:
    """Of ten, by which the numbers in cells are greater than the values: two places tell nothing of small ones."""
    numbered = picture.kind != "bars" and len(picture.columns) <= MOST_NUMBERED
    numbered &= picture.axes[0] in TOKENS or len(picture.rows) <= MOST_CELLS
    return -math.floor(math.log10(picture.high)) - 1 if numbered and picture.high < 0.1 else 0


def _column_groups(picture: Picture) -> str:
    """A line where the second sentence begins."""
    edges = [0, *(_breaks(picture.columns) if picture.axes[1] == "joint" else [])]
    sizes = np.diff([*edges, len(picture.columns)])
    return "".join(f"<colgroup span={size}></colgroup>" for size in sizes if size)


def _breaks(pieces: Sequence[str]) -> list[int]:
    """Where the second sentence of a joint sequence begins: after the separators, which its last piece is too."""
    first = pieces.index(pieces[-1])
    while first + 1 < len(pieces) and pieces[first + 1] == pieces[-1]:
        first += 1
    return [first + 1] if first + 1 < len(pieces) else []


def _image(values: np.ndarray, picture: Picture, height: int) -> str:
    uri = png_uri(values, picture.low, picture.high)
    return f'<img alt="{escape(picture.title)}" src="{uri}" style="height: {height}px">'


def _legend(low: float, high: float) -> str:
    stops = ", ".join(DIVERGING if low < 0 else SEQUENTIAL)
    return f'<div class=legend>{low:.3g}<i style="background: linear-gradient(to right, {stops})"></i>{high:.3g}</div>'


def short(value: float, places: int = 2) -> str:
    """A number for a cell, without the zero before the point."""
    if not np.isfinite(value):
        return "?"
    if abs(value) >= 0.995:
        return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return f"{value:.{places}f}".replace("0.", ".", 1)


def _erasure(erasure: Erasure) -> list[str]:
    both = np.concatenate([erasure.importance_1, erasure.importance_2])
    greatest = float(np.abs(both).max(initial=0.0))
    scored = not (erasure.answers_1 or erasure.answers_2)
    high = (greatest or 1.0) if scored else max(greatest, LEAST_CHANGE)
    places = 2 if greatest >= 0.1 else 3 if greatest >= 0.01 else 4
    what = "the score" if scored else f"the probability of <b>{escape(erasure.of)}</b>"
    parts = [
        "<h2>Words left out</h2>",
        f"<p class=note>Under each word: how much {what} falls when the model reads the pair without it. Blue words speak "
        "for the answer, orange ones against it; without a word in a dashed frame the answer is another. This looks at "
        "answers only: where it disagrees with attention, trust it more.</p>",
    ]
    for side in "12":
        names, importance, answers = erasure.side(side)
        words = "".join(
            _left_out(erasure, high, places, name, float(change), answer)
            for name, change, answer in zip(names, importance, answers or [""] * len(names))
        )
        parts.append(
            f"<p class=note>Sentence {side}</p><p class=words dir=auto>{words or '(no words)'}</p>"
        )
    return [*parts, _legend(-high, high)]


def _left_out(
    erasure: Erasure, high: float, places: int, word: str, change: float, answer: str
) -> str:
    flip = " flip" if answer not in ("", erasure.of) else ""
    (shade,) = levels(np.array([change]), -high, high)
    title = f"{erasure.of}: {erasure.full:.3f}, without it {erasure.full - change:.3f}"
    title += f"; answer without it: {answer}" if answer else ""
    return (
        f'<span class="d{shade}{flip}" title="{escape(title)}"><bdi>{escape(word)}</bdi>'
        f"<small>{'+' if change > 0 else ''}{short(change, places)}</small></span> "
    )
