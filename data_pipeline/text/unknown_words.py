"""How much of a text the vocabulary cannot spell."""

from typing import Any

import numpy as np
from absl import logging

from contract import errors
from data_pipeline.text import base

WARNED, REFUSED = 0.05, 0.5  # shares
_FEWEST = 100  # tokens, of which a share means something


def count(tokenizer: base.Tokenizer, ids: Any) -> tuple[int, int]:
    """How many int ids are unknown words, and how many are neither [CLS] nor [SEP]."""
    if tokenizer.unk_id is None or tokenizer.token_shape:
        return 0, 0
    ids = np.asarray(ids)
    ends = {tokenizer.start_id, tokenizer.end_id, *tokenizer.delimiter_ids} - {None}
    num_special = sum(np.count_nonzero(ids == end) for end in ends)
    unknown = np.count_nonzero(ids == tokenizer.unk_id)
    return int(unknown), int(ids.size - num_special)


def describe(name: str, tokenizer: base.Tokenizer, counts: tuple[int, int]) -> str:
    """The end of a line on a text, such as ", 3.1 % [UNK]"; "" where all is spelled.

    `name` is that of the text in a warning, `counts` are those of `count`.

    Raises:
        ValueError: most tokens are unknown, unless the tokenizer allows it.
    """
    unknown, total = counts
    if not unknown or tokenizer.unk_id is None:
        return ""
    share, token = unknown / total, tokenizer.vocab[tokenizer.unk_id]
    if total >= _FEWEST and share > WARNED:
        problem = (
            f"{name}: {share:.0%} of {total} tokens are {token}, words that the "
            "vocabulary cannot spell; give a model of this language and case"
        )
        if share > REFUSED and tokenizer.refuses_unknown:
            raise errors.InputError(f"{problem}, or --nocheck_tokenizer to go on")
        logging.warning("%s", problem)
    return f", {100 * share:.3g} % {token}"
