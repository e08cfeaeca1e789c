"""WordNet, read by NLTK: its own copy, or that of the operating system."""

import os
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError

# $WNHOME/dict, then where Debian's package wordnet-base puts it.
FOLDERS = (
    Path(os.environ.get("WNHOME", "/usr/local/WordNet-3.0"), "dict"),
    Path("/usr/share/wordnet"),
)
# The names of WordNet's own source files, which some packages leave out.
LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body "
    "noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location "
    "noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process "
    "noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body "
    "verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact "
    "verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative "
    "verb.weather adj.ppl"
).split()


@cache
def load_wordnet() -> Any:
    """NLTK's reader of WordNet.

    Raises:
        InputError: If NLTK or WordNet is not installed.
    """
    try:
        from nltk.corpus import wordnet
        from nltk.corpus.reader.wordnet import WordNetCorpusReader

        try:
            wordnet.ensure_loaded()
            return wordnet
        except LookupError:
            folder = next((folder for folder in FOLDERS if (folder / "data.noun").is_file()), None)
            if folder is None:
                raise
    except (ImportError, LookupError) as error:
        first = next(line for line in str(error).splitlines() if line.strip(" *"))
        raise InputError(
            f"WordNet cannot be loaded ({first.strip()}): pip install nltk, and either python -m "
            "nltk.downloader wordnet or the package wordnet-base of Debian and Ubuntu; or give a file "
            "of word pairs instead."
        ) from error

    import nltk

    class SystemWordNet(WordNetCorpusReader):
        """WordNet's files without `lexnames`, which NLTK expects beside them."""

        def open(self, file: str) -> Any:
            if file != "lexnames":
                return super().open(file)
            return StringIO("".join(f"{i:02d}\t{name}\t0\n" for i, name in enumerate(LEXNAMES)))

        def map_wn(self, version: str = "wordnet") -> None:
            """For other languages only."""

    nltk.data.path.append(str(folder))  # NLTK opens nothing outside its own folders
    return SystemWordNet(str(folder), omw_reader=object())  # without one NLTK warns
