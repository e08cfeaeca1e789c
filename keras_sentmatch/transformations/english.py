"""English words and phrases for the transformations, and the words of a sentence."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple
from unicodedata import category

# Unambiguous names of people and places. Within a kind, any name may replace any other.
NAMES = {
    "woman": (
        "Alice Amanda Anna Barbara Betty Catherine Claire Diana Elizabeth Emily Emma Helen Jane Jennifer Jessica "
        "Julia Karen Laura Linda Lucy Margaret Maria Mary Michelle Nancy Patricia Rachel Rebecca Sandra Sarah "
        "Sophie Susan Teresa"
    ).split(),
    "man": (
        "Adam Alan Andrew Anthony Ben Brian Charles Daniel David Edward Eric Fred George Henry James Joe John Joseph "
        "Kevin Larry Louis Michael Mike Paul Peter Philip Richard Robert Roger Sam Simon Stephen Steve Thomas Tim Tom "
        "Walter William"
    ).split(),
    "country": (
        "Afghanistan;Algeria;Argentina;Australia;Austria;Bangladesh;Belgium;Bolivia;Brazil;Bulgaria;Canada;Chile;"
        "China;Colombia;Croatia;Cuba;Denmark;Egypt;Ethiopia;Finland;France;Germany;Ghana;Greece;Hungary;Iceland;"
        "India;Indonesia;Iran;Iraq;Ireland;Israel;Italy;Jamaica;Japan;Kenya;Malaysia;Mexico;Morocco;Nepal;"
        "New Zealand;Nigeria;North Korea;Norway;Pakistan;Peru;Poland;Portugal;Romania;Russia;Saudi Arabia;Serbia;"
        "South Africa;South Korea;Spain;Sri Lanka;Sudan;Sweden;Switzerland;Syria;Thailand;Ukraine;Vietnam"
    ).split(";"),
    "city": (
        "Amsterdam;Athens;Bangalore;Bangkok;Barcelona;Beijing;Berlin;Boston;Brussels;Budapest;Cairo;Chennai;Chicago;"
        "Copenhagen;Dallas;Delhi;Denver;Dublin;Frankfurt;Geneva;Glasgow;Hamburg;Helsinki;Houston;Hyderabad;Istanbul;"
        "Jakarta;Karachi;Kolkata;Lahore;Lisbon;London;Los Angeles;Madrid;Manchester;Manila;Melbourne;Miami;Milan;"
        "Montreal;Moscow;Mumbai;Munich;Nairobi;New Delhi;New York;Oslo;Paris;Philadelphia;Prague;Pune;Rome;"
        "San Francisco;Seattle;Seoul;Shanghai;Stockholm;Sydney;Tokyo;Toronto;Vancouver;Vienna;Warsaw;Zurich"
    ).split(";"),
    "language": (
        "Arabic Bengali Czech Danish Dutch French German Greek Hebrew Hindi Hungarian Italian Japanese Korean "
        "Mandarin Norwegian Persian Polish Portuguese Russian Spanish Swahili Swedish Tamil Turkish Urdu Vietnamese"
    ).split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": (
        "January February April June July August September October November December".split()
    ),
}  # fmt: skip
MONTHS = frozenset([*NAMES["month"], "March", "May"])
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names}


NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
# Words before a number that keep a greater one from contradicting.
BOUNDS = frozenset(
    "least most more less fewer than over under above below up about around nearly almost approximately some "
    "between or maybe minimum maximum minus plus every any per top".split()
)
# Words next to which the opposite of a word may not change the meaning.
NO_OPPOSITE = frozenset("or if whether unless versus vs between than either difference".split())
# Words whose antonyms in a lexicon mostly belong to another sense.
NEVER_OPPOSED = frozenset(
    "age back background bank block button capital catch chain change charge check content cover cut day "
    "diamond doctor draft end experience face fat find first found free front full function gravity ground "
    "head health home host issue kept key kind know last leave left level live look major mark marked mean "
    "means meant meet mix net next note order part pass pay personal piano piece play put rear record right "
    "say second service set shop side software sort source strip support thing things think time top turkey "
    "turn used using wake want way wear weight work working worth".split()
)
# Words whose synonyms in a lexicon mostly belong to another sense or part of speech.
NEVER_RENAMED = frozenset(
    "bank case child compare due end first free group language last lead light lost lying man men million "
    "millions new paid piece pieces second social sound state taken use used using want while woman women "
    "work worked working works".split()
)
# Words that form a unit with the verb before them: neither is replaced.
PARTICLES = frozenset("up out off away down over back through".split())
# Words in lexicons that are never written.
UNWANTED = frozenset(
    "annum banque behold bestest blacken bleu civilian daughter daughters default economic enfant eveything "
    "freund frst goss goverment idle kip lain lbs lowercase malady mature middle minify minuscule negro "
    "negroes nub passing pecuniary rear recieve rejuvenate righter ripe saison sate son sons starve unbend "
    "unburden underage wanna whiten worn worser yesteryear".split()
)
TAUTOLOGIES = ("true is true", "false is not true", "true is not false", "false is false")
ADVERBS = "actually really truly indeed certainly clearly definitely".split()
ADVERBS_OF_QUESTIONS = ADVERBS[:3]
BE = frozenset("is are was were".split())
HAVE = frozenset("has have had".split())
MODALS = frozenset("can could will would should must".split())
AUXILIARIES = BE | HAVE | MODALS | frozenset("do does did".split())
QUESTION_WORDS = frozenset(
    "who whom whose what which where when why how is are was were do does did can could will would should "
    "has have had".split()
)
SUBJECT_QUESTIONS = frozenset("what who which where".split())
SUBJECTS = frozenset("i you we they he she it there someone anyone people".split())
DETERMINERS = frozenset("the a an your my their his her its our some this that these those".split())
# Words before which no adverb is put.
NO_ADVERB_BEFORE = frozenset(
    "not n't no to and or but of in on at by for from with as than that so very too there be been nothing".split()
) | {"n't"}
IRRELEVANT = (
    "The library opens at nine on weekdays.",
    "My neighbour repaired his fence last week.",
    "The soup needs a pinch of salt.",
    "Copper conducts heat well.",
    "Her umbrella hangs behind the door.",
    "The train to the coast was late.",
    "Whales are mammals.",
    "A stitch in time saves nine.",
    "The museum closes for repairs in winter.",
    "Tea grows best on high slopes.",
    "The lamp on the desk flickers.",
    "His cousin collects old stamps.",
    "Too many cooks spoil the broth.",
    "The bakery sells rye bread.",
    "Honey hardly ever spoils.",
    "The post office moved across the square.",
    "Glass is made from sand.",
    "The committee meets twice a year.",
)
BRACKETS = (('"', '"'), ("{", "}"), ("[", "]"), ("(", ")"), ("`", "`"), ("'", "'"))
MARKS = ("...", "..", ",", ";", "!")
TAGS = "fyi today random thoughts news justsaying".split()
TWITTER = {
    "are": "r", "you": "u", "your": "ur", "people": "ppl", "because": "bc", "please": "plz", "and": "&",
    "with": "w/", "without": "w/o", "for": "4", "great": "gr8", "before": "b4", "thanks": "thx",
    "tomorrow": "tmrw", "tonight": "2nite", "love": "luv", "about": "abt", "really": "rly", "why": "y",
    "want to": "wanna", "going to": "gonna", "got to": "gotta", "kind of": "kinda", "sort of": "sorta",
    "by the way": "btw", "i don't know": "idk", "as soon as possible": "asap", "in my opinion": "imo",
    "oh my god": "omg", "see you": "cya", "picture": "pic", "pictures": "pics", "message": "msg",
    "between": "btwn", "someone": "sm1", "something": "smth", "tell me": "lmk", "girlfriend": "gf",
    "boyfriend": "bf", "best friend": "bff", "week": "wk", "year": "yr", "years": "yrs",
    "minutes": "mins", "seconds": "secs", "weekend": "wknd", "through": "thru", "though": "tho",
    "night": "nite", "okay": "k", "friday": "fri", "monday": "mon",
}  # fmt: skip


VOWEL_SOUND = re.compile(
    r"(?!uni(?!n|m)|us[aeiu]|ut[ei]|eu|one\b|once\b)[aeiou]|hour|honest|honou?r|heir", re.IGNORECASE
)
NEGATIONS = frozenset(
    "no not never none nobody nothing nowhere neither nor without cannot cant dont doesnt isnt arent wasnt "
    "werent wont wouldnt couldnt shouldnt didnt hasnt havent hardly scarcely barely lack lacks lacking "
    "unless".split()
)
# Grammatical words: no transformation replaces them.
FUNCTION_WORDS = frozenset(
    "a an the this that these those some any each every all both either neither no not none nor and or but "
    "if then than so as of at by for from in into on onto off out over under up down to with within without "
    "about above across after against along among around before behind below beneath beside between beyond "
    "during except inside outside near like unlike past per since through throughout till toward towards until "
    "upon via i me my mine myself you your yours yourself he him his himself she her hers herself it its itself "
    "we us our ours ourselves they them their theirs themselves who whom whose which what when where why how be "
    "am is are was were been being have has had having do does did done doing can could may might must shall "
    "should will would ought need there here one ones other others another such same own very too also just "
    "only even still yet again once more most less least much many few several lot lots get gets got getting "
    "let lets go goes going went make makes made making take takes took taking yes please etc ever never "
    "always often sometimes now today well else cannot something anything "
    "everything someone anyone everyone somebody anybody everybody hundred hundreds thousand thousands million "
    "millions billion billions trillion trillions dozen dozens".split()
)
_ASCII = re.compile(r"\w+(?:'\w+)*")
_BEFORE = re.compile(r"[\s(\[{\"“‘'`¿¡,;:!?]?")
_AFTER = re.compile(r"$|[\s)\]}\"”’';!?]|[.,:](?:$|[\s)\"”’'])")


class Word(NamedTuple):
    """A word as written, and its first and end positions in the text."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in lower case, with straight apostrophes."""
        return self.text.lower().replace("’", "'")


class Edit(NamedTuple):
    """The text that replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(char for char in map(chr, range(0x20000)) if category(char)[0] == "M")
    return re.compile(rf"[\w{marks}]+(?:['’][\w{marks}]+)*")


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[Word, ...]:
    """Return the words of a text: runs of letters, marks and digits, with apostrophes inside."""
    found = (_ASCII if text.isascii() else _pattern()).finditer(text)
    return tuple(Word(match.group(), match.start(), match.end()) for match in found)


def stands_alone(text: str, word: Word) -> bool:
    """Return whether a word is not part of a hyphenated word, a URL, `@name`, `3.5` or the like."""
    before, after = text[max(0, word.start - 1) : word.start], text[word.end : word.end + 2]
    return bool(_BEFORE.fullmatch(before) and _AFTER.match(after))


def lower_words(text: str) -> set[str]:
    return {word.lower for word in words(text)}


def is_negated(text: str) -> bool:
    """Return whether a sentence contains a negation such as `not` or `n't`."""
    found = lower_words(text)
    return bool(NEGATIONS & found) or any(word.endswith(("n't", "'t")) for word in found)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text, from the last to the first."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def replace(text: str, word: Word, new: str) -> list[Edit]:
    """Return the edits that replace a word in the same case and correct `a` or `an` before it."""
    edits = [Edit(word.start, word.end, match_case(word.text, new))]
    before = re.search(r"(?:^|\s)(an?)\s+$", text[: word.start], re.IGNORECASE)
    if before:
        article = before.group(1)
        right = article[0] + ("n" if VOWEL_SOUND.match(new) else "")
        if article.lower() != right.lower():
            edits.append(Edit(*before.span(1), right))
    return edits


def match_case(old: str, new: str) -> str:
    """Return `new` in upper case, capitalized or unchanged, like `old`."""
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def in_style_of(text: str, addition: str) -> str:
    """Return `addition`, in lower case if `text` has no capital letter."""
    return addition if any(char.isupper() for char in text) else addition.lower()


PLURALS = frozenset("men women children people feet teeth mice geese lives wives kids".split())
COMPARED = {"better": "er", "worse": "er", "best": "est", "worst": "est"}
PASTS = frozenset(
    "ate began bought broke brought built came caught chose died did drank drew drove fell felt fought found flew "
    "gave went grew heard held kept knew laid led left lent lost made meant met paid ran rode rose said sang sat saw "
    "sold sent shot slept spent spoke stole stood swam taught told thought took threw understood woke won wore wrote "
    "gone done been seen taken given known grown flown driven ridden written eaten fallen broken spoken".split()
)  # irregular verbs, in a form other than the present


def form(word: str) -> str:
    """Return the ending that tells a word's form, so that `walk` does not replace `running`."""
    if word in PLURALS:
        return "s"
    if word in PASTS:
        return "ed"
    if word in COMPARED:
        return COMPARED[word]
    if word.endswith("ed") and len(word) > 3 and word[-3] != "e":
        return "ed"
    for ending in ("ing", "est", "er", "ly", "ness", "tion", "sion"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return ending
    return "s" if word.endswith("s") and not word.endswith(("ss", "us", "is")) else ""
