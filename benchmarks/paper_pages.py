"""Fill docs/papers.md with the tables and pictures that `keras-sentmatch reproduce` made.

    python benchmarks/paper_pages.py

`results/reproduced/PAPER/ARTEFACT` has `table.md`, `runs.csv` and perhaps `figure.png`, as the command wrote them.
`results/reproduced/tried.csv` has a row for each artefact whose command was only tried, with its options, trainings,
failures and seconds. On the page, `<!-- PAPER -->` becomes the list of the paper's artefacts and
`<!-- PAPER/ARTEFACT -->` that table or picture, up to `<!-- end -->`.
"""

import csv
import re
import shutil
from pathlib import Path

import measuring

from keras_sentmatch.reproduction.artefact import list_artefacts, load_artefact

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "papers.md"
PICTURES = ROOT / "docs" / "papers"
MADE = ROOT / "benchmarks" / "results" / "reproduced"


def listed(paper: str) -> str:
    """Return a line for each artefact: what it shows, the data it needs, and what was made of it here."""
    with (MADE / "tried.csv").open(encoding="utf-8", newline="") as file:
        tried = {row["artefact"]: row for row in csv.DictReader(file)}
    lines = ["| artefact | shows | data | here |", "|---|---|---|---|"]
    for name in list_artefacts():
        if name.partition("/")[0] != paper:
            continue
        one = load_artefact(name)
        if (MADE / name / "table.md").is_file():
            here = f"[made](#{anchor(name)})"
        elif name in tried:
            row = tried[name]
            here = f"tried: {row['trainings']} trainings, {row['failed']} failed ({row['options']})"
        else:
            here = "not run"
        cells = [f"`{name}`", f"{one.place}: {one.title}", ", ".join(one.data_names), here]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def anchor(name: str) -> str:
    """Return the anchor of the heading "drcn, Table 6"."""
    heading = f"{name.partition('/')[0]}, {load_artefact(name).place}"
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def shown(name: str) -> str:
    """Return the picture, if there is one, and the table with its caption."""
    found = []
    if (MADE / name / "figure.png").is_file():
        found.append(f"![{load_artefact(name).title}](papers/{picture(name)})")
    _, _, text = (MADE / name / "table.md").read_text("utf-8").partition("\n")
    found.append(text.strip())
    return "\n\n".join(found)


def picture(name: str) -> str:
    return f"{name.replace('/', '-').replace('_', '-')}.png"


def filled(text: str) -> str:
    """Return the page with new blocks."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        body = shown(name) if "/" in name else listed(name)
        return f"<!-- {name} -->\n\n{body}\n\n<!-- end -->"

    return re.sub(r"<!-- (?!end )([\w/-]+) -->.*?<!-- end -->", block, text, flags=re.S)


def main() -> None:
    measuring.parser(__doc__).parse_args()
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    for path in MADE.glob("*/*/figure.png"):
        name = f"{path.parts[-3]}/{path.parts[-2]}"
        PICTURES.mkdir(exist_ok=True)
        shutil.copyfile(path, PICTURES / picture(name))


if __name__ == "__main__":
    main()
