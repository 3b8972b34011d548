"""Files of Hugging Face beside a vocabulary: what they set is done here, or refused."""

import itertools
import json
import os
import re
from typing import Any

import tokenizers

from contract import errors, file_names, json_files, remote_files
from data_pipeline.text import added_tokens, base, gpt, gpt2, normalization, wordpiece

_WAY_ROUND = "give another tokenizer, or --nocheck_tokenizer to go on without this"
# BERT's own, those that inherit all from it, and those of the other networks.
_CLASSES = re.compile(
    r"((Bert|DistilBert|Electra|ConvBert|MobileBert|SqueezeBert|LayoutLM|Lxmert|DPR\w+|"
    r"Roberta|XLMRoberta|Albert|GPT2|OpenAIGPT|PreTrained)Tokenizer(Fast)?)|"
    r"ElmoTokenizer|TokenizersBackend"
)
_WHOLE = ("PreTrainedTokenizerFast", "TokenizersBackend")  # all is in tokenizer.json
# {key of tokenizer_config.json: the value that is done here}.
_DONE = {
    "do_basic_tokenize": True,
    "wordpieces_prefix": wordpiece.CONTINUATION,
    "truncation_side": "right",
    "remove_space": True,
    "sp_model_kwargs": {},
    "add_bos_token": False,
    "add_eos_token": False,
}
_SPECIAL = {
    f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "SEP", "PAD", "CLS")
}
# {place in tokenizer.json: the values of word pieces that are done here}. A word of 101
# to 200 characters is cut as in google-research/bert, whatever the number says.
_WORD_PIECES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("normalizer", "type"): ("BertNormalizer",),
    ("normalizer", "clean_text"): (True,),
    ("pre_tokenizer", "type"): ("BertPreTokenizer", "WhitespaceSplit"),
    ("model", "continuing_subword_prefix"): (wordpiece.CONTINUATION,),
    ("model", "unk_token"): ("[UNK]",),
    ("model", "max_input_chars_per_word"): (100, normalization.MAX_WORD_CHARS),
}
# Scripts, accents, controls, numbers, marks; nothing that versions of Unicode or
# docs/differences.md set apart, and one space between words.
_PROBE = (
    "The Quick\tbrown fox's 3.14 co-op, E-Mail: a_b@c.de (50%)! $5 + <x>=^`|~",
    "Ärger naïve façade Ñandú résumé e\u0301 coöp Straße 东京 and 漢字kana カナ",
    "ひらがな 한국어 русский язык Ёж ελληνικά עברית العربية हिन्दी ไทย 1,000",
    "zero\u200bwidth so\xadft nul\x00l bell\x07 nbsp\xa0x ide\u3000o “quoted” … –",
    "supercalifragilisticexpialidocious" * 2,
)


def read(vocab_file: str, name: str) -> dict[str, Any]:
    """A JSON file beside a vocabulary, or the vocabulary; {} where there is none."""
    path = os.path.join(os.path.dirname(vocab_file), name)
    path = vocab_file if vocab_file.endswith(name) else path
    return json_files.read_object(path) if remote_files.exists(path) else {}


def _part(raw, name):
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def read_rules(
    vocab_file: str, do_lower_case: bool, split_words: str | None
) -> normalization.WordRules:
    """How the files beside word pieces have words found; `split_words` goes before.

    Raises:
        ValueError: a value is none of those that are known.
    """
    config = read(vocab_file, file_names.TOKENIZER_CONFIG)
    raw = read(vocab_file, file_names.TOKENIZER)
    at_spaces = _part(raw, "pre_tokenizer").get("type") == "WhitespaceSplit"
    split = split_words or config.get(
        file_names.SPLIT_WORDS, normalization.SPLITS[not at_spaces]
    )
    by_marks = split != normalization.WHITESPACE
    values: dict[str, Any] = {}
    for key, key_in_json, usual in (
        ("strip_accents", "strip_accents", do_lower_case),
        ("tokenize_chinese_chars", "handle_chinese_chars", by_marks),
    ):
        in_json = _part(raw, "normalizer").get(key_in_json)
        values[key] = next(
            (v for v in (config.get(key), in_json) if v is not None), usual
        )
    if split_words == normalization.WHITESPACE:  # at nothing else
        values["tokenize_chinese_chars"] = False
    for key, value in {file_names.SPLIT_WORDS: split, **values}.items():
        known: Any = (True, False) if key in values else normalization.SPLITS
        if type(value) is not type(known[0]) or value not in known:
            raise errors.InputError(
                f"{os.path.dirname(vocab_file)}: {key} is {value!r:.40}; correct it to "
                f"{' or '.join(map(json.dumps, known))}"
            )
    strips, isolates = values.values()
    return normalization.WordRules(do_lower_case, strips, isolates, by_marks)


def check(vocab_file: str, tokenizer: base.Tokenizer, split_words: str | None) -> None:
    """Refuses settings of the files beside a vocabulary that `tokenizer` does not do.

    It cuts a text by the tokenizer.json as well, if there is one. Raises ValueError.
    """
    config = read(vocab_file, file_names.TOKENIZER_CONFIG)
    raw = read(vocab_file, file_names.TOKENIZER)
    directory = os.path.dirname(vocab_file)
    path = os.path.join(directory, file_names.TOKENIZER_CONFIG)
    of_network = read(vocab_file, file_names.HUGGING_FACE_CONFIG)
    name = config.get("tokenizer_class") or of_network.get("tokenizer_class")
    if name and (not _CLASSES.fullmatch(str(name)) or (name in _WHOLE and not raw)):
        raise errors.InputError(
            f"{directory}: tokenizer_class is {name!r:.60}, which may cut texts "
            f"otherwise; {_WAY_ROUND}"
        )
    is_bert = isinstance(tokenizer, wordpiece.BertTokenizer)
    wanted = _DONE | (_SPECIAL if is_bert else {})
    for key, value in config.items():
        value = value.get("content", value) if isinstance(value, dict) else value
        if value is not None and key in wanted and value != wanted[key]:
            _refuse(path, key, value, [wanted[key]])
    if {*map(str, config.get("never_split") or ())} - added_tokens.SPECIAL:
        _refuse(path, "never_split", config["never_split"], [None])
    if "model" in raw:
        path = os.path.join(directory, file_names.TOKENIZER)
        _check_json(path, raw, tokenizer, is_bert, split_words)


def _refuse(path, key, value, known):
    """Raises the error of a value; `known` are those that are done."""
    raise errors.InputError(
        f"{path}: {key} is {json.dumps(value)[:60]}, and only "
        f"{' or '.join(map(json.dumps, known))} is done here; {_WAY_ROUND}"
    )


def _check_json(path, raw, tokenizer, is_bert, split_words):
    """`check` of a tokenizer.json."""
    for (section, key), known in _WORD_PIECES.items() if is_bert else ():
        value = _part(raw, section).get(key)
        if value not in known:
            _refuse(path, f"{section}.{key}", value, known)
    for token in (entry["content"] for entry in raw.get("added_tokens") or ()):
        if is_bert and token not in {*tokenizer.added_tokens, *added_tokens.SPECIAL}:
            raise errors.InputError(
                f"{path}: texts may have the added token {token!r:.40}, which the "
                f"vocabulary does not add; give --vocab_file={path}, or "
                "--nocheck_tokenizer to go on without it"
            )
    if (side := _part(raw, "truncation").get("direction", "Right")) != "Right":
        _refuse(path, "truncation.direction", side, ["Right"])
    if tokenizer.unk_id is None:  # all of GPT-2's file was compared when it was read
        return
    library = _without_vocabulary(path, raw, tokenizer)
    # The latter's were compared when the file was read.
    is_free = split_words or getattr(tokenizer, "words", None) == gpt.ORIGINAL
    if not (is_free or isinstance(tokenizer, gpt2.Gpt2Tokenizer)):
        for text in _PROBE:
            theirs = base.pretokens(text, (library.normalizer, library.pre_tokenizer))
            ours = tokenizer.pretokens(text)
            if not is_bert:  # unigrams are cut in whole texts, too
                theirs, ours = ["".join(theirs)], ["".join(ours)]
            if theirs != ours:
                pairs = itertools.zip_longest(theirs, ours)
                a, b = next(pair for pair in pairs if pair[0] != pair[1])
                raise errors.InputError(
                    f"{path}: finds other words, such as {a!r:.60} where {b!r:.60} is "
                    f"read here; {_WAY_ROUND}"
                )
    if tokenizer.cls_id is None:
        return
    first, last, between = tokenizer.start_id, tokenizer.end_id, tokenizer.delimiter_ids
    framed = library.encode("a", "a").ids, library.encode("a").ids
    word = library.encode("a", add_special_tokens=False).ids
    if framed != ([first, *word, *between, *word, last], [first, *word, last]):
        raise errors.InputError(
            f"{path}: post_processor puts other special tokens around texts than "
            f"{tokenizer.vocab[first]} and {tokenizer.vocab[last]}; {_WAY_ROUND}"
        )


def _without_vocabulary(path, raw, tokenizer):
    """The library's tokenizer with three special tokens: it opens in no time."""
    ids = tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id
    model = {
        "type": "WordPiece",
        "vocab": {tokenizer.vocab[i]: i for i in ids if i is not None},
        "unk_token": tokenizer.vocab[tokenizer.unk_id],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    normalizer = raw.get("normalizer")
    if _part(raw, "normalizer").get("type") == "BertNormalizer":
        normalizer = {**normalizer, "lowercase": tokenizer.do_lower_case}  # of a flag
    parts = {"model": model, "normalizer": normalizer, "added_tokens": []}
    none = dict.fromkeys(("truncation", "padding", "decoder"))
    explain = f"{path}: the library tokenizers cannot open it (%.80s); {_WAY_ROUND}"
    with errors.named(lambda error: explain % error):
        return tokenizers.Tokenizer.from_str(json.dumps({**raw, **none, **parts}))
