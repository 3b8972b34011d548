"""Whether a vocabulary and --do_lower_case belong together."""

import re
from typing import Any

from data_pipeline.text import tokenization

# tokenization.py, validate_case_matches_checkpoint: the releases it knows by name.
_LOWER_RELEASES = {
    "uncased_L-24_H-1024_A-16",
    "uncased_L-12_H-768_A-12",
    "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
}
_CASED_RELEASES = {
    "cased_L-12_H-768_A-12",
    "cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
}
# Share of entries with capitals among those whose letters have case: 0 in the uncased
# vocabulary, 0.0005 in the Chinese one, 0.23 in the multilingual cased one.
_CASED_SHARE = 0.05
_UNCASED_SHARE = 0.005
# With fewer such entries a vocabulary does not tell whether it is cased.
_ENOUGH_ENTRIES = 500


def check_case(
    tokenizer: tokenization.BertTokenizer, vocab_file: str, init_checkpoint: str
) -> None:
    """Refuses to lower-case for a cased model, and the reverse.

    Raises:
        ValueError: the release's name or the vocabulary contradicts the flag.

    Differs from google-research/bert: looks at the vocabulary too, so that renamed
    directories and later releases are covered.
    """
    release = re.match(r"^.*?([A-Za-z0-9_-]+)/bert_model.ckpt", init_checkpoint or "")
    name = release[1] if release else ""
    has_case = [
        token
        for token in tokenizer.vocab
        if token.lower() != token.upper() and not token.startswith(("[", "<"))
    ]
    capitals = sum(token != token.lower() for token in has_case)
    share = capitals / max(len(has_case), 1)
    is_known = len(has_case) >= _ENOUGH_ENTRIES
    if tokenizer.do_lower_case and (
        name in _CASED_RELEASES or (is_known and share > _CASED_SHARE)
    ):
        raise ValueError(
            f"--do_lower_case=true, but {vocab_file} is a cased vocabulary ({capitals} "
            "entries have capitals, which lower-cased text never reaches); set "
            "--do_lower_case=false, or --nocheck_case if this is meant"
        )
    if not tokenizer.do_lower_case and (
        name in _LOWER_RELEASES or (is_known and share < _UNCASED_SHARE)
    ):
        raise ValueError(
            f"--do_lower_case=false, but {vocab_file} is an uncased vocabulary "
            f"({capitals} entries have capitals, so capitals become [UNK]); set "
            "--do_lower_case=true, or --nocheck_case if this is meant"
        )


def open_tokenizer(files: Any, *, checks_case: bool) -> tokenization.BertTokenizer:
    """Opens the tokenizer of `files`; where asked to, calls `check_case` on it."""
    tokenizer = tokenization.BertTokenizer.from_file(
        files.vocab_file, files.do_lower_case
    )
    if checks_case:
        check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    return tokenizer
