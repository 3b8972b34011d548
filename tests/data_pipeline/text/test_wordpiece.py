"""The tokenizer against a slow reading of the original's rules, and recorded ids."""

import functools
import json
import random

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipeline.text import base, normalization, wordpiece
from tests.data_pipeline import original_words

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def reference_pieces(word, ids):
    begin, pieces = 0, []
    while begin < len(word) <= 200:
        mark = "##" if begin else ""
        ends = range(len(word), begin, -1)
        end = next((end for end in ends if mark + word[begin:end] in ids), None)
        if end is None:
            return [ids["[UNK]"]]
        pieces.append(ids[mark + word[begin:end]])
        begin = end
    return pieces or [ids["[UNK]"]]


def reference(line, ids, lower):
    words = original_words.reference_words(line, lower)
    return [piece for word in words for piece in reference_pieces(word, ids)]


def disagreements(tokenizer, lines):
    """The lines that the tokenizer and the rules cut differently, with both cuts."""
    ids = {token: index for index, token in enumerate(tokenizer.vocab)}
    got = tokenizer.tokenize(lines).to_list()
    assert len(got) == len(lines) > 0
    wanted = [reference(line, ids, tokenizer.do_lower_case) for line in lines]
    return [row for row in zip(lines, got, wanted, strict=True) if row[1] != row[2]]


# Vocabularies and texts.


@functools.cache
def sharp_tokenizer(lower):
    """Knows nearly every character by itself, so that hardly an error hides in [UNK].

    Of the blocks that are all alike (ideographs, syllables, hieroglyphs) it knows one
    character in forty.
    """
    alike = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x16000, 0x10FFFF))
    known = [
        char
        for index, char in enumerate(original_words.ASSIGNED)
        if not any(first <= ord(char) <= last for first, last in alike)
        or index % 40 == 0
    ]
    vocab = [*SPECIAL, *known, *(f"##{char}" for char in known)]
    return wordpiece.BertTokenizer(vocab, lower)


@functools.cache
def letter_tokenizer(lower=True):
    letters = "abcdefghijklmnopqrstuvwxyzABCß[]!.,-'#中文éжไ𐐷ςσ²ﬁ"
    return wordpiece.BertTokenizer(
        [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), "##ing"], lower
    )


def tokens_of(tokenizer, line):
    return tokenizer.ids_to_tokens(tokenizer.tokenize(line).numpy())


@pytest.fixture
def write_vocab(tmp_path):
    def write(content):
        path = tmp_path / "vocab.txt"
        path.write_bytes(content)
        return str(path)

    return write


RELEASED = ("uncased", "cased", "chinese", "multilingual_cased")


@pytest.fixture(params=RELEASED)
def released(request, shared_file):
    """A released vocabulary's name in the recordings, and its tokenizer."""
    name = request.param
    path = shared_file(f"data/vocab/bert-base-{name.replace('_', '-')}-vocab.txt")
    lower = name in ("uncased", "chinese")
    return name, wordpiece.BertTokenizer.from_file(str(path), lower)


# Equality with the original.


def test_released_vocabularies_give_recorded_ids(released, shared_file):
    name, tokenizer = released
    recorded = shared_file("golden/tokenization.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in recorded.split("\n") if line]
    assert len(rows) == 299
    got = tokenizer.tokenize([row["text"] for row in rows]).to_list()
    assert got == [row["ids"][name] for row in rows]
    other = wordpiece.BertTokenizer(tokenizer.vocab, not tokenizer.do_lower_case)
    assert other.tokenize([row["text"] for row in rows]).to_list() != got


@pytest.mark.slow  # every day random lines are cut
@pytest.mark.parametrize("lower", [True, False])
def test_every_character_is_cut_as_the_rules_say(lower):
    lines = [f"{char} {char}{char} a{char}b" for char in original_words.ASSIGNED]
    assert len(lines) > 140_000
    assert not disagreements(sharp_tokenizer(lower), lines)


@pytest.mark.slow
def test_released_vocabularies_cut_every_character_as_the_rules_say(released):
    _, tokenizer = released
    assert not disagreements(
        tokenizer, [f"{char} a{char}b" for char in original_words.ASSIGNED]
    )


@pytest.mark.parametrize("lower", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_random_lines_are_cut_as_the_rules_say(lower):
    lines = original_words.random_lines(6_000, original_words.POOLS, seed=1)
    # Without sigma, whose form depends on neighbours that TensorFlow does not know.
    lines += [
        line.replace("Σ", "Δ")
        for line in original_words.random_lines(
            3_000, [*original_words.POOLS[:3], original_words.ASSIGNED], seed=2
        )
    ]
    tokenizer = sharp_tokenizer(lower)
    assert not disagreements(tokenizer, lines)
    ids = tokenizer.tokenize(lines).values
    unknown = tf.reduce_mean(tf.cast(ids == tokenizer.unk_id, tf.float32))
    assert unknown < 0.35  # else equality would mean little


@pytest.mark.parametrize(
    ("line", "lower", "tokens"),
    [
        ("", True, []),
        (" \t\r\n\u3000", True, []),
        ("Cab", True, ["c", "##a", "##b"]),
        ("zing!", True, ["z", "##ing", "!"]),
        ("e\u0301", False, ["[UNK]"]),  # composed by no one
        ("a\u200bb", True, ["a", "##b"]),  # a format character is not a space
        ("a\u2028b\u2029c", True, ["a", "b", "c"]),
        ("a\x85b\x0bc", True, ["a", "##b", "##c"]),
        ("a中文b", True, ["a", "中", "文", "b"]),
        ("[MASK]", True, ["[", "m", "##a", "##s", "##k", "]"]),
        ("ΑΣ ΣΣ", True, ["[UNK]", "σ", "##ς"]),
        ("²", True, ["²"]),  # compatibility characters stay
        ("ﬁ", True, ["ﬁ"]),
        ("STRAßE", True, ["s", "##t", "##r", "##a", "##ß", "##e"]),
        ("İI", True, ["i", "##i"]),
    ],
)
def test_line_gives_tokens(line, lower, tokens):
    assert tokens_of(letter_tokenizer(lower), line) == tokens


@pytest.mark.parametrize("char", ["a", "é", "𐐷"])
@pytest.mark.parametrize("lower", [True, False])
def test_words_of_more_than_200_characters_are_unknown(char, lower):
    tokenizer = letter_tokenizer(lower)
    for length in (200, 201, 801):
        ids = tokenizer.tokenize(f"b.{char * length}\u3000b").numpy().tolist()
        assert len(ids) == 3 + (length if length <= 200 else 1)
        assert (length > 200) == (tokenizer.unk_id in ids)
    lines = [
        join(char, count)
        for count in (100, 199, 200, 201)
        for join in (
            lambda char, count: f"{char * count}.{char * count}中{char * count}",
            lambda char, count: f"{char * count}\u00a0{char * 9}\n{char * count}",
            lambda char, count: f"{char * count}\u2028{char * count}",
            lambda char, count: f"{char}\u0301" * count,  # counted without marks
            lambda char, count: f"{char}\u00ad" * count,
            lambda char, count: "A" * count + char,
        )
    ]
    assert not disagreements(tokenizer, lines)


def test_invalid_utf8_is_ignored():
    rng = random.Random(3)
    often = b"ab .\xe4\xb8\xad\xf0\x9f\x98\x80\xc3\xa9\xed\xa0\xc0\xf4\x90\xe0\xff\0"
    lines = [
        bytes(
            rng.choice((rng.randrange(256), rng.choice(often)))
            for _ in range(rng.randrange(12))
        )
        for _ in range(5_000)
    ]
    broken = [line.decode("utf-8", "ignore").encode() != line for line in lines]
    assert sum(broken) > 1_000
    assert not disagreements(sharp_tokenizer(True), lines)
    assert not disagreements(sharp_tokenizer(False), lines)


# Vocabularies.


def test_later_duplicates_take_the_id(write_vocab):
    lines = [*SPECIAL, "a", "\u2028", "##a", "a", "\u3000 ", "b", "##a"]
    path = write_vocab("".join(f"{line}\n" for line in lines).encode())
    vocab = base.read_vocab(path)
    assert vocab == [*SPECIAL, "a", "", "##a", "a", "", "b", "##a"]
    tokenizer = wordpiece.BertTokenizer.from_file(path)
    assert tokenizer.vocab_size == 12
    assert tokenizer.tokenize("a aa b").numpy().tolist() == [8, 8, 11, 10]
    assert tokenizer.spellings()[5:] == ["a", "", "a", "a", "", "b", "a"]
    swapped = wordpiece.BertTokenizer([*vocab[:8], "c", *vocab[9:]])
    assert swapped.tokenize("a").numpy().tolist() == [5]


HOSTILE = """
    a ##a ab ##ab a-b ##-b - ##- -- -a 中 中国 ##中 中a a中 # ## ### . ##. a. ##a. .a
    A ##A é e ##e $ ##$ a$ Σ ##ς ##σ ß ı 😀 ##😀 [ [a ] ##] [7] [12] [UNK] ####a ##a##a
"""
ENTRIES = [*HOSTILE.split(), "", " ", "a b", "##a b", "##\u3000", "\n", "x" * 150]
ENTRIES += ["\u0301", "##\u0301", "a\u0301", "\ufffd", "##\u00ada"]
ENTRIES += ["\x00", "##\x00", "\x10", "\x11"]
CHARACTERS = [*"aab--..中国#$ []éA\u0301\xad\u3000eΣςß😀\x01", "##", "a-b", "[7]"]


@settings(max_examples=10)
@given(
    st.lists(st.sampled_from([*SPECIAL, *ENTRIES]), unique=True, min_size=10),
    st.booleans(),
)
def test_entries_that_no_text_contains_do_no_harm(entries, lower):
    missing = [token for token in SPECIAL if token not in entries]
    tokenizer = wordpiece.BertTokenizer([*entries, *missing, "a"], lower)
    lines = original_words.random_lines(900, [CHARACTERS], seed=5)
    assert not disagreements(tokenizer, lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vocab.txt: the vocabulary is empty"),
        (
            b"[UNK]\na\xff\n",
            "vocab.txt:2: byte 0xff, number 2 of the line, is not UTF-8",
        ),
        (b"[UNK]\na\n", r"vocab.txt: .* 2 tokens lacks \[CLS\], \[SEP\]; give"),
        (b"[UNK]\n[CLS]\n[SEP]\n", "vocab.txt: none of the 3 tokens"),
        (
            b"[UNK]\n[CLS]\n[SEP]\n" + b"x" * 257,
            "vocab.txt: the token of line 4 has 257 bytes, and the limit is 256",
        ),
    ],
)
def test_wrong_vocabulary_is_named(write_vocab, content, message):
    with pytest.raises(ValueError, match=message):
        wordpiece.BertTokenizer.from_file(write_vocab(content))
    with pytest.raises(FileNotFoundError, match=r"none.txt: no such file"):
        wordpiece.BertTokenizer.from_file("none.txt")


# Where it runs.


def test_ids_outside_the_vocabulary_have_no_token():
    tokenizer = letter_tokenizer()
    for outside in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=f"id {outside} is outside 0.."):
            tokenizer.ids_to_tokens([0, outside])


def test_every_character_makes_the_pieces_that_expressions_allow():
    lone = normalization.CASED.lone
    deleted = rf"{normalization._DELETED}\t\n\r\p{{Z}}"
    pattern = rf"(?:##)?[^{lone}{deleted}]+|[{lone}]"
    chars = original_words.ASSIGNED[::7]
    for form in ("{0}", "##{0}", "a{0}b", "##"):
        tokens = [form.format(char) for char in chars]
        wanted = tf.strings.regex_full_match(tokens, pattern).numpy().tolist()
        assert wordpiece.are_pieces(tokens).tolist() == wanted


def test_half_a_surrogate_pair_is_refused():
    for cut in (letter_tokenizer().tokenize, letter_tokenizer().to_ids):
        with pytest.raises(ValueError, match=r"unicode string|surrogates not"):
            cut(["a", "b \ud800"])
