"""The ten transformations: what each does, its label, and what it leaves as it was."""

import re
import sys
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tags import load_wordnet
from keras_sentmatch.transformations import TRANSFORMATIONS, Lexicon, transform
from keras_sentmatch.transformations.english import (
    ADVERBS,
    KIND_OF,
    form,
    is_negated,
    stands_alone,
    words,
)

NLI = ("entailment", "neutral", "contradiction")
LEXICON = Lexicon(
    antonyms=[("hot", "cold"), ("up", "down"), ("old", "young"), ("élégant", "vilain"), ("men", "women")],
    synonyms=[("dog", "hound"), ("running", "jogging"), ("running", "run"), ("happy", "glad")],
)  # fmt: skip


def data(*pairs, labels="entailment", names=NLI, **more):
    labels = [labels] * len(pairs) if isinstance(labels, str) else labels
    one, two = zip(*pairs)
    return PairDataset(one, two, labels, label_names=names, **more)


def upper(sentences):
    return [sentence.upper() for sentence in sentences]


def change(name, one, two, **more):
    """What becomes of one pair: the sentences and the label's name, or None."""
    more = {"lexicon": LEXICON, "translate": upper} | more
    changed = transform(data((one, two)), name, **more)
    if not changed.count:
        return None
    after = changed.after
    return after.sentence1[0], after.sentence2[0], NLI[after.labels[0]]


# --- what each does ---


def table(text):
    return [line.split(" | ") for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    "one, two, expected",
    table("""
A man drinks  hot tea. | Somebody drinks hot\ttea. | Somebody drinks cold\ttea.
An old man. | OLD it is. | YOUNG it is.
An old man. | He is AN old man. | He is A young man.
A young man. | Young man. | Old man.
Men run. | Men are running. | Women are running.
Un élégant homme | L'homme est élégant | L'homme est vilain
Warm tea. | Hot tea. | - not in both
No tea is hot. | It is not hot tea. | -
Isn't tea hot? | Is tea hot? | -
Tea is hot or it is bad. | The hot tea. | -
If tea is hot, drink. | Tea is hot. | -
Hot and cold tea. | Tea is hot. | - the antonym is there already
Red-hot tea. | Is it red-hot tea | -
He walks up. | He goes up. | - no word that carries meaning alone
Is tea hot? | Tea is hot. | -
"""),
)
def test_swap_ant(one, two, expected):
    changed = None if expected.startswith("-") else (one, expected, "contradiction")
    assert change("SwapAnt", one, two) == changed


def test_the_form_of_textflint():
    form = {"form": "textflint", "lexicon": LEXICON}
    found = transform(data(("Hot tea.", "Tea is hot.")), "SwapAnt", **form).after
    assert [(found.sentence1, found.sentence2)] == [(("Tea is cold.",), ("Tea is hot.",))]
    both = ("In 2014 he ran 30 km.", "He ran 45 km.")
    for names, labels in ((NLI, [0, 1]), (("duplicate", "not_duplicate"), [0, 1])):
        pairs = PairDataset(*zip(both, both), labels, label_names=names)
        changed = transform(pairs, "NumWord", form="textflint").after
        assert {names[label] for label in changed.labels} == {names[2 if names is NLI else 1]}
        one, two = (r"(more than |less than )?.0 km\.", r"(more than |less than )?.5 km\.")
        for a, b in zip(changed.sentence1, changed.sentence2):
            assert re.fullmatch(f"In 2014 he ran {one}", a) and re.fullmatch(f"He ran {two}", b)
            assert ((a == both[0]), (b == both[1])) == (
                (False, True) if names is NLI else (True, False)
            )
    with pytest.raises(InputError, match="form='TextFlint' does not exist. Use own or textflint"):
        transform(data(("a", "b")), "AddPunc", form="TextFlint")


@pytest.mark.parametrize(
    "two, pattern",
    table("""
Two dogs run 5 km in 2014 at 1000 m | .*
two dogs | (three|four|five|six|seven|eight|nine|ten) dogs
5 km | (6|7|8|9|1[0-4]) km
in 2014 | in 20(1[5-9]|2[0-6])
at 1000 | at ([2-9]|10)000
at least two dogs | -
not two dogs | -
twenty dogs | -
0 dogs | -
one of them | -
June 28 | -
June 27 | June 28
version 3.5 of mp3 | -
٣ dogs | -
"""),
)
def test_num_word(two, pattern):
    for one in ("Nine cats.", "Dogs."):
        assert change("NumWord", one, two) is None, "the number must be in both"
    found = {change("NumWord", two, two, seed=seed) for seed in range(40)}
    if pattern == "-":
        assert found == {None}
        return
    changed = {sentence for _, sentence, _ in found}
    assert {label for *_, label in found} == {"contradiction"}
    assert two not in changed and len(changed) > (two != "June 27")
    assert all(re.fullmatch(pattern, sentence) for sentence in changed), changed


def test_add_sent():
    assert re.fullmatch(
        r"It runs\. (True|False) is (not )?(true|false)\.  ",
        change("AddSent", "a", "It runs.  ")[1],
    )
    one, two, label = change("AddSent", "a", "it runs")
    assert (one, label) == ("a", "entailment")
    assert re.fullmatch(r"it runs and (true|false) is (not )?(true|false)", two)
    assert change("AddSent", "a", " \n") is None


@pytest.mark.parametrize(
    "one, expected",
    table("""
A man is running. | A man is X running.
The dogs are\tin it | -
He has eaten a pie | He has X eaten a pie
He has a pie | -
How can I learn Go? | How can I X learn Go?
What is the best book? | What is X the best book?
Is it true? | Is it X true?
How does the brain work? | -
It isn't there | -
Dogs run | -
"""),
)
def test_insert_adv(one, expected):
    changed = change("InsertAdv", one, "b")
    if expected == "-":
        assert changed is None
    else:
        assert re.sub(rf"\b({'|'.join(ADVERBS)})\b", "X", changed[0], count=1) == expected
        assert changed[1:] == ("b", "entailment")


def test_append_irr_goes_to_the_premise_and_in_ranking_to_the_candidate():
    pair = "The tea is hot. ", "Tea grows"
    one, two, label = change("AppendIrr", *pair)
    assert pair[0].strip() in one and (two, label) == (pair[1], "entailment")
    assert "grows best" not in one, "what is irrelevant shares no word with the pair"
    ranking = data(pair, labels=[1], names=("no", "yes"), groups=["q"])
    after = transform(ranking, "AppendIrr").after
    assert after.sentence1[0] == pair[0] and pair[1] in after.sentence2[0]


def test_add_punc():
    assert re.fullmatch(
        r"[\"'{(\[`]Hot tea\.(\.\.\.|\.\.|,|;|!)[\"'})\]`] ", change("AddPunc", "a", "Hot tea. ")[1]
    )


def test_back_trans_translates_each_sentence_once():
    asked = []

    def translate(sentences):
        asked.extend(sentences)
        return [{"b": " b ", "c": "see"}[sentence] for sentence in sentences]

    changed = transform(
        data(("a", "b"), ("a", "c"), ("x", "c"), ("a", " ")), "BackTrans", translate=translate
    )
    assert asked == ["b", "c"] and changed.rows.tolist() == [1, 2]
    assert changed.after.sentence2 == ("see", "see")
    with pytest.raises(InputError, match="returned 2 values for 1 sentences"):
        transform(data(("a", "b")), "BackTrans", translate=lambda sentences: ["b", "c"])


def test_twitter_type():
    _, two, _ = change("TwitterType", "a", "Why are you  going to   see your people?")
    assert "Y r u  gonna   see ur ppl?" in two
    assert "forward" in change("TwitterType", "a", "step forward")[1]
    assert "you're" in change("TwitterType", "a", "you're")[1]


def test_swap_named_ent_in_both_sentences_alike():
    one, two, label = change("SwapNamedEnt", "I flew to Paris.", "Paris, in Paris")
    new = one.removeprefix("I flew to ").removesuffix(".")
    assert new != "Paris" and two == f"{new}, in {new}" and label == "entailment"
    for one, two in (
        ("I flew to Paris.", "I flew."),
        ("China and the Chinese", "in China"),
        ("Bank of China is big", "the Bank of China"),
        ("In Paris", "Is it Paris-bound, in Paris?"),
        ("We saw Mary Smith", "Here Mary Smith is"),
        ("Paris is in France", "France has Paris"),
        ("in paris", "to paris"),
    ):
        assert change("SwapNamedEnt", one, two) is None, (one, two)


def test_swap_syn():
    assert change("SwapSyn", "a", "The Dog is running")[1] in (
        "The Dog is jogging",  # `run` is another form, and Dog may be a name
    )
    assert change("SwapSyn", "a", "dog")[1] == "hound"
    assert change("SwapSyn", "a hound", "dog") is None
    assert change("SwapSyn", "a", "running out") is None
    opposed = Lexicon(antonyms=[("big", "small")], synonyms=[("big", "small"), ("big", "bigger")])
    assert change("SwapSyn", "a", "big", lexicon=opposed) is None


# --- label rules ---


@pytest.mark.parametrize("name", ["SwapAnt", "NumWord"])
@pytest.mark.parametrize(
    "names",
    table("""
entailment | contradiction | neutral
entailment | not_entailment
entailment | neutral
paraphrase | not_paraphrase
duplicate | not_duplicate
"""),
)
def test_only_positive_pairs_become_negative(name, names):
    old, new, order = *names[:2], names[::-1]
    pairs = data(*[("two hot teas",) * 2] * len(names), labels=order, names=order)
    changed = transform(pairs, name, lexicon=LEXICON)
    assert changed.rows.tolist() == [order.index(old)]
    assert (changed.count, changed.total) == (1, len(names))
    assert changed.before.label_counts()[old] == changed.after.label_counts()[new] == 1


def test_other_label_names_must_be_told():
    pairs = data(("two", "two"), labels=["yes"], names=("no", "yes"))
    with pytest.raises(InputError, match=r"which of the labels no, yes .*opposite="):
        transform(pairs, "NumWord")
    changed = transform(pairs, "NumWord", opposite=("yes", "no"))
    assert changed.after.label_counts() == {"no": 1, "yes": 0}
    with pytest.raises(InputError, match="names 'maybe', which is not a label"):
        transform(pairs, "NumWord", opposite=("yes", "maybe"))
    with pytest.raises(InputError, match="names one label twice"):
        transform(pairs, "NumWord", opposite=("yes", "yes"))
    for bad in (data(("a", "b"), labels=None), PairDataset(["a"], ["b"], [0.5])):
        with pytest.raises(InputError, match="Give pairs labeled with classes"):
            transform(bad, "NumWord")


def test_everything_else_of_a_pair_stays():
    pairs = data(
        ("a", " "), ("a", "b"), ids=["p", "q"], columns={"tags_1": ["x", "y"]}, name="sick"
    )
    after = transform(pairs, "AddPunc").after
    assert (after.ids, after.columns, after.name) == (("q",), {"tags_1": ("y",)}, "sick")
    assert transform(PairDataset(["a"], ["b"], [0.5]), "AddPunc").after.labels.tolist() == [0.5]
    assert transform(PairDataset(["a"], ["b"]), "AddPunc").after.labels is None


# --- errors ---


@pytest.mark.parametrize(
    "name, lexicon, message",
    [
        ("SwapAnts", None, "no transformation 'SwapAnts'.* Did you mean SwapAnt"),
        ("swapant", None, "SwapAnt needs antonyms, but no lexicon was given"),
        ("SwapSyn", Lexicon(antonyms=[]), "SwapSyn needs synonyms, but the lexicon has no synon"),
        ("BackTrans", None, "Give translate="),
    ],
)
def test_clear_errors(name, lexicon, message):
    with pytest.raises(InputError, match=message):
        transform(data(("a", "b")), name, lexicon=lexicon)


# --- properties of all ---

SENTENCES = st.lists(
    st.sampled_from(
        "Two two dogs dog are is running hot cold OLD young 5 2014 Paris India and for you an a élégant 日本 "
        "🙂 naïve don't cafe\u0301 un- (hot) dog's Mary, . ? n't happy What the".split()
    )
    | st.text(max_size=4),
    max_size=9,
).flatmap(
    lambda parts: st.sampled_from(["  ", " ", "\t", "\u00a0"]).map(lambda space: space.join(parts))
)
PAIRS = st.lists(
    st.tuples(SENTENCES, SENTENCES) | SENTENCES.map(lambda s: (s, s)), min_size=1, max_size=6
)
each = pytest.mark.parametrize("name", TRANSFORMATIONS)


def outcome(name, pairs, seed):
    labels = [NLI[len(one + two) % 2 * 2 - len(one) % 2] for one, two in pairs]
    return transform(data(*pairs, labels=labels), name, seed=seed, lexicon=LEXICON, translate=upper)


@each
@settings(max_examples=30, deadline=None)
@given(pairs=PAIRS, seed=st.integers(0, 3))
def test_an_outcome_depends_on_seed_and_pair_alone(name, pairs, seed):
    def by_row(rows):
        changed = outcome(name, [pairs[row] for row in rows], seed)
        sentences = zip(changed.after.sentence1, changed.after.sentence2, changed.after.labels)
        return dict(zip((rows[row] for row in changed.rows), sentences))

    rows = list(range(len(pairs)))
    whole = by_row(rows)
    assert by_row(rows) == whole == by_row(rows[::-1])
    assert by_row(rows[-1:]) == {row: found for row, found in whole.items() if row == rows[-1]}


LONG_NAMES = re.compile("|".join(name for name in KIND_OF if " " in name))


def rest(before, after):
    """Words that differ, where as many stand in the same spacing; "New York" is one."""
    texts = [LONG_NAMES.sub(lambda name: name[0].replace(" ", ""), x) for x in (before, after)]
    split = [re.split(r"((?:(?!_)[\w'’\u0301])+)", text) for text in texts]
    assert len(split[0]) == len(split[1]) and split[0][::2] == split[1][::2]
    return [(a, b) for a, b in zip(split[0][1::2], split[1][1::2]) if a != b]


@each
@settings(max_examples=40, deadline=None)
@given(pairs=PAIRS, seed=st.integers(0, 3))
def test_labels_and_rows_are_as_promised_and_the_rest_stays(name, pairs, seed):
    changed = outcome(name, pairs, seed)
    before, after = changed.before, changed.after
    labels = [[0] * changed.count, [2] * changed.count]
    if TRANSFORMATIONS[name].keeps_label:
        labels = [before.labels.tolist()] * 2
    assert [before.labels.tolist(), after.labels.tolist()] == labels
    olds, news = (list(zip(side.sentence1, side.sentence2)) for side in (before, after))
    assert olds == [pairs[row] for row in changed.rows]
    for (b1, b2), (a1, a2) in zip(olds, news):
        assert (b1, b2) != (a1, a2)
        if name in ("InsertAdv", "AppendIrr"):
            assert a2 == b2
        elif name != "SwapNamedEnt":
            assert a1 == b1
        if name in ("SwapAnt", "NumWord", "SwapSyn", "SwapNamedEnt"):
            others = [words for words in rest(b2, a2) if words[0].lower() not in ("a", "an")]
            if name == "SwapNamedEnt":
                assert {old for old, _ in others} <= {"Paris", "India", "Mary"}
            else:
                assert 1 <= len(others) <= (1 if name != "SwapSyn" else max(1, len(words(b2)) // 5))
        elif name == "InsertAdv":
            assert b1 in {re.sub(rf" {adverb}", "", a1, count=1) for adverb in ADVERBS}
        elif name in ("AddSent", "AddPunc", "AppendIrr"):
            old, new = (b1, a1) if name == "AppendIrr" else (b2, a2)
            assert old.strip() in new and len(new) > len(old)


# --- words and lexicons ---


@settings(deadline=None)
@given(st.text(max_size=30))
def test_words_stand_where_they_say(text):
    for word in words(text):
        assert text[word.start : word.end] == word.text and not re.search(r"\s", word.text)
        stands_alone(text, word)
        form(word.lower)


def test_marks_belong_to_their_words():
    assert [word.text for word in words("cafe\u0301 naïve don’t 5x _a")] == [
        "cafe\u0301", "naïve", "don’t", "5x", "_a",
    ]  # fmt: skip
    assert is_negated("He DON’T") and is_negated("is n't") and not is_negated("note")


def test_lexicon_pairs():
    assert Lexicon(antonyms={"up": "down"}).antonyms("down") == ("up",)
    for bad in (["up"], [("up", "down", "left")], {"up": ["down"]}):
        with pytest.raises(InputError, match="is not a pair of words"):
            Lexicon(antonyms=bad)


def test_lexicon_files(tmp_path):
    antonyms = tmp_path / "my_antonyms.txt"
    antonyms.write_text("Hot cold\n\nup down \n")
    (tmp_path / "other.txt").write_text("no pair of words\n")
    lexicon = Lexicon.read(tmp_path)
    assert lexicon.kinds == ("antonyms",) and lexicon.antonyms("cold") == ("hot",)
    assert lexicon.synonyms("cold") == ()
    (tmp_path / "synonyms.txt").write_text("big large\n")
    lexicon = Lexicon.read(antonyms, tmp_path / "synonyms.txt")
    assert lexicon.synonyms("large") == ("big",) and lexicon.antonyms("up") == ("down",)
    antonyms.write_text("one two three\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "antonyms_synonyms.txt").write_text("hot cold\n")
    for source, message in (
        (tmp_path / "other.txt", "has no antonyms or synonyms. Give files with two words per line"),
        (tmp_path / "empty", "has no antonyms or synonyms"),
        (tmp_path / "antonyms_2.txt", "antonyms_2.txt does not exist"),
        (tmp_path / "antonyms_synonyms.txt", "names a file after antonyms and synonyms"),
        (antonyms, "my_antonyms.txt:1: the line .* has 3 words"),
    ):
        with pytest.raises(InputError, match=message):
            Lexicon.read(source)


def test_wordnet(monkeypatch):
    def lemma(name, *antonyms):
        return types.SimpleNamespace(name=lambda: name, antonyms=lambda: [*map(lemma, antonyms)])

    senses = {
        "hot": [[lemma("hot", "cold", "ice_cold"), lemma("scorching")], [lemma("spicy")]],
        "dogs": [[lemma("dog"), lemma("hound")]],
    }

    def synsets(word):
        found = senses.get(word, [])
        return [types.SimpleNamespace(lemmas=lambda sense=sense: sense) for sense in found]

    net = types.SimpleNamespace(synsets=synsets)
    monkeypatch.setattr("keras_sentmatch.transformations.lexicon.load_wordnet", lambda: net)
    lexicon = Lexicon.read("wordnet")
    assert lexicon.kinds == ("antonyms", "synonyms")
    assert lexicon.antonyms("hot") == ("cold",) and lexicon.synonyms("hot") == ("scorching",)
    assert lexicon.synonyms("dogs") == lexicon.antonyms("dogs") == ()


def test_wordnet_as_it_is_installed():
    pytest.importorskip("nltk")
    try:
        lexicon = Lexicon.wordnet()
    except InputError as error:
        pytest.skip(str(error))
    assert "cold" in lexicon.antonyms("hot") and "hot" in lexicon.antonyms("cold")
    assert {"automobile", "auto"} <= set(lexicon.synonyms("car"))
    assert lexicon.antonyms("zzz") == lexicon.synonyms("zzz") == ()


def test_without_nltk_it_is_said_how_to_get_wordnet(monkeypatch):
    load_wordnet.cache_clear()
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    with pytest.raises(InputError, match="WordNet cannot be loaded .*nltk.downloader"):
        Lexicon.wordnet()


@pytest.mark.parametrize("name", ["SwapAnt", "NumWord", "AppendIrr", "AddSent", "SwapSyn"])
def test_what_training_may_write_is_not_held_out(name):
    nouns = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]  # ten pairs
    entries = list(zip(nouns[::2], nouns[1::2]))
    lexicon = Lexicon(**{"synonyms" if name == "SwapSyn" else "antonyms": entries})
    pairs = data(*((f"A {word} saw two dogs.",) * 2 for word in nouns))
    written = {}
    for entries in ("train", "held_out"):
        made = [
            transform(pairs, name, seed=seed, lexicon=lexicon, entries=entries)
            for seed in range(20)
        ]
        written[entries] = {
            new.replace(old, "")
            for change in made
            for side in ("sentence1", "sentence2")
            for old, new in zip(getattr(change.before, side), getattr(change.after, side))
        } - {""}
    assert written["train"] and written["held_out"]
    assert not written["train"] & written["held_out"]
    with pytest.raises(InputError, match="entries='some' does not exist. Use all, train, held_out"):
        transform(pairs, name, lexicon=lexicon, entries="some")
