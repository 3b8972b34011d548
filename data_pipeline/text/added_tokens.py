"""More tokens at the end of a vocabulary."""

import tensorflow as tf

from contract import errors
from data_pipeline.tables import text_rows
from data_pipeline.text import tokenization


def add(
    tokenizer: tokenization.Tokenizer, path: str
) -> tuple[tokenization.BertTokenizer, list[str]]:
    """Appends the tokens of a file, one a line, to a vocabulary; known ids stay.

    Also returns the new tokens that are never made from text, because they are split
    (punctuation) or lower-cased. Their ids can still be used.

    Raises:
        FileNotFoundError, ValueError: the file cannot be read or is empty, or a token
            is empty, holds whitespace or is known already.
    """
    if not isinstance(tokenizer, tokenization.BertTokenizer):
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
    longer = tokenization.BertTokenizer(
        [*tokenizer.vocab, *tokens], tokenizer.do_lower_case, tokenizer.added_tokens
    )
    # A piece that continues a word is no text by itself.
    words = [token for token in tokens if not tokenization.is_continuation(token)]
    made = longer.tokenize(tf.constant(words, tf.string)).to_list()
    return longer, [w for w, got in zip(words, made, strict=True) if got != [ids[w]]]
