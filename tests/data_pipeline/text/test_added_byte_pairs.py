"""Added tokens of byte pairs: found in texts by the rule of `tokenizers`.

Those that are not looked for in normalized text are cut out first, then the others; the
first in the text, and of several there the longest. What stands between is cut by
itself, and gets a space of its own where one is added.
"""

import itertools
import json

import pytest
import tensorflow as tf

from contract import file_names
from data_pipeline.text import byte_pairs, opening
from tests import daily, tokenizer_files
from tests.data_pipeline.text import test_roberta
from tests.refusals import refused

ADDED = {
    **dict.fromkeys(["TOK", "TOKT", "e1>x", " y", "\x01"], True),
    **dict.fromkeys(["<e1>", "éa"], False),
}
MERGES = [tuple(pair) for pair in test_roberta.MERGES]
KINDS = {  # what stands before and behind the tokens for bytes
    byte_pairs.RobertaTokenizer: ([*byte_pairs.OF_ROBERTA[:4]], ["<mask>"]),
    byte_pairs.Gpt2Tokenizer: ([], [byte_pairs.END_OF_TEXT]),
}
# {text: (tokens, tokens with a space before)}, by the rule above and MERGES.
EXPECTED = {
    "a TOK here": ("a|Ġ|TOK|Ġ|he|r|e", "Ġ|a|Ġ|TOK|Ġ|he|r|e"),
    "TOKthe sea": ("TOK|t|he|Ġsea", "TOK|Ġthe|Ġsea"),
    "theTOK": ("t|he|TOK", "Ġthe|TOK"),
    "TOKTOKT": ("TOKT|O|K|T", "TOKT|Ġ|O|K|T"),
    "TOK TOK": ("TOK|Ġ|TOK", "TOK|Ġ|TOK"),
    "<e1>x": ("<e1>|x", "<e1>|Ġ|x"),
    "e1>x": ("e1>x", "e1>x"),
    "the y": ("t|he| y", "Ġthe| y"),
    "éaé": ("éa|Ã©", "éa|Ġ|Ã©"),
    "is\x01\x02": ("is|\x01|Ă", "Ġis|\x01|Ġ|Ă"),
    "tok Tok": ("t|o|k|Ġ|T|o|k", "Ġt|o|k|Ġ|T|o|k"),
    "</s><mask>TOK": ("<|/|s|>|<|m|a|s|k|>|TOK", "Ġ|<|/|s|>|<|m|a|s|k|>|TOK"),
    "": ("", ""),
    "TOK": ("TOK", "TOK"),
    "TOKTOK": ("TOKT|O|K", "TOKT|Ġ|O|K"),
}


def vocab_of(kind, added=()):
    before, after = KINDS[kind]
    merged = map("".join, MERGES)
    return [*before, *byte_pairs.BYTE_CHARS, *merged, *after, *added]


def make(kind, adds_space=False, added=ADDED):
    return kind(vocab_of(kind, added), MERGES, adds_space, added)


def tokens(tokenizer, rows):
    return ["|".join(tokenizer.ids_to_tokens(row)) for row in rows]


@pytest.mark.parametrize(
    ("kind", "adds_space"),
    daily.params(
        itertools.product(KINDS, (True, False)),
        lambda case: case == (byte_pairs.RobertaTokenizer, True),
    ),
)
def test_added_tokens_are_cut_out_of_texts(kind, adds_space):
    """Eagerly, in a graph, and by the library, which long texts without spaces take."""
    tokenizer, texts = make(kind, adds_space), [*EXPECTED]
    wanted = [row[adds_space] for row in EXPECTED.values()]
    spec = tf.TensorSpec([None], tf.string)
    graph = tf.function(tokenizer.tokenize, input_signature=[spec], autograph=False)
    for rows in (tokenizer.tokenize(texts), graph(tf.constant(texts))):
        assert tokens(tokenizer, rows.to_list()) == wanted
    assert tokens(tokenizer, tokenizer.to_ids(texts)) == wanted
    assert tokenizer.tokenize([]).to_list() == []
    long = "abTOK" * 20
    assert tokens(tokenizer, tokenizer.tokenize([long]).to_list()) == tokens(
        tokenizer, graph(tf.constant([long])).to_list()
    )
    # Without them the same texts are spelled otherwise.
    bare = tokens(tokenizer, make(kind, adds_space, {}).to_ids(texts))
    assert sum(a != b for a, b in zip(bare, wanted, strict=True)) == len(texts) - 2
    if not adds_space:
        assert [tokenizer.decode(row) for row in tokenizer.to_ids(texts)] == texts


@pytest.mark.slow
def test_exports_find_added_tokens(tmp_path):
    tokenizer, module = make(byte_pairs.RobertaTokenizer, True), tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def ids(texts):
        return tokenizer.tokenize(texts).to_tensor(-1)

    module.ids = ids
    tf.saved_model.save(module, str(tmp_path))
    saved = tf.saved_model.load(str(tmp_path)).ids(tf.constant([*EXPECTED])).numpy()
    rows = [row[row >= 0].tolist() for row in saved]
    assert tokens(tokenizer, rows) == [row[1] for row in EXPECTED.values()]


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder / next(iter(texts)))


def in_one_file(kind, adds_space, **changes):
    """A tokenizer.json; `changes` are of each added token."""
    tokenizer = make(kind, adds_space)
    before, after = KINDS[kind]
    special = [*before, *after]
    raw = tokenizer_files.of_bytes(
        [*byte_pairs.OF_ROBERTA, *tokenizer.vocab], MERGES, [], adds_space
    )
    ids = {token: index for index, token in enumerate(tokenizer.vocab)}
    raw["model"]["vocab"] = {t: i for t, i in ids.items() if t not in ADDED}
    raw["added_tokens"] = [
        {"id": ids[t], "content": t, "special": True, "lstrip": t == "<mask>"}
        for t in special
    ]
    if kind is byte_pairs.RobertaTokenizer:
        ends = {"cls": ["<s>", ids["<s>"]], "sep": ["</s>", ids["</s>"]]}
        raw["post_processor"] |= ends
    else:
        raw["post_processor"] = None
    raw["added_tokens"] += [
        {"id": ids[t], "content": t, "normalized": n, **changes}
        for t, n in ADDED.items()
    ]
    return {file_names.TOKENIZER: json.dumps(raw)}


def in_its_files(kind, adds_space):
    return make(kind, adds_space).files()


def described_alone(kind, adds_space):
    """All in vocab.json; tokenizer_config.json says which of them were added."""
    texts = make(kind, adds_space).files()
    assert texts.pop(file_names.ADDED_TOKENS)
    return texts


@pytest.mark.parametrize("adds_space", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("files", [in_one_file, in_its_files, described_alone])
def test_files_of_added_tokens_give_the_same_tokenizer(
    files, kind, adds_space, tmp_path
):
    opened = opening.open_vocabulary(write(tmp_path, files(kind, adds_space)))
    expected = make(kind, adds_space)
    assert type(opened) is kind and opened.adds_space is adds_space
    assert opened.added_tokens == expected.added_tokens == ADDED
    assert opened.definition() == expected.definition()
    assert opened.definition() != make(kind, adds_space, {}).definition()
    assert opened.to_ids([*EXPECTED]) == expected.to_ids([*EXPECTED])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", ["single_word", "lstrip", "rstrip"])
def test_tokens_of_another_rule_are_refused_by_name(setting, kind, tmp_path):
    path = write(tmp_path, in_one_file(kind, False, **{setting: True}))
    with refused(f"{path}: 'TOK' is to match", f"set {setting} to false"):
        opening.open_vocabulary(path)
    texts = described_alone(kind, False)
    config = json.loads(texts[file_names.TOKENIZER_CONFIG])
    *_, last = config["added_tokens_decoder"].values()
    last[setting] = True
    texts[file_names.TOKENIZER_CONFIG] = json.dumps(config)
    (tmp_path / "two").mkdir()
    with refused("'éa' is to match", f"set {setting} to false"):
        opening.open_vocabulary(write(tmp_path / "two", texts))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_the_vocabulary_lacks_are_named(kind, tmp_path):
    texts = kind(vocab_of(kind), MERGES, False).files()
    path = write(tmp_path, texts)
    write(tmp_path, in_one_file(kind, False))
    with refused(file_names.TOKENIZER, "lacks the added token 'TOK'", "--vocab_file="):
        opening.open_vocabulary(path)
    assert opening.open_vocabulary(str(tmp_path / file_names.TOKENIZER)).added_tokens


def test_gpt_finds_added_tokens():
    vocab = ["<unk>", "a</w>", "b</w>", "NEW", "odd"]
    tokenizer = byte_pairs.GptTokenizer(vocab, [], False, {"NEW": False, "odd": True})
    texts = ["a NEW b", "aNEWb", "new", "A ODDb"]
    wanted = ["a</w>|NEW|b</w>", "a</w>|NEW|b</w>", "<unk>|<unk>|<unk>"]
    for each in (tokenizer, tokenizer.with_special_tokens()):
        rows = each.tokenize(texts).to_list()
        assert tokens(each, rows) == [*wanted, "a</w>|odd|b</w>"]


@pytest.mark.parametrize("value", [True, False])
def test_gpt2_follows_add_prefix_space_of_either_file(value, tmp_path):
    kind = byte_pairs.Gpt2Tokenizer
    config = {file_names.TOKENIZER_CONFIG: json.dumps({"add_prefix_space": value})}
    texts = kind(vocab_of(kind), MERGES).files() | config
    opened = opening.open_vocabulary(write(tmp_path, texts))
    expected = ["Ġthe|Ġsea"] if value else ["t|he|Ġsea"]
    assert tokens(opened, opened.tokenize(["the sea"]).to_list()) == expected
    whole = tmp_path / "whole"
    whole.mkdir()
    opened = opening.open_vocabulary(write(whole, in_one_file(kind, value)))
    assert tokens(opened, opened.to_ids(["the sea"])) == expected
    assert opened.with_special_tokens().adds_space is value
