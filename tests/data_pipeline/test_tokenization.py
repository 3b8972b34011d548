import functools
import io

import pytest

from data_pipeline import tokenization as command
from data_pipeline.text import wordpiece

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@functools.cache
def letter_tokenizer(lower=True):
    letters = "abcdefghijklmnopqrstuvwxyzABC!."
    return wordpiece.BertTokenizer(
        [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), "##ing"], lower
    )


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_of_a_text_end_at_lf_alone(block_bytes, end):
    content = "ab c\r\n\n a\u2028b\u0085c\v\fd\re\n\u3000\nzing!\n\n..".encode() + end
    expected = b"a ##b c\n\na b ##c ##d e\n\nz ##ing !\n\n. .\n"
    sink = io.BytesIO()
    blocks = iter(functools.partial(io.BytesIO(content).read, block_bytes), b"")
    command.write_tokens(blocks, sink, letter_tokenizer())
    assert sink.getvalue() == expected


def test_ids_of_a_text():
    tokenizer, sink = letter_tokenizer(), io.BytesIO()
    command.write_tokens([b"ab\n\nc"], sink, tokenizer, as_ids=True)
    rows = [line.split() for line in sink.getvalue().decode().split("\n")]
    ids = tokenizer.tokenize(["ab", "", "c", ""]).to_list()
    assert [[int(word) for word in row] for row in rows] == ids
    empty = io.BytesIO()
    command.write_tokens([], empty, tokenizer)
    assert empty.getvalue() == b""


def test_files_that_cannot_be_read_are_named(tmp_path, capsys):
    vocab = str(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n[CLS]\n[SEP]\na")
    missing = str(tmp_path / "none.txt")
    for vocab_file, arguments, named in (
        (vocab, [missing], missing),
        (vocab, [str(tmp_path)], str(tmp_path)),
        (missing, ["-"], missing),
        (vocab, [], "0 files given"),
    ):
        code = command._main(["program", *arguments], vocab_file, True, False)
        assert code == 2
        error = capsys.readouterr().err
        assert error.startswith(named)
        assert error.count("\n") == 1
