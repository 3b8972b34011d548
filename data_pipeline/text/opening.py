"""Opens a tokenizer, and checks that vocabulary and --do_lower_case belong together."""

import collections
import re
from typing import Any

from absl import logging

from contract import (
    errors,
    file_names,
    json_files,
    remote_files,
    tensorflow_later,
    wording,
)
from data_pipeline.tables import text_rows
from data_pipeline.text import (
    base,
    bpe_files,
    gpt,
    gpt2,
    tokenizer_settings,
    unigram,
    wordpiece,
)

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
# With fewer such entries a vocabulary is cased where most have capitals.
_ENOUGH_ENTRIES = 500
_CASED_SHARE_OF_FEW = 0.5
_SHARE_OF_OTHERS = 0.1  # of tokens that are no word pieces; released ones have none


def check_case(
    tokenizer: base.Tokenizer, vocab_file: str, init_checkpoint: str
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
    cased_share = _CASED_SHARE if is_known else _CASED_SHARE_OF_FEW
    if tokenizer.do_lower_case and (name in _CASED_RELEASES or share > cased_share):
        raise errors.InputError(
            f"--do_lower_case=true, but {vocab_file} is a cased vocabulary ({capitals} "
            "entries have capitals, which lower-cased text never reaches); set "
            "--do_lower_case=false, or --nocheck_case if this is meant"
        )
    if not tokenizer.do_lower_case and (
        name in _LOWER_RELEASES or (is_known and share < _UNCASED_SHARE)
    ):
        raise errors.InputError(
            f"--do_lower_case=false, but {vocab_file} is an uncased vocabulary "
            f"({capitals} entries have capitals, so capitals become [UNK]); set "
            "--do_lower_case=true, or --nocheck_case if this is meant"
        )


def open_tokenizer(files: Any) -> base.Tokenizer:
    """Opens the tokenizer of `files`, a pretrained.ModelFiles.

    Raises:
        ValueError: a vocabulary is missing where one is needed, or as in `check_case`,
            `open_elmo` and `open_vocabulary`.
    """
    if (options := _elmo_options(files.config_file)) is not None:
        return open_elmo(files, options)
    if not files.vocab_file:
        raise errors.InputError(
            "--vocab_file is missing; set it, or set --pretrained to the directory of "
            "a model"
        )
    tokenizer = open_vocabulary(
        files.vocab_file,
        files.do_lower_case is not False,
        files.gpt_tokenizer,
        files.split_words,
        checks=files.check_tokenizer,
    )
    if files.check_case and isinstance(tokenizer, wordpiece.BertTokenizer):
        check_case(tokenizer, files.vocab_file, files.init_checkpoint)
    return tokenizer


def _elmo_options(config_file: str) -> dict[str, Any] | None:
    """The content of options.json of an ELMo; None of any other config, or none."""
    if not config_file or not remote_files.exists(config_file):
        return None
    raw = json_files.read(config_file)
    return raw if isinstance(raw, dict) and "lstm" in raw else None


def open_elmo(files: Any, options: dict[str, Any]) -> base.Tokenizer:
    """Opens the tokenizer of an ELMo; characters do without a vocabulary.

    Raises:
        ValueError: the vocabulary of a network that reads words is missing, or as in
            `elmo.read_vocab` and ElmoTokenizer.
    """
    tensorflow_later.Later("ELMo is computed").check()
    from data_pipeline.text import elmo

    characters = options.get("char_cnn")
    if characters is None and not files.vocab_file:
        raise errors.InputError(
            f"--vocab_file is missing; {files.config_file} describes a network that "
            "reads words, not characters: set it to the file of its words"
        )
    vocab = elmo.read_vocab(files.vocab_file) if files.vocab_file else ()
    split = files.split_words or _setting(
        files.vocab_file or files.config_file, elmo.SETTING, elmo.WHITESPACE
    )
    length = None
    if characters is not None:
        length = characters.get("max_characters_per_token", elmo.MAX_CHARACTERS)
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
    gpt_tokenizer: str | None = None,
    split_words: str | None = None,
    *,
    checks: bool = True,
) -> base.Tokenizer:
    """Opens the tokenizer of a vocabulary: of word pieces, byte pairs or unigrams.

    Args:
        vocab_file: vocab.txt, a file of SentencePiece, or as in `bpe_files.read`.
        do_lower_case: of word pieces and ALBERT; GPT's text is, the others' is not.
        gpt_tokenizer: one of gpt.GPT_TOKENIZERS; None for that in tokenizer_config.json
            beside the vocabulary, or else the first.
        split_words: one of normalization.SPLITS, of word pieces; None for that of the
            files beside the vocabulary, or else as google-research/bert.
        checks: whether to call `tokenizer_settings.check`, and to refuse texts of
            which most words are unknown.

    Raises:
        ValueError: as in `bpe_files.read`, `unigram.open_file` and the tokenizers.
    """
    tokenizer = _open(vocab_file, do_lower_case, gpt_tokenizer, split_words)
    tokenizer.refuses_unknown = checks
    if checks:
        tokenizer_settings.check(vocab_file, tokenizer, split_words)
    if checks and isinstance(tokenizer, wordpiece.BertTokenizer):
        _check_entries(vocab_file, tokenizer.vocab)
    return tokenizer


def _check_entries(vocab_file, vocab):
    """Refuses a vocabulary of another kind; warns of tokens that are there twice."""
    others = sum(token.startswith((unigram.SPACE, "Ġ")) for token in vocab)
    if others > len(vocab) * _SHARE_OF_OTHERS:
        raise errors.InputError(
            f"{vocab_file}: {others} of {len(vocab)} tokens begin as those of "
            "SentencePiece (▁) or byte pairs (Ġ), not as word pieces; give the .model, "
            "vocab.json or tokenizer.json that lies beside it, or --nocheck_tokenizer"
        )
    counts = collections.Counter(vocab)
    if twice := [token for token, count in counts.items() if count > 1]:
        logging.warning(
            "%s: tokens that are there twice, of which the last id counts, as in "
            "google-research/bert: %s",
            vocab_file,
            wording.listing(twice, 5),
        )


def _open(vocab_file, do_lower_case, gpt_tokenizer, split_words):
    if unigram.is_unigrams(vocab_file):
        accents = _setting(vocab_file, "keep_accents", False)
        return unigram.open_file(vocab_file, do_lower_case, accents)
    if not bpe_files.is_byte_pairs(vocab_file):
        rules = tokenizer_settings.read_rules(vocab_file, do_lower_case, split_words)
        return wordpiece.BertTokenizer.from_file(vocab_file, do_lower_case, rules)
    vocab, merges, is_byte_level, is_roberta, adds = bpe_files.read(vocab_file)
    try:
        if is_roberta:
            adds = _setting(vocab_file, "add_prefix_space", adds)
            return gpt2.RobertaTokenizer(vocab, merges, adds)
        if is_byte_level:
            return gpt2.Gpt2Tokenizer(vocab, merges)
        words = gpt_tokenizer or _setting(vocab_file, gpt.SETTING, gpt.HUGGING_FACE)
        return gpt.GptTokenizer(vocab, merges, words)
    except ValueError as error:
        raise errors.InputError(f"{vocab_file}: {error}") from error


def _setting(file, key, default):
    """A value of tokenizer_config.json beside a file."""
    settings = tokenizer_settings.read(file, file_names.TOKENIZER_CONFIG)
    return settings.get(key, default)


def add_tokens(
    tokenizer: base.Tokenizer, path: str
) -> tuple[wordpiece.BertTokenizer, list[str]]:
    """Appends the tokens of a file, one a line, to a vocabulary; known ids stay.

    Also returns the new tokens that are never made from text, because they are split
    (punctuation) or lower-cased. Their ids can still be used.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read or is empty, or a token
            is empty, holds whitespace or is known already.
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
    longer = wordpiece.BertTokenizer(
        [*tokenizer.vocab, *tokens],
        added_tokens=tokenizer.added_tokens,
        rules=tokenizer.rules,
    )
    # A piece that continues a word is no text by itself.
    words = [token for token in tokens if not wordpiece.is_continuation(token)]
    made = longer.tokenize(words).to_list()
    return longer, [w for w, got in zip(words, made, strict=True) if got != [ids[w]]]
