"""Prints the tokens, or their ids, of each line of a text file.

The file name `-` stands for standard input:

    python -m data_pipeline.tokenization --vocab_file=vocab.txt text.txt
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO


def define_flags() -> None:
    """Defines the flags of the program."""
    from absl import flags

    from cli import command_line

    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string("vocab_file", None, "Vocabulary file of the model.")
        text = "Lower-case the text and remove accents; false for cased models."
        flags.DEFINE_bool("do_lower_case", True, text)
    with command_line.heading("Output"):
        flags.DEFINE_bool("ids", False, "Print ids instead of tokens.")
    flags.mark_flag_as_required("vocab_file")


if __name__ == "__main__":  # before the imports that take seconds
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # strings stay on the CPU
    from cli import command_line

    command_line.parse(define_flags)

import tensorflow as tf

from contract import errors
from data_pipeline.tables import text_rows
from data_pipeline.text import opening
from data_pipeline.text.base import Tokenizer

BLOCK_BYTES = 1 << 20  # tokenized at a time


def write_tokens(
    source: Iterable[bytes],
    sink: BinaryIO,
    tokenizer: Tokenizer,
    *,
    as_ids: bool = False,
) -> None:
    """Writes a line of tokens, or ids, single spaces between them, for each line.

    Lines of `source`, blocks of UTF-8 text, end at LF; the last one may lack it. Memory
    does not grow with the text.
    """
    vocab = range(tokenizer.vocab_size) if as_ids else tokenizer.vocab
    table = tf.constant([f" {token}" for token in vocab] + ["\n"])

    def lines_of_tokens(block):
        ids = tokenizer.tokenize(tf.strings.split(block, "\n"))[:-1]
        ends = tf.fill([ids.nrows(), 1], tokenizer.vocab_size)
        flat = tf.concat([ids, ends], axis=1).flat_values
        # One join of everything: joining line by line takes three times as long.
        joined = tf.strings.reduce_join(tf.gather(table, flat))
        return tf.strings.regex_replace(joined, r"(?m)^ ", "")

    for block in _whole_lines(source):
        sink.write(lines_of_tokens(block).numpy())


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields a file in blocks that end with LF, adding one after the last line."""
    begun: list[bytes] = []
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*begun, block[:end]])
            begun = []
        begun.append(block[end:])
    if last := b"".join(begun):
        yield last + b"\n"


def _main(argv: Sequence[str], vocab_file: str, do_lower_case: bool, ids: bool) -> int:
    try:
        if len(argv) != 2:
            raise errors.InputError(
                f"{len(argv) - 1} files given; give one, or - for standard input"
            )
        tokenizer = opening.open_vocabulary(vocab_file, do_lower_case)
        source = text_rows.blocks(argv[1])
        if argv[1] == "-":
            source = iter(lambda: sys.stdin.buffer.read(BLOCK_BYTES), b"")
        write_tokens(source, sys.stdout.buffer, tokenizer, as_ids=ids)
        sys.stdout.flush()
    except BrokenPipeError:
        errors.drop_output()  # the reader has what it wants
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    from absl.flags import FLAGS

    command_line.run(
        lambda argv: _main(argv, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.ids)
    )
