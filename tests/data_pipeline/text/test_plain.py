"""Ids without TensorFlow: equal to those of its operations, for every tokenizer."""

import functools
import json
import random
import unicodedata

import pytest
import tensorflow as tf

from data_pipeline.text import byte_pairs, normalization, opening, plain, wordpiece
from tests.data_pipeline import original_words
from tests.data_pipeline.text import test_roberta, test_unigram

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ALL = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
# Letters that plain.py does not decompose, as its docstring says.
WITH_ACCENTS = [
    0x105C9,
    0x105E4,
    0x11383,
    0x11385,
    0x1138E,
    0x11391,
    0x113C5,
    0x113C7,
    0x113C8,
    *range(0x16121, 0x16129),
    0x16D68,
    0x16D69,
    0x16D6A,
]
# Classes in Unicode 15, which Python 3.11 does not have: mark, sign, format; a sign of
# Unicode 16; and what has had its class for long.
CLASSES = {
    "\u0ece": "Mn",
    "\U00011b00": "P",
    "\U00013439": "Cf",
    "\u1b4e": "P",
    "\u1734": "Mc",
    "\u0301": "Mn",
    "。": "P",
}
ODD = [
    "",
    " ",
    "\t\n\r",
    "[MASK] ##a [UNK]",
    "a\0b\x07c\xadd\ufffde",
    "é e\u0301 É",
    "x" * 200,
    "x" * 201,
    f"a {'y' * 201} b",
    f"{'x' * 150},{'x' * 150}",
    "中" * 300,
    "ΑΣ ΑΣΑ Σ ΣΑ\u0301Σ\u0301",
    "a\x0bb\x1cc\x85d\u2028e\u3000f",
    "İSTANBUL",
    "𐐀 \U0001f600",
    "\u0600a\u200bb",
    "don't,stop",
    "\ue000 \U0010ffff",
]


@functools.cache
def sharp(lower, added=(), rules=None):
    """Knows every character, beginning a word and within one."""
    known = [*original_words.ASSIGNED, *(f"##{c}" for c in original_words.ASSIGNED)]
    vocab = [*SPECIAL, *known, *dict(added)]
    return wordpiece.BertTokenizer(vocab, lower, dict(added), rules)


def unequal(tokenizer, texts):
    """The texts that the operations and Python cut differently."""
    both = tokenizer.tokenize(texts).to_list(), tokenizer.to_ids(texts)
    return [text for text, a, b in zip(texts, *both, strict=True) if a != b]


def any_texts(count, seed):
    """Texts of all planes, and of what has a class that matters."""
    rng = random.Random(seed)
    pools = [ALL[:0x3000], ALL, "".join(CLASSES), " \t,.aAéΑς中", *original_words.POOLS]
    return [
        "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(40)))
        # Its form depends on neighbours that are newer than TensorFlow's tables.
        .replace("Σ", "Δ")
        for _ in range(count)
    ]


@pytest.mark.parametrize("lower", [pytest.param(True, marks=pytest.mark.slow), False])
def test_texts_of_all_planes_have_the_ids_of_the_operations(lower):
    tokenizer, texts = sharp(lower), [*ODD, *any_texts(4000, 1)]
    wrong = unequal(tokenizer, texts)
    assert not [t for t in wrong if not {*map(ord, t)} & {*WITH_ACCENTS}]
    other = sharp(not lower).to_ids(texts)
    pairs = zip(other, tokenizer.to_ids(texts), strict=True)
    assert sum(a != b for a, b in pairs) > 1000
    unknown = sum(ids.count(tokenizer.unk_id) for ids in other)
    assert unknown < 0.2 * sum(map(len, other))  # else equality would mean little


RULES = [  # lower-cases, strips accents, isolates ideographs, splits at punctuation
    normalization.WordRules(*values)
    for values in (
        (True, True, False, True),
        (False, False, True, False),
        (True, False, True, True),
        (True, False, False, True),
        (False, True, False, True),
        (True, False, False, False),
    )
]


@pytest.mark.parametrize(
    "rules",
    RULES[:1] + [pytest.param(each, marks=pytest.mark.slow) for each in RULES[1:]],
)
def test_other_rules_have_the_ids_of_the_operations(rules):
    tokenizer, texts = sharp(None, (), rules), [*ODD, *any_texts(1000, 4)]
    wrong = unequal(tokenizer, texts)
    assert not [t for t in wrong if not {*map(ord, t)} & {*WITH_ACCENTS}]
    tokenize = tf.function(tokenizer.tokenize, [tf.TensorSpec([None], tf.string)])
    assert tokenize(tf.constant(texts)).to_list() == tokenizer.tokenize(texts).to_list()
    usual = sharp(rules.lowers).to_ids(texts)
    pairs = zip(usual, tokenizer.to_ids(texts), strict=True)
    assert sum(a != b for a, b in pairs) > 50
    # The library, whose tables are of other versions of Unicode.
    known = [t for t in texts if max(t, default="") <= "\u02ff" and len(t) < 200]
    known.remove("[MASK] ##a [UNK]")  # which is special there
    encoded = tokenizer.library().encode_batch(known, add_special_tokens=False)
    assert [row.ids for row in encoded] == tokenizer.to_ids(known)


def test_classes_are_those_of_the_operations(monkeypatch):
    for char, name in CLASSES.items():
        expected = tf.strings.regex_full_match(char, rf"\p{{{name}}}").numpy()
        assert expected or char == "\u1b4e"  # the word-piece operation knows it
    texts = [f"a{char}b" for char in CLASSES]
    assert not unequal(sharp(True), texts)
    # What Python says alone would be other words.
    monkeypatch.setattr(plain, "_CLASS", {})
    fresh = functools.cache(plain._apart.__wrapped__)
    monkeypatch.setattr(plain, "_apart", fresh)
    for name in ("_CLEAN", "_NO_MARKS"):
        table = plain._Table(getattr(plain, name)._replacement)
        monkeypatch.setattr(plain, name, table)
    is_new = [unicodedata.category(char) == "Cn" for char in CLASSES]
    assert len(unequal(sharp(True), texts)) >= sum(is_new) - 1


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_every_code_point_has_the_ids_of_the_operations(lower):
    vocab = [*SPECIAL, *ALL, *(f"##{char}" for char in ALL)]
    whole = wordpiece.BertTokenizer(vocab, lower)
    without = wordpiece.BertTokenizer([*SPECIAL, *ALL], lower)
    wanted = [*map(chr, WITH_ACCENTS)] if lower else []
    for tokenizer, form in ((whole, "{0}"), (whole, "a{0}b"), (whole, "{0}{0}"),
                            (without, "{0} {0}")):  # fmt: skip
        wrong = unequal(tokenizer, [form.format(char) for char in ALL])
        assert wrong == [form.format(char) for char in wanted]


def test_every_character_makes_the_pieces_that_expressions_allow():
    lone = normalization.CASED.lone
    deleted = rf"{normalization._DELETED}\t\n\r\p{{Z}}"
    pattern = rf"(?:##)?[^{lone}{deleted}]+|[{lone}]"
    chars = original_words.ASSIGNED[::7]
    for form in ("{0}", "##{0}", "a{0}b", "##"):
        tokens = [form.format(char) for char in chars]
        wanted = tf.strings.regex_full_match(tokens, pattern).numpy().tolist()
        assert [*map(wordpiece.is_piece, tokens)] == wanted


ADDED = {
    "<br>": False,
    "<br><br>": False,
    "New York": False,
    "ÉA": True,
    "new  word": True,
    "##x": True,
    ",a": False,
}


@pytest.mark.parametrize("lower", [True, False])
def test_added_tokens_are_found_as_the_operations_find_them(lower):
    tokenizer = sharp(lower, (*ADDED.items(),))
    texts = [
        "<br>",
        "a<br>b",
        "<br><br><br>",
        "in New York,a",
        "New  York",
        "éa ea ÉA",
        "new  word",
        "NEW\t\nword",
        "new word",
        "a##xb",
        "<BR>",
        "x" * 201 + "<br>",
        "\x01<br>\x02",
        f"a{'x' * 150}ÉA{'x' * 150}",
    ]
    rng = random.Random(3)
    pool = [*ADDED, *" \t,aÉe中\u0301", "<b", "r>"]
    texts += ["".join(rng.choices(pool, k=12)) for _ in range(500)]
    assert not unequal(tokenizer, texts)
    pairs = zip(sharp(lower).to_ids(texts), tokenizer.to_ids(texts), strict=True)
    assert sum(a != b for a, b in pairs) > 400


def test_half_a_surrogate_pair_is_refused_by_both():
    for tokenizer in (sharp(True), test_roberta.make()):
        for cut in (tokenizer.tokenize, tokenizer.to_ids):
            with pytest.raises(ValueError, match=r"unicode string|surrogates not"):
                cut(["a", "b \ud800"])


def test_recorded_texts_have_recorded_ids(shared_file):
    recorded = shared_file("golden/tokenization.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in recorded.split("\n") if line]
    texts = [row["text"] for row in rows]
    assert len(texts) == 299
    for name, lower in (("uncased", True), ("cased", False)):
        path = shared_file(f"data/vocab/bert-base-{name}-vocab.txt")
        tokenizer = wordpiece.BertTokenizer.from_file(str(path), lower)
        assert tokenizer.to_ids(texts) == [row["ids"][name] for row in rows]


BYTES = [
    "",
    " ",
    "the sea",
    " the",
    "The  sea is",
    "the\n\nsea's été",
    "\ufffd é▁",
    "\n",
    "日本語" * 30,
    "\0a\x85b",
    "<s> </s> <mask>",
    "\U0001f600 it's 12.5",
]


@pytest.mark.parametrize("adds_space", [True, False])
def test_bytes_have_the_ids_of_the_operations(adds_space):
    tokenizer = test_roberta.make(adds_space)
    assert not unequal(tokenizer, [*BYTES, *any_texts(500, 2)])
    plain_text = byte_pairs.Gpt2Tokenizer(tokenizer.vocab, tokenizer.merges)
    assert not unequal(plain_text, [*BYTES, *any_texts(500, 3)])
    assert test_roberta.make(not adds_space).to_ids(BYTES) != tokenizer.to_ids(BYTES)
    for text, recorded in test_roberta.RECORDED.items():
        assert tokenizer.to_ids([text]) == [recorded[adds_space]]


def test_gpt_has_the_same_ids_in_both():
    letters = [*"abcdefghijklmnopqrstuvwxyz,.'"]
    vocab = [*letters, *(f"{letter}</w>" for letter in letters), "<unk>"]
    tokenizer = byte_pairs.GptTokenizer(vocab, [])
    texts = ["The sea, is", "", "É 中", "don't"]
    assert not unequal(tokenizer, texts)
    assert tokenizer.to_ids(["B."]) == [[vocab.index("b</w>"), vocab.index(".</w>")]]


@pytest.mark.parametrize("kind", ["albert", "xlm-roberta"])
def test_unigrams_have_the_ids_of_the_operations(kind, tmp_path):
    path = tmp_path / (
        "spiece.model" if kind == "albert" else "sentencepiece.bpe.model"
    )
    test_unigram.write_model(path, kind)
    tokenizer = opening.open_vocabulary(str(path))
    texts = [
        *BYTES,
        "the sea, ``is'' (a) 99,",
        "<s>the</s>",
        "[MASK] [CLS]",
        "ＡＢ\xa0sea",
        "▁the",
        "<mask>",
        "<pad>",
        "<unk>",
        "thethe sea\u3000s",
        "i\u0307σΣ",
    ]
    assert not unequal(tokenizer, texts)
    assert len({*map(tuple, tokenizer.to_ids(texts))}) > 15
