"""Opens a tokenizer from its vocabulary and the files of Hugging Face beside it.

What those files set is done here, or refused.
"""

import collections
import itertools
import json
import re
from typing import Any

import tokenizers
from absl import logging

from contract import errors, file_names, wording
from data_pipeline.tables import text_rows
from data_pipeline.text import (
    added_tokens,
    base,
    byte_pairs,
    normalization,
    unigram,
    vocabulary_files,
    wordpiece,
)

# tokenization.py, validate_case_matches_checkpoint: the releases that it lists by name.
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
# With fewer such entries a vocabulary is cased where most have capitals.
_ENOUGH_ENTRIES = 500
_CASED_SHARE_OF_FEW = 0.5
_MOST_CHARACTERS = 1 << 12  # of a word
_SHARE_OF_OTHERS = 0.1  # of tokens that are no word pieces; released ones have none
_WAY_ROUND = "give another tokenizer, or --nocheck_tokenizer to go on without this"
# BERT's own, those that inherit all from it, and those of the other networks.
_CLASSES = re.compile(
    r"((Bert|DistilBert|Electra|ConvBert|MobileBert|SqueezeBert|LayoutLM|Lxmert|DPR\w+|"
    r"Roberta|XLMRoberta|Camembert|MPNet|Albert|DebertaV2|GPT2|OpenAIGPT|"
    r"PreTrained)Tokenizer(Fast)?)|"
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
# {place in tokenizer.json: the values of word pieces that are done here}. A word of 101
# to 200 characters is cut as in google-research/bert, whatever the number is.
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
    "The Quick\tbrown fox's 3.14 co-op, E-Mail: a_b@c.de (50%)! $5 + <x>=^`|~ "
    "Ärger naïve façade Ñandú résumé e\u0301 coöp Straße 东京 and 漢字kana カナ "
    "ひらがな 한국어 русский язык Ёж ελληνικά עברית العربية हिन्दी ไทย 1,000 "
    "zero\u200bwidth so\xadft nul\x00l bell\x07 nbsp\xa0x ide\u3000o “quoted” … – "
    "supercalifragilisticexpialidocioussupercalifragilisticexpialidocious"
)


def check_case(
    tokenizer: base.Tokenizer, vocab_file: str, init_checkpoint: str
) -> None:
    """Refuses to lower-case for a cased model, and the reverse.

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
    share, lowers = capitals / max(len(has_case), 1), tokenizer.do_lower_case
    if len(has_case) < _ENOUGH_ENTRIES:
        is_wrong = lowers and share > _CASED_SHARE_OF_FEW
    else:
        is_wrong = share > _CASED_SHARE if lowers else share < _UNCASED_SHARE
    if is_wrong or name in (_CASED_RELEASES if lowers else _LOWER_RELEASES):
        kind = "a cased" if lowers else "an uncased"
        flag, other = json.dumps(lowers), json.dumps(not lowers)
        raise errors.InputError(
            f"--do_lower_case={flag}, but {vocab_file} is {kind} vocabulary "
            f"({capitals} entries have capitals); set --do_lower_case={other}, or "
            "--nocheck_case"
        )


def lowers_case(files: vocabulary_files.VocabularyFiles) -> bool | None:
    """Whether tokenizer_config.json or tokenizer.json lower-cases; None for neither.

    Raises:
        InputError: one cannot be read, or has another value.
    """
    for name, section, key in (
        (file_names.TOKENIZER_CONFIG, None, "do_lower_case"),
        (file_names.TOKENIZER, "normalizer", "lowercase"),
    ):
        settings: Any = files.read(name)
        settings = settings.get(section) if section else settings
        lowers = settings.get(key) if isinstance(settings, dict) else None
        if isinstance(lowers, bool):
            return lowers
        if lowers is not None:
            raise errors.InputError(
                f"{files.path(name)}: {key}={lowers!r}; give true or false"
            )
    return None


def open_tokenizer(files: Any, config: Any) -> base.Tokenizer:
    """Opens the tokenizer of `files`, as of model_directory.ModelFiles.

    `config` is that of the network, in which files.config_file was read.
    """
    path, known = files.vocab_file or files.config_file, files.beside
    if not known or known.vocab_file != path:
        known = vocabulary_files.VocabularyFiles(path)
    if config.spec.reads_characters:
        return open_elmo(files, known, config.to_dict())
    model_type = getattr(config, "model_type", None)  # a relative's is in no other key
    known.know(files.config_file, {"model_type": model_type, **config.extra})
    if not files.vocab_file:
        raise errors.InputError(
            "--vocab_file is missing; set it, or set --pretrained to the directory of "
            "a model"
        )
    tokenizer = open_vocabulary(
        files.vocab_file,
        files.do_lower_case is not False,
        files.split_words,
        checks=files.check_tokenizer,
        known=known,
    )
    if files.check_case and isinstance(tokenizer, wordpiece.BertTokenizer):
        check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    return tokenizer


def open_elmo(
    files: Any, beside: vocabulary_files.VocabularyFiles, options: dict[str, Any]
) -> base.Tokenizer:
    """Opens the tokenizer of an ELMo, which does without a vocabulary."""
    from data_pipeline.text import elmo

    vocab = elmo.read_vocab(files.vocab_file) if files.vocab_file else ()
    split = files.split_words or _setting(
        beside, file_names.SPLIT_WORDS, normalization.WHITESPACE
    )
    characters = options.get("char_cnn") or {}
    key, usual = "max_characters_per_token", elmo.MAX_CHARACTERS
    is_object = isinstance(characters, dict)
    length = characters.get(key, usual) if is_object else characters
    if not isinstance(length, int) or not 3 <= length <= _MOST_CHARACTERS:
        raise errors.InputError(
            f"{files.config_file}: {key} is {length!r:.60}; give {usual}, or the "
            "number of the release"
        )
    return elmo.ElmoTokenizer(vocab, split, length)


def check_exports(tokenizer: base.Tokenizer, exports: bool) -> None:
    """Raises ValueError where an export of texts cannot have their tokenizer."""
    if exports and not tokenizer.in_graph:
        raise errors.InputError(
            "--do_export: an export takes raw text, and the tokenizer of GPT is no "
            "TensorFlow operation; leave it out, or take BERT or GPT-2"
        )


def open_vocabulary(
    vocab_file: str,
    do_lower_case: bool = True,
    split_words: str | None = None,
    *,
    checks: bool = True,
    known: vocabulary_files.VocabularyFiles | None = None,
) -> base.Tokenizer:
    """Opens the tokenizer of a vocabulary: of word pieces, byte pairs or unigrams.

    Args:
        vocab_file: vocab.txt, a file of SentencePiece, or as in `byte_pairs.read`.
        do_lower_case: of word pieces and ALBERT; GPT's text is, the others' is not.
        split_words: one of normalization.SPLITS, of word pieces; None for that of the
            files beside the vocabulary, or else the original's.
        checks: whether to refuse settings that are not done, and texts of which most
            words are unknown.
        known: the files beside the vocabulary, where some are read already.
    """
    files = known or vocabulary_files.VocabularyFiles(vocab_file)
    tokenizer = _open(files, do_lower_case, split_words)
    tokenizer.refuses_unknown = checks
    if checks:
        _check_settings(files, tokenizer, split_words)
        if isinstance(tokenizer, wordpiece.BertTokenizer):
            _check_entries(vocab_file, tokenizer.vocab)
    return tokenizer


def _check_entries(vocab_file, vocab):
    """Refuses a vocabulary of another kind; warns of tokens that are there twice."""
    others = sum(token.startswith((unigram.SPACE, "Ġ")) for token in vocab)
    if others > len(vocab) * _SHARE_OF_OTHERS:
        raise errors.InputError(
            f"{vocab_file}: {others} of {len(vocab)} tokens begin with ▁ or Ġ, as "
            "those of SentencePiece or byte pairs; give their file, or "
            "--nocheck_tokenizer"
        )
    counts = collections.Counter(vocab)
    if twice := [token for token, count in counts.items() if count > 1]:
        logging.warning(
            "%s: of equal tokens the last id counts, as in google-research/bert: %s",
            vocab_file,
            wording.listing(twice, 5),
        )


def _open(files, do_lower_case, split_words):
    if unigram.is_unigrams(files):
        accents = _setting(files, "keep_accents", False)
        return unigram.open_file(files, do_lower_case, accents)
    if not byte_pairs.is_byte_pairs(files):
        rules = _read_rules(files, do_lower_case, split_words)
        return wordpiece.BertTokenizer.from_files(files, do_lower_case, rules)
    read = byte_pairs.read(files)
    try:
        if read.is_byte_level:
            adds = bool(_setting(files, "add_prefix_space", read.adds_space))
            parts = read.vocab, read.merges, adds, read.added_tokens
            if read.of_bert is not None:
                return byte_pairs.BertOfBytesTokenizer(*parts, **read.of_bert)
            if not read.is_roberta:
                return byte_pairs.Gpt2Tokenizer(*parts)
            takes = {"mask_takes_space": read.mask_takes_space}
            return byte_pairs.RobertaTokenizer(*parts, **takes)
        words = _setting(files, "gpt_tokenizer", byte_pairs.GPT_WORDS)
        if words != byte_pairs.GPT_WORDS:  # of earlier versions
            raise errors.InputError(
                f"gpt_tokenizer={words!r} in tokenizer_config.json is no longer done; "
                "train again from Hugging Face's openai-gpt"
            )
        added = read.added_tokens
        return byte_pairs.GptTokenizer(read.vocab, read.merges, added_tokens=added)
    except ValueError as error:
        raise errors.InputError(f"{files.vocab_file}: {error}") from error


def _setting(files, key, default):
    return files.read(file_names.TOKENIZER_CONFIG).get(key, default)


def add_tokens(
    tokenizer: base.Tokenizer, path: str
) -> tuple[wordpiece.BertTokenizer, list[str]]:
    """Appends the tokens of a file, one a line, to a vocabulary; known ids stay.

    Also returns the new tokens that are never made from text, because they are split
    (punctuation) or lower-cased. Their ids can still be used.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        raise errors.InputError(
            f"{path}: tokens can be added to word pieces, not to byte pairs, which "
            "spell them already; leave it out"
        )
    tokens = [line.strip() for _, line in text_rows.lines(path)]
    if not tokens:
        raise errors.InputError(f"{path}: is empty; give the tokens to add, one a line")
    known = {token: f"id {i}" for i, token in enumerate(tokenizer.vocab)}
    for line, token in enumerate(tokens, start=1):
        if len(token.split()) != 1:
            raise errors.InputError(
                f"{path}:{line}: {token!r} is not one token; give one a line, without "
                "whitespace"
            )
        if token in known:
            raise errors.InputError(
                f"{path}:{line}: {token!r} is known already, {known[token]}; remove it"
            )
        known[token] = f"line {line}"
    ids = {token: tokenizer.vocab_size + i for i, token in enumerate(tokens)}
    longer = type(tokenizer)(
        [*tokenizer.vocab, *tokens],
        added_tokens=tokenizer.added_tokens,
        rules=tokenizer.rules,
    )
    # A piece that continues a word is no text by itself.
    words = [token for token in tokens if not wordpiece.is_continuation(token)]
    made = longer.tokenize(words).to_list()
    return longer, [w for w, got in zip(words, made, strict=True) if got != [ids[w]]]


def _part(raw, name):
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def _first_set(*values):
    return next(value for value in values if value is not None)


def _read_rules(
    files: vocabulary_files.VocabularyFiles,
    do_lower_case: bool,
    split_words: str | None,
) -> normalization.WordRules:
    """How the files beside word pieces have words found; `split_words` goes before."""
    config = files.read(file_names.TOKENIZER_CONFIG)
    raw = files.read(file_names.TOKENIZER)
    normalizer, splitter = _part(raw, "normalizer"), _part(raw, "pre_tokenizer")
    usual = normalization.SPLITS[splitter.get("type") != "WhitespaceSplit"]
    split = split_words or config.get(file_names.SPLIT_WORDS, usual)
    by_marks = split != normalization.WHITESPACE
    strips = _first_set(
        config.get("strip_accents"), normalizer.get("strip_accents"), do_lower_case
    )
    isolates = _first_set(
        config.get("tokenize_chinese_chars"),
        normalizer.get("handle_chinese_chars"),
        by_marks,
    )
    if split_words == normalization.WHITESPACE:  # at nothing else
        isolates = False
    for key, value, known in (
        (file_names.SPLIT_WORDS, split, normalization.SPLITS),
        ("strip_accents", strips, (True, False)),
        ("tokenize_chinese_chars", isolates, (True, False)),
    ):
        choices = [*map(json.dumps, known)]
        if json.dumps(value) not in choices:
            raise errors.InputError(
                f"{files.directory}: {key} is {value!r:.40}; correct it to "
                f"{' or '.join(choices)}"
            )
    return normalization.WordRules(do_lower_case, strips, isolates, by_marks)


def _check_settings(files, tokenizer, split_words):
    """Refuses settings of the files beside a vocabulary that `tokenizer` does not do.

    It cuts a text by the tokenizer.json as well, if there is one.
    """
    path = files.path(file_names.TOKENIZER_CONFIG)
    config = files.read(file_names.TOKENIZER_CONFIG)
    raw = files.read(file_names.TOKENIZER)
    of_network = files.read(file_names.HUGGING_FACE_CONFIG)
    name = config.get("tokenizer_class") or of_network.get("tokenizer_class")
    if name and (not _CLASSES.fullmatch(str(name)) or (name in _WHOLE and not raw)):
        raise errors.InputError(
            f"{files.directory}: tokenizer_class is {name!r:.60}, which may cut texts "
            f"otherwise; {_WAY_ROUND}"
        )
    is_bert = isinstance(tokenizer, wordpiece.BertTokenizer)
    special = tokenizer.named_special() if is_bert else {}
    wanted = _DONE | {key: special[key] for key in special if key != "mask_token"}
    for key, value in config.items():
        value = value.get("content", value) if isinstance(value, dict) else value
        if value is not None and key in wanted and value != wanted[key]:
            _refuse(path, key, value, [wanted[key]])
    if {*map(str, config.get("never_split") or ())} - added_tokens.SPECIAL:
        _refuse(path, "never_split", config["never_split"], [None])
    if "model" in raw:
        _check_json(files, tokenizer, split_words)


def _refuse(path, key, value, known):
    """Raises the error of a value; `known` are those that are done."""
    raise errors.InputError(
        f"{path}: {key} is {json.dumps(value)[:60]}, and only "
        f"{' or '.join(map(json.dumps, known))} is done here; {_WAY_ROUND}"
    )


def _check_json(files, tokenizer, split_words):
    """`_check_settings` of a tokenizer.json."""
    path, raw = files.path(file_names.TOKENIZER), files.read(file_names.TOKENIZER)
    is_bert = isinstance(tokenizer, wordpiece.BertTokenizer)
    for (section, key), known in _WORD_PIECES.items() if is_bert else ():
        value = _part(raw, section).get(key)
        if value not in known:
            _refuse(path, f"{section}.{key}", value, known)
    added = getattr(tokenizer, "added_tokens", None)
    special = getattr(tokenizer, "never_made", added_tokens.SPECIAL)
    for token in files.added():
        if added is not None and token not in {*added, *special}:
            raise errors.InputError(
                f"{path}: the vocabulary lacks the added token {token!r:.40}; give "
                f"--vocab_file={path}, or --nocheck_tokenizer to go on without it"
            )
    if is_bert:
        _compare_vocabularies(path, _part(raw["model"], "vocab"), tokenizer.vocab)
    if (side := _part(raw, "truncation").get("direction", "Right")) != "Right":
        _refuse(path, "truncation.direction", side, ["Right"])
    if tokenizer.unk_id is None:  # all of GPT-2's file was compared when it was read
        return
    library = _without_vocabulary(path, raw, tokenizer)
    # The latter's were compared when the file was read.
    if not (split_words or isinstance(tokenizer, byte_pairs.Gpt2Tokenizer)):
        theirs = base.pretokens(_PROBE, (library.normalizer, library.pre_tokenizer))
        ours = tokenizer.pretokens(_PROBE)
        if not is_bert:  # unigrams are cut in whole texts, too
            theirs, ours = ["".join(theirs)], ["".join(ours)]
        for a, b in itertools.zip_longest(theirs, ours):
            if a != b:
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


def _compare_vocabularies(path, theirs, vocab):
    """Warns where the ids of a tokenizer.json are of other tokens than `vocab` has."""
    ids = {token: i for token, i in theirs.items() if isinstance(i, int)}
    if others := {token: i for token, i in ids.items() if vocab[i : i + 1] != [token]}:
        token, i = next(iter(others.items()))
        logging.warning(
            "%s: %s of the vocabulary beside it are others, such as %r with id %s; the "
            "tokens are those of the vocabulary: remove the file that is wrong",
            path,
            wording.count(len(others), "token"),
            token,
            i,
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
