"""The words of a text against a slow reading of the original's rules."""

import pytest
import tensorflow as tf

from data_pipeline.text import normalization, wordpiece
from tests.data_pipeline import original_words


def words_of(lines, lower):
    rows = normalization.split_words(tf.constant(lines), lower).to_list()
    return [[word.decode() for word in row] for row in rows]


def expected_words(line, lower):
    words = original_words.reference_words(line, lower)
    return [word for word in words if len(word) <= normalization.MAX_WORD_CHARS]


def disagreements(lines, lower):
    got = words_of(lines, lower)
    wanted = [expected_words(line, lower) for line in lines]
    return [row for row in zip(lines, got, wanted, strict=True) if row[1] != row[2]]


SCRIPTS = [
    "Äpfel für Übergrößen, naïve café; İstanbul'da IŞIK",
    "Привет, МИР! Ёлка й",
    "Ὀδυσσεύς ΟΔΟΣ. ΑΣ ΣΣ",
    "東京は日本の首都です。ひらがな、カタカナ！",
    "我爱北京天安门，ABC中文123。",
    "한국어 문장입니다. 가각",
    "สวัสดีครับ ทุกคน",
    "नमस्ते दुनिया। हिन्दी",
    "مرحبا بالعالم، كيف؟ مُحَمَّد",
    "שלום עולם! שָׁלוֹם",
    "Tiếng Việt có dấu",
    "ქართული ᲥᲐᲠᲗᲣᲚᲘ ენა",
    "𐐔𐐯𐑅𐐨𐑉𐐯𐐻 𐐏",
    "😀 a😀b 👩‍💻 ©2024 €5 x²+y²=1 ½ ﬁn",
    "don't $5.00-$6.00 [MASK] ##ing <tag> a_b e-mail@x.org",
    "a\u200bb\u00a0c\u2028d\u3000e\x00f\x85g\ufeff\ufffdh",
]


@pytest.mark.parametrize("lower", [True, False])
def test_words_of_many_scripts_are_the_original_words(lower):
    assert not disagreements(SCRIPTS, lower)


@pytest.mark.parametrize("lower", [True, False])
def test_words_of_random_lines_are_the_original_words(lower):
    lines = original_words.random_lines(4_000, original_words.POOLS, seed=6)
    lines += [f"{char} a{char}b" for char in original_words.ASSIGNED[::20]]
    assert not disagreements(lines, lower)


@pytest.mark.parametrize("char", ["a", "é", "ไ", "𐐷"])
@pytest.mark.parametrize("lower", [True, False])
def test_words_of_more_than_200_characters_are_left_out(char, lower):
    lines = [f"b {char * length} c.{char * length}" for length in (199, 200, 201, 801)]
    assert not disagreements(lines, lower)
    lengths = [len(row) for row in words_of(lines, lower)]
    assert lengths == [5, 5, 3, 3]


def test_words_spell_what_their_line_spells():
    letters = sorted({char for row in words_of(SCRIPTS, True) for char in "".join(row)})
    vocab = ["[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    tokenizer = wordpiece.BertTokenizer(vocab, True)
    for line in SCRIPTS:
        words = normalization.split_words(tf.constant([line]), True)[0]
        of_words = tokenizer.tokenize(words).flat_values.numpy().tolist()
        assert of_words == tokenizer.tokenize(line).numpy().tolist()
        assert len(of_words) > len(words) > 1
        assert tokenizer.unk_id not in of_words
