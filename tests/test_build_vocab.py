"""build_vocab.py from texts to vocab.txt and bert_config.json."""

import gzip
import json
import subprocess
import sys

import pytest
import tensorflow as tf
import tokenizers

from contract import atomic_files
from data_pipeline.text import base as base_tokenizer
from data_pipeline.text import opening, wordpiece
from modeling.configs import config
from tests import daily, full_disk, tiny

STEMS = ("walk", "talk", "jump", "play", "want", "help", "look", "Need", "März", "café")
ENDINGS = ("", "s", "ed", "ing", "er")
CHINESE = "中国人民大学北京天安门"


def text(start=0, count=200):
    """Lines in two scripts; equal arguments give equal ones."""
    lines = []
    for i in range(start, start + count):
        words = [
            STEMS[(i * j + i // 7) % 10] + ENDINGS[(i // 3 + j) % 5] for j in (1, 3, 4)
        ]
        lines.append(f"The {' '.join(words)}, {CHINESE[i % 11]}{CHINESE[i * 3 % 11]}!")
        if i % 7 == 0:
            lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def corpus_file(tmp_path):
    path = tmp_path / "corpus" / "a.txt"
    path.parent.mkdir()
    path.write_text(text(), encoding="utf-8")
    return path


def build(*arguments):
    return tiny.run_script("build_vocab", "--num_workers=1", *arguments)


def build_from(source, tmp_path, *arguments, name="vocab.txt"):
    output = tmp_path / "out" / name
    done = build(f"--input_file={source}", f"--output_file={output}", *arguments)
    assert done.code == 0, done.err
    return base_tokenizer.read_vocab(str(output)), done


def unknown_share(vocab, lower, lines):
    tokenizer = wordpiece.BertTokenizer(vocab, lower)
    ids = tokenizer.tokenize(lines).flat_values
    assert len(ids) > 500
    return float(tf.reduce_mean(tf.cast(ids == tokenizer.unk_id, tf.float32)))


@pytest.mark.parametrize("lower", daily.params([True, False], bool))
def test_vocabulary_spells_its_corpus(corpus_file, tmp_path, lower):
    vocab, _ = build_from(
        corpus_file, tmp_path, "--vocab_size=195", f"--do_lower_case={lower}"
    )
    assert len(vocab) == len(set(vocab)) == 195
    assert vocab[0] == "[PAD]"
    assert vocab[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert set(CHINESE) < set(vocab)
    assert {"é", "ä", "T", "N"}.isdisjoint(vocab) == lower
    assert ("the" if lower else "The") in vocab
    lines = text().splitlines()
    assert unknown_share(vocab, lower, lines) == 0
    if lower:  # no capital is known, so that the other case must be worse
        assert unknown_share(vocab, False, lines) > 0.1
    tokenizer = wordpiece.BertTokenizer(vocab, lower)
    opening.check_case(tokenizer, "vocab.txt", "")


@pytest.mark.parametrize("name", ["bert_config.json", "config.json"])
def test_config_is_the_base_with_the_size_of_the_vocabulary(
    corpus_file, tmp_path, name
):
    """Under either name it is read as the base is, whose gelu is the tanh form."""
    base = tiny.ROOT / "configs" / "bert_tiny.json"
    output = tmp_path / "new" / name
    vocab, done = build_from(
        corpus_file,
        tmp_path,
        f"--vocab_size=180 --base_config_file={base}",
        f"--output_config_file={output}",
    )
    written, expected = (
        config.BertConfig.from_json_file(path).network_alone().to_dict()
        for path in (output, base)
    )
    assert expected["hidden_act"] == "gelu"
    assert expected.pop("vocab_size") != written.pop("vocab_size") == len(vocab) == 180
    assert written == expected
    assert f"wrote {output}" in done.out


@pytest.mark.slow
def test_any_number_of_workers_and_files_gives_one_vocabulary(tmp_path, corpus_file):
    """Also the command itself, and one of the files being gzip."""
    expected, _ = build_from(corpus_file, tmp_path, "--vocab_size=190")
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "1.txt").write_text(text(0, 120), encoding="utf-8")
    (folder / "2.txt.gz").write_bytes(gzip.compress(text(120, 80).encode()))
    output = tmp_path / "vocab.txt"
    command = [sys.executable, "build_vocab.py", "--num_workers=2", "--vocab_size=190"]
    done = subprocess.run(
        [*command, f"--input_file={folder}/*", f"--output_file={output}"],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # Also of what TensorFlow says, there and in workers, nothing else is for a reader.
    assert (done.returncode, done.stderr) == (0, "loading TensorFlow ...\n")
    assert base_tokenizer.read_vocab(str(output)) == expected
    (folder / "1.txt").write_text(text(0, 12), encoding="utf-8")
    other, _ = build_from(folder / "1.txt", tmp_path, "--vocab_size=190", name="b.txt")
    assert other != expected


@pytest.mark.slow
def test_byte_pairs_are_those_of_the_library(corpus_file, tmp_path):
    """Which the library learns from the lines themselves, and by its own pattern."""
    output = tmp_path / "vocab.json"
    done = build(
        f"--input_file={corpus_file} --output_file={output} --kind=byte_pair",
        "--vocab_size=360",
    )
    assert done.code == 0, done.err
    tokenizer = opening.open_vocabulary(str(output))
    assert tokenizer.vocab_size == 360
    assert tokenizer.vocab.index("<|endoftext|>") == tokenizer.document_end_id == 359
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    splitter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.pre_tokenizer = splitter
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=359,
        min_frequency=2,
        initial_alphabet=splitter.alphabet(),
        show_progress=False,
    )
    peer.train_from_iterator([text()], trainer)
    learned = json.loads(peer.to_str())["model"]
    assert [list(pair) for pair in tokenizer.merges] == learned["merges"]
    assert tokenizer.vocab[:-1] == sorted(learned["vocab"], key=learned["vocab"].get)
    # GPT-2's own begins with the same bytes in the same order.
    assert tokenizer.vocab[:3] == ["!", '"', "#"]
    lost = "é 北 \x00 \U0001f600 never seen\r\n"
    assert tokenizer.decode(tokenizer.tokenize(lost).numpy()) == lost
    lines = dict(line.split(" = ") for line in done.out.splitlines() if " = " in line)
    ids = tokenizer.tokenize(text()).numpy()
    pieces = int(lines["  words"])
    assert float(lines["  pieces_per_word"]) == pytest.approx(len(ids) / pieces, 1e-3)
    assert float(lines["  unknown_word_share"]) == 0
    assert f"wrote {tmp_path}/merges.txt" in done.out


def test_small_text_gives_what_it_has_without_bytes_that_are_not_utf8(tmp_path):
    source = tmp_path / "a.txt"
    valid = b"good b\n" * 99
    source.write_bytes(b"good\xff \xc3(good) b\xe4\xb8\n" + valid)
    vocab, done = build_from(source, tmp_path, "--num_unused_tokens=0")
    assert " ".join(vocab[5:]) == "( ) b d g o ##b ##d ##g ##o good"
    assert "16 entries, less than --vocab_size=30522" in done.out
    assert "1 of 100 lines of --input_file are not UTF-8; their" in done.log
    source.write_bytes(b"caf\xe9 good\n" * 2 + valid)
    arguments = f"--input_file={source} --output_file={tmp_path}/other.txt"
    line = tiny.refuse("build_vocab", "--num_workers=1", arguments)
    assert f"2 of 101 lines of --input_file are not UTF-8: {source}:1: byte" in line
    assert "iconv -f WINDOWS-1252 -t UTF-8, or drop" in line
    source.write_bytes("good text\n".encode("utf-16") * 20)
    line = tiny.refuse("build_vocab", "--num_workers=1", arguments)
    assert f"{source}:1: is not UTF-8; it looks like UTF-16: " in line
    assert not (tmp_path / "other.txt").exists()


def test_words_that_are_too_long_are_unknown(tmp_path):
    """As Thai is without spaces; the tokenizer makes [UNK] of them."""
    source = tmp_path / "a.txt"
    long = "ตัวอักษร" * 40
    source.write_text(f"{long} the cat\n{'x' * 200} {long}\n" * 3, encoding="utf-8")
    vocab, done = build_from(source, tmp_path, "--num_unused_tokens=0")
    assert not any("ต" in token for token in vocab) and "cat" in vocab
    lines = dict(line.split(" = ") for line in done.out.splitlines() if " = " in line)
    assert lines["  words"] == "15" and lines["  different_words"] == "3"
    assert lines["  unknown_word_share"] == "0.40000"
    assert "6 words have more than 200 characters, and become [UNK]" in done.log
    tokenizer = wordpiece.BertTokenizer(vocab)
    ids = tokenizer.tokenize([long, "x" * 200]).to_list()
    assert ids[0] == [tokenizer.unk_id] != ids[1]


def test_words_are_by_frequency_behind_the_three_of_an_elmo(tmp_path):
    """Ties by their characters; those beyond the size are <UNK>."""
    source, output = tmp_path / "text.txt", tmp_path / "vocab.txt"
    source.write_text("a b, b, a b, Ä z\n<S> c Ä c a\n", encoding="utf-8")
    characters = {"embedding": {"dim": 4}, "filters": [[1, 4]], "n_characters": 262}
    options = {"lstm": {"dim": 8, "projection_dim": 4}, "char_cnn": characters}
    base = tmp_path / "options.json"
    base.write_text(json.dumps(options))
    done = build(
        f"--input_file={source} --output_file={output} --kind=word",
        f"--vocab_size=7 --base_config_file={base}",
        f"--output_config_file={tmp_path}/sized.json",
    )
    assert done.code == 0, done.err
    assert output.read_text() == "<S>\n</S>\n<UNK>\na\nb,\nc\nÄ\n"
    assert "entries = 7" in done.out
    assert "whole_word_share = 0.91667" in done.out  # 11 of 12, <S> among them
    assert "unknown_word_share = 0.08333" in done.out
    sized = json.loads((tmp_path / "sized.json").read_text())
    assert sized["n_tokens_vocab"] == 7
    split = build(
        f"--input_file={source} --output_file={output} --kind=word",
        "--vocab_size=9 --split_words=punctuation",
    )
    assert split.code == 0, split.err
    assert output.read_text().split()[3:] == [",", "a", "b", "c", "Ä", "<"]
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings["split_words"] == "punctuation"


BASE = f"--base_config_file={tiny.ROOT}/configs/bert_tiny.json"
CONFIG = "--output_config_file={d}/c"
# Flags beside a good --input_file, with {d} for its directory.
WRONG = {
    "--input_file={d}/none*": "none*: no such file; check the path",
    "--input_file={d}/empty.txt": "no word in 1 files; give UTF-8",
    "--input_file={d}/short.gz": "short.gz: cannot be read (Compressed file ended",
    "--output_file={d}/out/../good.txt": "is one of --input_file; choose another",
    "--vocab_size=120": "--vocab_size=120 has no room for",
    BASE: "--base_config_file and --output_config_file belong",
    f"{CONFIG} --base_config_file={{d}}/good.txt": "good.txt: ",
    f"{BASE} --output_config_file={{d}}": "is a directory; name",
    f"{BASE} --output_config_file={{d}}/good.txt": "is one of --input_file",
    f"{BASE} --output_config_file={{d}}/good.txt/a/b": "cannot be written",
    f"{BASE} --output_config_file={{d}}/out/vocab.txt": "is --out",
    f"{BASE} --output_config_file={{d}}/new/": "is a directory",
    f"{CONFIG} --base_config_file=none": "none: no such file",
    "--min_character_frequency=999999": "=999999 leaves no character",
    f"--kind=byte_pair --output_file={{d}}/vocab.json {BASE} "
    "--output_config_file={d}/./merges.txt": "is to be written and is --output_file or",
    "--kind=word --output_file={d}/tokenizer_config.json": "beside it, too; choose",
    "--kind=word --output_file={d}/words.txt": (
        "{d}/tokenizer_config.json is of another tokenizer, and --kind=word writes"
    ),
    "--kind=byte_pair": "vocab.txt: the name of byte pairs ends in voc",
    "--kind=byte_pair --do_lower_case=false": (
        "--nodo_lower_case is read with --kind=word_piece; add that"
    ),
    "--split_words=punctuation": (
        "--split_words=punctuation is read with --kind=word; add that"
    ),
    "--kind=byte_pair --vocab_size=256 --output_file={d}/out/vocab.json": (
        "--vocab_size=256 has no room for bytes; raise it to 257"
    ),
    f"{BASE.replace('bert', 'encoder_decoder')} --kind=word {CONFIG}": (
        "tiny.json is of an encoder-decoder, whose texts stand between [CLS] and "
        "[SEP]; set --kind=word_piece"
    ),
}


@pytest.mark.parametrize("flags", WRONG)
def test_wrong_input_is_one_line_and_writes_nothing(tmp_path, flags):
    (tmp_path / "good.txt").write_text(text(), encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "short.gz").write_bytes(gzip.compress(text().encode())[:200])
    if "words.txt" in flags:
        settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 512}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    before = tiny.listing(tmp_path)
    places = (
        f"--input_file={tmp_path}/good.txt",
        f"--output_file={tmp_path}/out/vocab.txt",
    )
    line = tiny.refuse(
        "build_vocab", "--num_workers=1", *places, flags.format(d=tmp_path)
    )
    assert WRONG[flags].format(d=tmp_path) in line
    assert tiny.listing(tmp_path) == before


@pytest.mark.parametrize("kind", ["byte_pair", "word_piece"])
def test_files_of_a_vocabulary_appear_together_or_not_at_all(tmp_path, kind):
    """The second is longer than the first, and does not fit on the disk."""
    (tmp_path / "text.txt").write_text(text(), encoding="utf-8")
    name = "vocab.json" if kind == "byte_pair" else "vocab.txt"
    flags = [f"--input_file={tmp_path}/text.txt --output_file={tmp_path}/{name}"]
    flags += [f"--kind={kind} --output_config_file={tmp_path}/c.json {BASE}"]
    for old in (name, "merges.txt", "c.json"):
        (tmp_path / old).write_text("old")
    before = tiny.listing(tmp_path)
    patch, write = pytest.MonkeyPatch(), atomic_files.write

    def write_on_a_full_disk(files):
        *_, (path, parts) = files.items()
        with full_disk.full_disk(after=200_000):
            write(files | {path: [*parts, " " * 300_000]})

    with patch.context() as context:
        context.setattr(atomic_files, "write", write_on_a_full_disk)
        line = tiny.refuse("build_vocab", "--num_workers=1 --vocab_size=300", *flags)
    assert f"{tmp_path}/c.json: cannot be written (" in line and "make room" in line
    assert tiny.listing(tmp_path) == before
