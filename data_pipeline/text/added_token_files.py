"""added_tokens.json: tokens that were added to a vocabulary after it was learned.

Hugging Face writes it beside a vocab.txt, {token: id}; its other files say of a token
whether text is normalized before the token is looked for.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from contract import errors, file_names, json_files, wording

# Text never becomes these, as in google-research/bert.
_SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}


def read(vocab_file: str, vocab: Sequence[str]) -> tuple[list[str], dict[str, bool]]:
    """The vocabulary with the tokens of an added_tokens.json beside it, if any.

    Also returns {token: whether it is looked for in normalized text}.

    Raises:
        ValueError: a file cannot be read, the ids do not go on from the vocabulary's,
            or a token is to match whole words alone.
    """
    directory = os.path.dirname(vocab_file)
    path = os.path.join(directory, file_names.ADDED_TOKENS)
    if not tf.io.gfile.exists(path):
        return list(vocab), {}
    ids = json_files.read_object(path)
    held = {token: i for i, token in enumerate(vocab)}
    new = {token: i for token, i in ids.items() if held.get(token, -1) != i}
    if (empty := [t for t in ids if not t.strip()]) or held.keys() & new.keys():
        wrong = empty or sorted(held.keys() & new.keys())
        raise errors.InputError(
            f"{path}: {wording.listing(wrong)} cannot be added with these ids, because "
            f"they are empty, or {os.path.basename(vocab_file)} has them with other "
            "ids; correct or remove them"
        )
    longer = [*vocab, *_in_order(new, len(vocab), path)]
    return longer, choose(ids, _settings(directory), path)


def choose(
    tokens: Iterable[str], told: Mapping[str, Mapping[str, Any]], path: str
) -> dict[str, bool]:
    """{token: whether it is looked for in normalized text}, as `read` returns it.

    `told` has what Hugging Face's files say of some of the tokens.
    """
    chosen = {}
    for token in tokens:
        settings = told.get(token, {})
        if settings.get("single_word"):
            raise errors.InputError(
                f"{path}: {token!r} is to match whole words alone (single_word), which "
                "is not supported; set it to false where the token is described"
            )
        if token not in _SPECIAL:
            is_normalized = settings.get("normalized", not settings.get("special"))
            chosen[token] = bool(is_normalized)
    return chosen


def _in_order(ids: Mapping[str, Any], first: int, path: str) -> list[str]:
    """The tokens in the order of their ids, which run from `first` without a gap."""
    wanted = range(first, first + len(ids))
    if sorted(ids.values(), key=repr) != sorted(wanted, key=repr):
        raise errors.InputError(
            f"{path}: the ids of its {len(ids)} tokens are not {first}, {first + 1}, "
            "...; correct them, or remove the file to do without its tokens"
        )
    return sorted(ids, key=ids.__getitem__)


def _settings(directory: str) -> dict[str, dict[str, Any]]:
    """{token: what the other files say of it}; the newest kind of file counts."""
    told: dict[str, dict[str, Any]] = {}
    for name, listed in (
        (file_names.SPECIAL_TOKENS, _special_tokens),
        (file_names.TOKENIZER, lambda raw: raw.get("added_tokens") or ()),
        (
            file_names.TOKENIZER_CONFIG,
            lambda raw: (raw.get("added_tokens_decoder") or {}).values(),
        ),
    ):
        path = os.path.join(directory, name)
        if not tf.io.gfile.exists(path):
            continue
        try:
            told.update(
                (entry["content"], entry)
                for entry in listed(json_files.read_object(path))
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise errors.InputError(
                f"{path}: does not describe tokens as Hugging Face does ({error!r}); "
                "copy it again"
            ) from error
    return told


def _special_tokens(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = raw.get("additional_special_tokens") or ()
    plain = {"special": True}
    return [{"content": e, **plain} if isinstance(e, str) else e for e in entries]
