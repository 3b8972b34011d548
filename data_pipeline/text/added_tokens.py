"""Tokens that were added to a vocabulary after it was learned: the file, and matching.

Hugging Face writes added_tokens.json beside a vocab.txt, {token: id}; its other files
describe whether text is normalized before the token is looked for. The tokens are found
as its tokenizers find them: anywhere, also within a word; the first one in the text,
and of several that begin there the longest. Spaces that belong to a token count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from contract import errors, file_names, wording
from contract.tensorflow_later import tf
from data_pipeline.text import bpe_graph, vocabulary_files

# Text never becomes these, as in google-research/bert.
SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
_MARK = b"\xff"  # in no text of UTF-8


def read(
    files: vocabulary_files.VocabularyFiles,
    vocab: Sequence[str],
    special: Collection[str] = SPECIAL,
) -> tuple[list[str], dict[str, bool]]:
    """The vocabulary with the tokens of an added_tokens.json beside it, if any.

    Also returns {token: whether it is looked for in normalized text}, without those
    that are `special`, which text never becomes.

    Raises:
        ValueError: a file cannot be read, the ids do not go on from the vocabulary's,
            or a token is to match whole words alone.
    """
    path, ids = files.path(file_names.ADDED_TOKENS), files.read(file_names.ADDED_TOKENS)
    if not ids:
        return list(vocab), {}
    old_ids = {token: i for i, token in enumerate(vocab)}
    new = {token: i for token, i in ids.items() if old_ids.get(token) != i}
    empty = [token for token in ids if not token.strip()]
    if wrong := empty or sorted(old_ids.keys() & new.keys()):
        raise errors.InputError(
            f"{path}: {wording.listing(wrong)} cannot be added with these ids, because "
            "they are empty, or the vocabulary has other ids; correct or remove them"
        )
    remedy = "correct them, or remove the file to do without its tokens"
    longer = [*vocab, *sort_by_id(new, path, remedy, first=len(vocab))]
    return longer, check_settings(ids, read_settings(files), path, special)


def check_settings(
    tokens: Iterable[str],
    settings: Mapping[str, Mapping[str, Any]],
    path: str,
    special: Collection[str] = SPECIAL,
) -> dict[str, bool]:
    """{token: whether it is looked for in normalized text}, as `read` returns it.

    `settings` are those of Hugging Face's files, for some of the tokens.
    """
    are_normalized = {}
    for token in tokens:
        setting = settings.get(token, {})
        odd = [k for k in ("single_word", "lstrip", "rstrip") if setting.get(k)]
        if odd and (token not in special or odd[0] == "single_word"):
            raise errors.InputError(
                f"{path}: {token!r} is to match whole words alone, or spaces beside "
                f"it; set {odd[0]} to false where the token is described"
            )
        if token not in special:
            is_normalized = setting.get("normalized", not setting.get("special"))
            are_normalized[token] = bool(is_normalized)
    return are_normalized


def sort_by_id(
    ids: Mapping[str, Any], path: str, remedy: str, first: int = 0
) -> list[str]:
    """The tokens of a file by id; ValueError if ids leave a gap from `first` on."""
    wanted = range(first, max(first + len(ids), 1))
    if sorted(map(repr, ids.values())) != sorted(map(repr, wanted)):
        raise errors.InputError(
            f"{path}: the ids of its {len(ids)} tokens are not {first}, {first + 1}, "
            f"...; {remedy}"
        )
    return sorted(ids, key=ids.__getitem__)


def describe(vocab: Sequence[str], tokens: Mapping[str, bool]) -> dict[str, Any]:
    """Tokens as tokenizer_config.json describes them; {} without any."""
    described = {
        str(vocab.index(token)): {
            "content": token,
            "normalized": is_normalized,
            "special": not is_normalized,
            **dict.fromkeys(("single_word", "lstrip", "rstrip"), False),
        }
        for token, is_normalized in tokens.items()
    }
    return {"added_tokens_decoder": described} if described else {}


def add_to(library: tokenizers.Tokenizer, tokens: Mapping[str, bool]) -> None:
    """Has the library's tokenizer find the tokens of `read`, too."""
    library.add_tokens(
        [tokenizers.AddedToken(t, normalized=kind) for t, kind in tokens.items()]
    )


def files(vocab: Sequence[str], tokens: Iterable[str]) -> dict[str, str]:
    """{added_tokens.json: its text}; {} without tokens."""
    ids = {token: vocab.index(token) for token in tokens}
    return {file_names.ADDED_TOKENS: json.dumps(ids) + "\n"} if ids else {}


def read_settings(files: vocabulary_files.VocabularyFiles) -> dict[str, dict[str, Any]]:
    """{token: its settings} of the other files; the newest kind of file counts."""
    settings: dict[str, dict[str, Any]] = {}
    for name, key in (
        (file_names.SPECIAL_TOKENS, "additional_special_tokens"),
        (file_names.TOKENIZER, "added_tokens"),
        (file_names.TOKENIZER_CONFIG, "added_tokens_decoder"),
    ):
        entries = files.read(name).get(key) or ()
        try:
            for entry in entries.values() if isinstance(entries, dict) else entries:
                if isinstance(entry, str) and name == file_names.SPECIAL_TOKENS:
                    settings[entry] = {"special": True}
                else:
                    settings[entry["content"]] = entry
        except (KeyError, TypeError) as error:
            raise errors.InputError(
                f"{files.path(name)}: does not describe tokens as Hugging Face does "
                f"({error!r}); copy it again"
            ) from error
    return settings


def tokenize(
    texts: tf.Tensor,
    tokens: Mapping[str, int],
    tokenize_others: Callable[[tf.Tensor], tf.RaggedTensor],
    value: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = lambda texts, ids: ids,
) -> tf.RaggedTensor:
    """Cuts texts [B] into the ids [B, (S)] of `tokens` and of the texts between them.

    `tokenize_others` makes [B', (S)] of the texts between. `value` makes what stands
    for each token in a text, from its text and id, both [F].
    """
    if not tokens:
        return tokenize_others(texts)
    pieces, is_token = _split(texts, list(tokens))
    matches = tf.boolean_mask(pieces.values, is_token)  # [F]
    distinct, index = tf.unique(matches)  # [U], few
    equal = distinct[:, tf.newaxis] == tf.constant(list(tokens))  # [U, tokens]
    ids = tf.constant(list(tokens.values()), tf.int32)
    ids = tf.gather(tf.gather(ids, tf.argmax(equal, axis=1)), index)
    of_tokens = tf.RaggedTensor.from_row_lengths(
        value(matches, ids), tf.cast(is_token, tf.int64)
    )
    between = tokenize_others(tf.where(is_token, "", pieces.values))
    both = tf.concat([between, of_tokens], axis=1)  # one of the two is empty
    return tf.RaggedTensor.from_row_splits(
        both.values, tf.gather(both.row_splits, pieces.row_splits)
    )


def _pattern(tokens):
    longest_first = sorted(tokens, key=len, reverse=True)  # the first one is taken
    return "|".join(map(re.escape, longest_first))


def _split(texts, tokens):
    """Texts and tokens in turn, ragged [B, (P)], and which of them are tokens [P]."""
    texts = bpe_graph.clean(texts)
    texts = tf.strings.regex_replace(texts, _pattern(tokens), _MARK + rb"\0" + _MARK)
    pieces = tf.strings.split(texts, _MARK)
    place = tf.ragged.range(pieces.row_lengths()).values
    return pieces, place % 2 == 1
