"""Files of byte pairs: vocabularies of GPT and GPT-2 in every layout, read and checked.

A vocabulary lies in two files, {token: id} and the merges in the order in which they
were learned (file_names.MERGES), or in one tokenizer.json.
"""

import collections
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contract import errors, file_names, json_files, remote_files
from data_pipeline.text import added_tokens

END_OF_WORD = "</w>"  # ends a word's last token in GPT's vocabulary
HEADER = "#version: 0.2"
OF_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_SPACE = "Ġ"  # how byte-level vocabularies write a space
_COPY = "copy the file again"
_REMEDY = "give the two files of one release"


class BytePairs(NamedTuple):
    """A vocabulary: the tokens by id, the merges by rank, and which kind it is."""

    vocab: list[str]
    merges: list[tuple[str, str]]
    is_byte_level: bool  # GPT-2's or RoBERTa's; otherwise GPT's, of characters
    is_roberta: bool = False
    adds_space: bool = False  # before a text, by the file


def is_byte_pairs(vocab_file: str) -> bool:
    """Whether a file of a vocabulary holds byte pairs; others hold word pieces."""
    if not vocab_file.endswith(file_names.TOKENIZER):
        return vocab_file.endswith(".json")
    model = json_files.read_object(vocab_file).get("model")
    # Old files have no type.
    return isinstance(model, dict) and "merges" in model


def read(vocab_file: str) -> BytePairs:
    """Reads a vocabulary and its merges.

    Raises:
        ValueError: a file is missing or cannot be read, the ids are not 0, 1, ..., a
            token or merge is there twice, or a merge has tokens that are not entries.
    """
    name = os.path.basename(vocab_file)
    if name.endswith(file_names.TOKENIZER):
        return _read_tokenizer(vocab_file)
    learned = added_tokens.sort_by_id(_object(vocab_file), vocab_file, _COPY)
    vocab, _ = added_tokens.read(vocab_file, learned)
    merges_file = merges_of(vocab_file)
    if not remote_files.exists(merges_file):
        raise errors.InputError(
            f"{merges_file}: there is no such file, which holds the merges of "
            f"{vocab_file}; copy it beside the vocabulary"
        )
    lines = _lines(merges_file)
    first = 2 if lines and lines[0].startswith("#version") else 1
    numbered = enumerate(lines[first - 1 :], start=first)
    pairs = [(f"{merges_file}:{number}", line) for number, line in numbered]
    merges = _checked(pairs, vocab, vocab_file)
    is_byte_level = _is_byte_level(vocab)
    is_roberta = is_byte_level and _is_roberta(vocab, merges)
    return BytePairs(vocab, merges, is_byte_level, is_roberta)


def merges_of(vocab_file: str) -> str:
    """The file of the merges that belong to a vocabulary.

    Raises:
        ValueError: the vocabulary's name is none of those that are known.
    """
    directory, name = os.path.split(vocab_file)
    for ending, merges in file_names.MERGES.items():
        if name.endswith(ending):
            return os.path.join(directory, name.removesuffix(ending) + merges)
    known = ", ".join((*file_names.MERGES, file_names.TOKENIZER))
    raise errors.InputError(
        f"{vocab_file}: a vocabulary of byte pairs has a name that ends in {known}; "
        "rename it, and its merges"
    )


def vocab_text(vocab: Sequence[str]) -> str:
    """The text of a vocab.json."""
    ids = {token: index for index, token in enumerate(vocab)}
    return json.dumps(ids, ensure_ascii=False) + "\n"


def merges_text(merges: Iterable[tuple[str, str]]) -> str:
    """The text of a merges.txt."""
    return "".join(f"{line}\n" for line in (HEADER, *(f"{a} {b}" for a, b in merges)))


def _object(path: str) -> dict[str, Any]:
    """The object of a JSON file, if no key is there twice."""

    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            ((twice, _),) = collections.Counter(key for key, _ in pairs).most_common(1)
            raise errors.InputError(f"{twice!r} is there twice")
        return dict(pairs)

    return json_files.read_object(path, unique)


def _lines(path: str) -> list[str]:
    try:
        with remote_files.open_file(path) as file:
            text = file.read().removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); copy it again"
        ) from error
    # Tokens of GPT may hold characters at which str.splitlines would split.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _checked(
    places: Iterable[tuple[str, str]], vocab: Sequence[str], vocab_file: str
) -> list[tuple[str, str]]:
    """The merges of (place, line), whose parts and results are all entries."""
    entries = set(vocab)
    place_of: dict[tuple[str, str], str] = {}
    for place, line in places:
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise errors.InputError(
                f"{place}: {line!r} is no merge, which is two tokens with a space "
                f"between them; {_COPY}"
            )
        pair = (parts[0], parts[1])
        for token in (*pair, "".join(pair)):
            if token not in entries:
                raise errors.InputError(
                    f"{place}: merge {line!r} needs the token {token!r}, which "
                    f"{vocab_file} does not have; {_REMEDY}"
                )
        if pair in place_of:
            raise errors.InputError(
                f"{place}: merge {line!r} is there already, at {place_of[pair]}; "
                f"{_REMEDY}"
            )
        place_of[pair] = place
    return list(place_of)


def _is_byte_level(vocab: Sequence[str]) -> bool:
    # A byte-level vocabulary of pages of HTML may have a token that ends so, too.
    return _SPACE in vocab or not any(token.endswith(END_OF_WORD) for token in vocab)


def _is_roberta(vocab, merges) -> bool:
    """Whether <s> and </s> are special; those of pages of HTML are made by merges."""
    ends = {OF_ROBERTA[0], OF_ROBERTA[2]}
    return ends <= {*vocab} and ends.isdisjoint("".join(pair) for pair in merges)


def _read_tokenizer(path: str) -> BytePairs:
    """Reads a tokenizer.json of `tokenizers`, if it is GPT's, GPT-2's or RoBERTa's."""
    raw = _object(path)
    if raw.get("version") != "1.0":
        raise errors.InputError(
            f"{path}: version {raw.get('version')!r} of the format is not known, which "
            f"is 1.0 here; {_other_files(path)}"
        )
    try:
        model = raw["model"]
        vocab = dict(model["vocab"])
        for entry in raw.get("added_tokens") or ():
            if vocab.setdefault(entry["content"], entry["id"]) != entry["id"]:
                raise errors.InputError(
                    f"{path}: added_tokens says that {entry['content']!r} has the id "
                    f"{entry['id']}, and model.vocab says {vocab[entry['content']]}; "
                    f"{_other_files(path)}"
                )
        lines = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
        is_roberta = _is_roberta(vocab, (line.split(" ") for line in lines))
        is_byte_level = _kind(raw, path, is_roberta)
        adds_space = is_roberta and raw["pre_tokenizer"].get("add_prefix_space", True)
    except (AttributeError, KeyError, TypeError) as error:
        raise errors.InputError(
            f"{path}: is not laid out as tokenizers 0.23 writes it ({error!r}); "
            f"{_other_files(path)}"
        ) from error
    tokens = added_tokens.sort_by_id(vocab, path, _COPY)
    places = [(f"{path}: model.merges[{i}]", line) for i, line in enumerate(lines)]
    merges = _checked(places, tokens, path)
    return BytePairs(tokens, merges, is_byte_level, is_roberta, adds_space)


def _kind(raw: Mapping[str, Any], path: str, is_roberta: bool) -> bool:
    """Whether a tokenizer is of bytes; False: GPT's; ValueError: neither."""
    model = raw["model"]
    normalizer, splitter = raw.get("normalizer") or {}, raw.get("pre_tokenizer") or {}
    # (Name, value, what it must be), where it may also be absent.
    expected = [
        ("model.type", model.get("type", "BPE"), "BPE"),
        ("model.dropout", model.get("dropout") or None, None),
        ("model.byte_fallback", model.get("byte_fallback", False), False),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
        ("model.prefix", model.get("continuing_subword_prefix") or None, None),
    ]
    suffix = model.get("end_of_word_suffix") or None
    if suffix:
        expected += [
            ("model.end_of_word_suffix", suffix, END_OF_WORD),
            ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
            ("normalizer.lowercase", normalizer.get("lowercase", True), True),
            ("pre_tokenizer.type", splitter.get("type"), "BertPreTokenizer"),
        ]
    else:
        expected += [
            ("normalizer", normalizer.get("type"), None),
            ("pre_tokenizer.type", splitter.get("type"), "ByteLevel"),
            ("use_regex", splitter.get("use_regex", True), True),
        ]
        if not is_roberta:
            adds = splitter.get("add_prefix_space", True)
            expected.append(("add_prefix_space", adds, False))
    for name, value, wanted in expected:
        if value != wanted:
            raise errors.InputError(
                f"{path}: {name} is {value!r}, but GPT and GPT-2 have "
                f"{wanted!r}; give a tokenizer of theirs"
            )
    return not suffix


def _other_files(path: str) -> str:
    return (
        f"give the vocab.json that belongs to it, or save it with tokenizers 0.23: "
        f"Tokenizer.from_file({os.path.basename(path)!r}).save(...)"
    )
