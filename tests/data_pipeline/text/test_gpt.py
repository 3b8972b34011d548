"""GPT's and GPT-2's tokenizers against ids recorded from the originals."""

import json
import random
import shutil

import pytest
import tensorflow as tf

from data_pipeline.text import bpe_graph, byte_pairs, opening, wordpiece

OPEN = opening.open_vocabulary
SPECIAL = ["_start_", "_delimiter_", "_classify_"]


def recorded(shared_file, name):
    return json.loads(shared_file(f"golden/{name}").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def gpt2(shared_file):
    return OPEN(str(shared_file("data/others/gpt2_vocab/encoder.json")))


@pytest.fixture(scope="module")
def tiny_gpt2(shared_file):
    return OPEN(str(shared_file("golden/gpt2/tiny_model/encoder.json")))


@pytest.fixture(scope="module")
def gpt(shared_file, tmp_path_factory):
    source = shared_file("data/others/gpt_vocab/encoder_bpe_40000.json")
    folder = tmp_path_factory.mktemp("gpt")
    shutil.copyfile(source, folder / "vocab.json")
    shutil.copyfile(source.parent / "vocab_40000.bpe", folder / "merges.txt")
    return OPEN(str(folder / "vocab.json"))


@pytest.fixture(scope="module")
def tiny_gpt(shared_file):
    return OPEN(str(shared_file("golden/gpt/tiny_model/vocab.json")))


def in_graph(tokenizer, texts):
    """The ids that a Gpt2Tokenizer gives in exports."""
    texts = tf.convert_to_tensor(texts, tf.string)
    return bpe_graph.tokenize(texts, tokenizer._table).to_list()


def by_library(tokenizer, texts):
    """The ids that it gives for scripts without spaces."""
    texts = tf.convert_to_tensor(texts, tf.string)
    return byte_pairs.encode(tokenizer, texts).to_list()


def ids_of(tokenizer, rows, key="ids"):
    """[(text, got, recorded)] of the rows that differ."""
    got = tokenizer.tokenize([row["text"] for row in rows]).to_list()
    assert len(got) == len(rows) == 127
    pairs = zip(rows, got, strict=True)
    return [(row["text"], ids, row[key]) for row, ids in pairs if ids != row[key]]


# Ids of the originals.


def test_gpt2_gives_the_ids_of_the_original(shared_file, gpt2):
    rows = recorded(shared_file, "gpt2/bpe.json")["encode"]
    assert ids_of(gpt2, rows) == []
    texts = [row["text"] for row in rows]
    assert in_graph(gpt2, texts) == by_library(gpt2, texts)
    assert gpt2.tokenize(["日本語" * 99]).to_list() == in_graph(gpt2, ["日本語" * 99])


def test_gpt_gives_the_ids_of_transformers(shared_file, gpt):
    rows = recorded(shared_file, "gpt/bpe.json")["rows"]
    assert ids_of(gpt, rows, "ids_hugging_face") == []
    assert len(ids_of(gpt, rows)) == 62  # those of the original differ


def test_end_of_text_may_be_the_first_id(shared_file):
    directory = shared_file("data/others/tarotble_gpt2")
    rows = recorded(shared_file, "gpt2/trained_small.json")
    wanted = [row["prompt_ids"] for row in rows["greedy"]]
    for name in ("vocab.json", "aitextgen.tokenizer.json"):
        tokenizer = OPEN(str(directory / name))
        assert tokenizer.document_end_id == 0
        prompts = [row["prompt"] for row in rows["greedy"]]
        assert tokenizer.tokenize(prompts).to_list() == wanted


# Texts of all kinds.


def characters(rng):
    """A few characters of a kind that has its own rules."""
    kind = rng.randrange(9)
    if kind == 0:  # white space of all kinds, and what Python alone holds for it
        return chr(rng.choice((0, *range(9, 14), *range(28, 33), 32, 32, 0x85, 0xA0)))
    if kind == 1:
        return chr(rng.choice((0x1680, *range(0x2000, 0x200C), 0x2028, 0x202F, 0x3000)))
    if kind == 2:
        suffix = rng.choice(("s", "t", "re", "ve", "m", "ll", "d", "S", "l", "v", "'"))
        return rng.choice(("", " ", "!", "x", "1", "'")) + "'" + suffix
    if kind == 3:
        return chr(rng.randrange(33, 127))
    if kind == 4:
        return "é" + chr(rng.randrange(0x300, 0x370))
    if kind == 5:
        return chr(rng.choice((0x200D, 0xFE0F, *range(0x1F300, 0x1F700))))
    if kind == 6:
        return chr(rng.choice((*range(0x660, 0x66A), 0xB2, 0xBD, 0x2167, 0x1D7D8)))
    if kind == 7:
        return rng.choice("abcdest .\n") * rng.randrange(1, 40)
    return chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000))))


def random_texts(number, seed):
    rng = random.Random(seed)
    return [
        "".join(characters(rng) for _ in range(rng.randrange(40)))
        for _ in range(number)
    ]


def check_random(tokenizer, number, seed):
    texts = random_texts(number, seed)
    got = in_graph(tokenizer, texts)
    wanted = by_library(tokenizer, texts)
    differ = [t for t, a, b in zip(texts, got, wanted, strict=True) if a != b]
    assert differ == []
    decoded = tokenizer.decode_rows(tf.ragged.constant(got, dtype=tf.int32)).numpy()
    assert [text.decode("utf-8") for text in decoded] == texts


@pytest.fixture(scope="module")
def sticky():
    """Merges any byte with a before it, and with 1 or b after it, within a piece."""
    every = byte_pairs.BYTE_CHARS
    pairs = [pair for x in every for pair in (("a", x), (x, "1"), (x, "b"))]
    pairs = list(dict.fromkeys(pairs))
    vocab = dict.fromkeys([*every, *(x + y for x, y in pairs)])
    return byte_pairs.Gpt2Tokenizer(list(vocab), pairs)


def test_random_texts_get_the_ids_of_the_library_and_come_back(gpt2, sticky):
    check_random(gpt2, 500, 1)
    check_random(sticky, 1500, 4)


@pytest.mark.slow
def test_every_character_is_of_the_librarys_class(sticky):
    # A letter joins a before it and a number 1; all others stay apart from both.
    # What is left out is private, or has no character.
    points = (*range(1, 0xD800), *range(0xF900, 0x32400), *range(0xE0000, 0xE0200))
    lines = ["".join(f"a{chr(p)}1" for p in points[i::97]) for i in range(97)]
    assert in_graph(sticky, lines) == by_library(sticky, lines)


def random_tables(number, seed):
    """Tokenizers of a few letters, whose tokens are merged from earlier ones."""
    rng = random.Random(seed)
    for _ in range(number):
        tokens = list("abc"[: rng.randrange(1, 4)])
        merges = {}
        for _ in range(rng.randrange(1, 40)):
            pair = rng.choice(tokens[-9:]), rng.choice(tokens)
            pair = pair if rng.randrange(2) else pair[::-1]
            if "".join(pair) not in tokens:
                tokens.append("".join(pair))
                merges[pair] = None
        yield byte_pairs.Gpt2Tokenizer(tokens, list(merges)), rng


def test_letters_merged_in_any_order_get_the_ids_of_the_library():
    num_different = 0
    for tokenizer, rng in random_tables(60, 0):
        letters = [token for token in tokenizer.vocab if len(token) == 1]
        lengths = [rng.randrange(60) for _ in range(40)]
        texts = ["".join(rng.choices(letters, k=length)) for length in lengths]
        got = in_graph(tokenizer, texts)
        assert got == by_library(tokenizer, texts)
        num_different += len({index for row in got for index in row})
    assert num_different > 300


LONG_WORDS = {
    "English": lambda rng: "".join(rng.choices("etaoinshrdlu", k=3000)),
    "Thai": lambda rng: "".join(chr(rng.randrange(0xE01, 0xE2F)) for _ in "a" * 1000),
    "one letter": lambda rng: "a" * 3001,
}


@pytest.mark.parametrize("kind", LONG_WORDS)
def test_a_long_word_needs_few_steps(gpt2, monkeypatch, kind):
    word = LONG_WORDS[kind](random.Random(5))
    texts = [f"a short one, {word}", "and 12 others"]
    assert in_graph(gpt2, texts) == by_library(gpt2, texts)
    steps = []
    choose = bpe_graph._chosen
    monkeypatch.setattr(
        bpe_graph, "_chosen", lambda *args: steps.append(1) or choose(*args)
    )
    symbols = tf.gather(gpt2._table.byte_ids, list(word.encode()))
    ids, _ = bpe_graph.merge(symbols, tf.zeros_like(symbols), gpt2._table)
    assert [ids.numpy().tolist()] == by_library(gpt2, [word])
    assert 1 <= len(steps) <= 20


def test_without_texts_there_are_no_ids(tiny_gpt2):
    for ids in (in_graph, by_library):
        assert ids(tiny_gpt2, []) == []
        assert list(map(len, ids(tiny_gpt2, ["", "a", ""]))) == [0, 1, 0]
    assert tiny_gpt2.tokenize("").numpy().tolist() == []
    assert tiny_gpt2.decode([]) == ""


def test_what_is_not_utf_8_becomes_the_replacement_character(tiny_gpt2):
    rng = random.Random(3)
    cuts = [bytes(rng.randrange(256) for _ in range(9)) for _ in range(300)]
    cuts += [b"a\xff\xfeb", "€".encode()[:2] + b"x", b"\xed\xa0\x80", b"\xf5\x80"]
    got = in_graph(tiny_gpt2, cuts)
    assert by_library(tiny_gpt2, cuts) == got
    replaced = [cut.decode("utf-8", "replace") for cut in cuts]
    assert got == tiny_gpt2.tokenize(replaced).to_list()
    assert tiny_gpt2.decode_rows(tf.ragged.constant(got)).numpy().tolist() == [
        text.encode() for text in replaced
    ]


def test_bytes_without_a_token_are_left_out(tiny_gpt2):
    lost = tiny_gpt2.vocab.index("q")
    vocab = [*tiny_gpt2.vocab[:lost], "nothing", *tiny_gpt2.vocab[lost + 1 :]]
    merges = [pair for pair in tiny_gpt2.merges if "q" not in "".join(pair)]
    tokenizer = byte_pairs.Gpt2Tokenizer(vocab, merges)
    texts = ["a quiet sea", "q", "日q本"]
    ids = in_graph(tokenizer, texts)
    assert ids == by_library(tokenizer, texts)
    assert [tokenizer.decode(row) for row in ids] == ["a uiet sea", "", "日本"]


# Decoding.


def test_gpt2_decodes_as_the_original(shared_file, gpt2):
    rows = recorded(shared_file, "gpt2/bpe.json")["decode"]
    assert [gpt2.decode(row["ids"]) for row in rows] == [row["text"] for row in rows]
    ragged = tf.ragged.constant([row["ids"] for row in rows], dtype=tf.int32)
    decoded = tf.function(gpt2.decode_rows, autograph=False)(ragged).numpy()
    assert [text.decode() for text in decoded] == [row["text"] for row in rows]
    assert any("\ufffd" in row["text"] for row in rows)


def test_words_are_decoded(tiny_gpt):
    tokenizer = tiny_gpt.with_special_tokens()
    ids = tokenizer.tokenize("The thing, in the bath.").numpy().tolist()
    ends = [tokenizer.start_id, *ids, tokenizer.end_id]
    assert tokenizer.decode(ends) == "_start_ the thing , in the bath . _classify_"
    vocab = ["[UNK]", "[CLS]", "[SEP]", "walk", "##ing", "home"]
    tokenizer = wordpiece.BertTokenizer(vocab)
    assert tokenizer.decode([1, 3, 4, 5, 2]) == "[CLS] walking home [SEP]"
    with pytest.raises(ValueError, match=r"id 6 is outside 0\.\.5"):
        tokenizer.decode([6])


# Special tokens, files, graphs.


@pytest.mark.parametrize("kind", ["gpt", "gpt2"])
def test_special_tokens_are_appended_once_and_not_found_in_text(request, kind):
    plain = request.getfixturevalue(f"tiny_{kind}")
    assert (plain.start_id, plain.delimiter_ids, plain.end_id) == (None, (), None)
    longer = plain.with_special_tokens()
    size = plain.vocab_size
    ids = longer.start_id, *longer.delimiter_ids, longer.end_id
    assert ids == (size, size + 1, size + 2)
    assert longer.vocab == [*plain.vocab, *SPECIAL]
    assert longer.with_special_tokens() is longer
    texts = ["_start_ the bath _classify_"]
    assert longer.tokenize(texts).to_list() == plain.tokenize(texts).to_list()


@pytest.mark.parametrize("kind", ["bert", "gpt", "gpt2"])
def test_files_give_the_same_tokenizer(request, tmp_path, kind):
    if kind == "bert":
        vocab = ["[UNK]", "[CLS]", "[SEP]", "The", "##re", "the"]
        written = wordpiece.BertTokenizer(vocab, False)
    else:
        written = request.getfixturevalue(f"tiny_{kind}").with_special_tokens()
    for name, text in written.files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    name = "vocab.txt" if kind == "bert" else "vocab.json"
    read = OPEN(str(tmp_path / name), do_lower_case=False)
    assert type(read) is type(written)
    assert read.vocab == written.vocab
    assert read.definition() == written.definition()
    text = "The thing, is there? été\n\n12"
    assert (read.tokenize(text) == written.tokenize(text)).numpy().all()


# Words, and the parts of them that tokens stand for.


def parts_of(tokenizer, words):
    """[[(part, its tokens)]] of words, by starts_pretoken and pretokenize."""
    tokens = tokenizer.tokenize_words(words)
    begins = tokenizer.starts_pretoken(tokens.values)
    actual = []
    for row, flags in zip(
        tokens.to_list(), tokens.with_values(begins).to_list(), strict=True
    ):
        groups = []
        for token, flag in zip(tokenizer.ids_to_tokens(row), flags, strict=True):
            groups.append([token]) if flag else groups[-1].append(token)
        actual.append(groups)
    spelled = tokenizer.pretokenize(tf.constant(words)).to_list()
    return [
        [(part.decode(), group) for part, group in zip(*row, strict=True)]
        for row in zip(spelled, actual, strict=True)
    ]


def test_words_of_gpt2_are_cut_as_inside_a_text(gpt2):
    words = ["Mira", "moved", "to", "Zürich", "(1895)."]
    joined = gpt2.tokenize([" " + " ".join(words)])
    apart = gpt2.tokenize_words(words)
    assert apart.values.numpy().tolist() == joined.values.numpy().tolist()
    assert apart.row_splits.dtype == tf.int64
    assert apart.to_list()[1] != gpt2.tokenize(["moved"]).to_list()[0]  # the twin
    assert ["".join(part for part, _ in row) for row in parts_of(gpt2, words)] == words


def test_parts_of_gpt_end_where_its_words_end(gpt):
    (row,) = parts_of(gpt, ["Zqxville,"])
    assert [part for part, _ in row] == ["zqxville", ","]
    assert all(tokens[-1].endswith("</w>") for _, tokens in row)
    assert len(row[0][1]) > 1
