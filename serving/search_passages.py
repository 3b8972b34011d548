"""Cuts long texts into passages of at most so many tokens, at the borders of words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors
from data_pipeline.text import base, offsets
from serving import search_encoders


class Size(NamedTuple):
    """Most tokens of a passage, without special ones; tokens from start to start."""

    tokens: int
    stride: int


def check(size: Size, encoder: search_encoders.Encoder, prompt: str) -> None:
    """Raises InputError where passages do not fit into the model, or for an export."""
    tokenizer, length = encoder.tokenizer, encoder.identity.get("max_seq_length", 0)
    if tokenizer is None:
        raise errors.InputError(
            f"--passage_tokens={size.tokens} counts tokens of a vocabulary, which an "
            "export does not show; give --pretrained in place of --export_dir"
        )
    ends = [e for e in (tokenizer.start_id, tokenizer.end_id) if e is not None]
    most = length - len(ends) - len(tokenizer.to_ids([prompt])[0])
    if not 1 <= size.stride <= size.tokens <= most:
        raise errors.InputError(
            f"--passage_tokens={size.tokens}, --passage_stride={size.stride}: give at "
            f"most {most} (--max_seq_length={length}), and no longer stride"
        )


def cut(
    texts: Sequence[str], tokenizer: base.Tokenizer, size: Size
) -> Iterator[list[tuple[int, int]]]:
    """Yields for each text the characters [start, end) of its passages.

    A text of few tokens is one passage. Others begin and end at parts of words; a part
    of more tokens is a passage by itself.
    """
    with tf.device("CPU:0"):  # where string operations are
        tokens = offsets.tokenize(tf.constant(texts), tokenizer)
    splits, starts = tokens.ids.row_splits.numpy(), tokens.starts.numpy()
    begins, ends = tokens.begins.numpy(), tokens.ends.numpy()
    for row, text in enumerate(texts):
        part = slice(splits[row], splits[row + 1])
        if splits[row + 1] - splits[row] <= size.tokens:
            yield [(0, len(text))]
            continue
        first, last = begins[part] - starts[row], ends[part] - starts[row]
        windows = _windows(first, size)
        yield [(int(first[i]), int(last[j - 1])) for i, j in windows]


def _windows(begins, size):
    """Windows [i, j) of tokens that begin at these characters, int [T]."""
    edges = np.flatnonzero(np.diff(begins, prepend=-1))  # first tokens of words' parts
    edges = np.append(edges, len(begins))

    def last_edge(place):
        return int(edges[np.searchsorted(edges, place, "right") - 1])

    start = stop = 0
    while stop < len(begins):
        following = int(edges[np.searchsorted(edges, stop, "right")])
        if stop:  # so late that the following part fits, but with no gap
            fitting = int(edges[np.searchsorted(edges, following - size.tokens)])
            start = max(last_edge(start + size.stride), min(fitting, stop))
        stop = max(following, last_edge(start + size.tokens))
        yield start, stop
