"""What a pretrained model puts into blanks, as a table that people read."""

import re
from collections.abc import Sequence

import numpy as np

from data_pipeline.text.tokenization import CONTINUATION, MASK

# Shown for the token in question, and for the others that are hidden in its context.
BLANK, HIDDEN = "[____]", MASK
SHOWN = 5  # predictions of each blank
# What Markdown takes for layout.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def choose(features, mask_id, *, limit=8):
    """The middle [MASK] of the first `limit` records with one: (record, prediction)."""
    positions = features["masked_lm_positions"]  # [B, P]
    at_positions = np.take_along_axis(features["input_ids"], positions, axis=1)
    is_hidden = (at_positions == mask_id) & (features["masked_lm_weights"] > 0)
    chosen = []
    for record, hidden in enumerate(is_hidden):
        (places,) = np.nonzero(hidden)
        if len(places):
            chosen.append((record, int(places[len(places) // 2])))
    return chosen[:limit]


def tables(tokenizer, features, predicted):
    """A text of what a model writes into blanks, {name: Markdown}, as `table`."""
    return {"fill_in_the_blank": table(features, predicted, tokenizer.vocab)}


def table(features, predicted, vocab, *, limit=8, num_words=12):
    """A Markdown table of blanks, at most `limit`: context, truth, best predictions.

    Args:
        features: input_ids int [B, S]; masked_lm_positions, masked_lm_ids int and
            masked_lm_weights float [B, P].
        predicted: "ids" int and "probabilities" float [B, P, K], the best first.
    """
    mask_id = vocab.index(HIDDEN) if HIDDEN in vocab else -1
    lines = ["| text | hidden | predicted |", "|---|---|---|"]
    for record, place in choose(features, mask_id, limit=limit):
        position = int(features["masked_lm_positions"][record, place])
        truth = _token(vocab, features["masked_lm_ids"][record, place])
        tokens = [_token(vocab, i) for i in features["input_ids"][record]]
        tokens[position] = truth  # which says whether it continues a word
        text = context(tokens, position, num_words)
        best = zip(
            predicted["ids"][record, place],
            predicted["probabilities"][record, place],
            strict=True,
        )
        answers = [_answer(_token(vocab, i), share, truth) for i, share in best]
        lines.append(f"| {_plain(text)} | {_plain(truth)} | {', '.join(answers)} |")
    return "\n".join(lines) + "\n"


def context(tokens: Sequence[str], position: int, num_words: int) -> str:
    """Joins `num_words` words on each side of a token, with BLANK in its place."""
    words: list[str] = []
    blank = 0
    for i, token in enumerate(tokens):
        if token in ("[CLS]", "[PAD]"):
            continue
        if i == position:
            token = (CONTINUATION if token.startswith(CONTINUATION) else "") + BLANK
        if token.startswith(CONTINUATION) and words:
            words[-1] += token.removeprefix(CONTINUATION)
        else:
            words.append(token)
        if i == position:
            blank = len(words) - 1
    start, end = max(blank - num_words, 0), blank + num_words + 1
    before = ["..."] if start else []
    after = ["..."] if end < len(words) else []
    return " ".join([*before, *words[start:end], *after])


def _token(vocab, token_id):
    """A network's table may have more rows than the vocabulary has entries."""
    return vocab[token_id] if token_id < len(vocab) else f"[{token_id}]"


def _answer(token, probability, truth):
    """`word 43 %`, bold where it is the truth."""
    text = f"{_plain(token)} {100 * probability:.0f} %"
    return f"**{text}**" if token == truth else text


def _plain(text):
    return _MARKUP.sub(r"\\\1", text)
