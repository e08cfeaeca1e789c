"""English words and phrases that the transformations write or look for."""

NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
# Words before a number that keep a greater one from contradicting.
BOUNDS = frozenset(
    "least most more less fewer than over under above below up about around nearly almost approximately some "
    "between or maybe minimum maximum minus plus every any per top".split()
)
# Words beside which the opposite of a word may not change the meaning.
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
# Words that no adverb is put before.
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
