"""What a pretrained model puts into blanks, as a table that people read.

Loss and accuracy say how often it is right; this shows what it has learned.
"""

import re
from collections.abc import Sequence

import numpy as np

from data_pipeline.text.tokenization import CONTINUATION

# Shown for the token in question, and for the others that are hidden in its context.
BLANK, HIDDEN = "[____]", "[MASK]"
# What Markdown takes for layout.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def choose(input_ids, masked_lm_weights, masked_lm_positions, mask_id, *, limit=8):
    """One hidden token of each of the first records.

    Of those that the record really hides behind [MASK] it is the middle one, so that
    an evaluation shows the same blanks as the one before.

    Args:
        input_ids: int [B, S].
        masked_lm_weights: float [B, P], 0 beyond the predictions.
        masked_lm_positions: int [B, P].
        mask_id: id of [MASK].
        limit: most tokens.

    Returns:
        List of (record, index of the prediction).
    """
    at_positions = np.take_along_axis(input_ids, masked_lm_positions, axis=1)  # [B, P]
    is_hidden = (at_positions == mask_id) & (masked_lm_weights > 0)
    chosen = []
    for record, hidden in enumerate(is_hidden):
        (places,) = np.nonzero(hidden)
        if len(places):
            chosen.append((record, int(places[len(places) // 2])))
    return chosen[:limit]


def table(features, predicted, vocab, *, limit=8, num_words=12):
    """A Markdown table of blanks: context, truth, and the best predictions.

    Args:
        features: input_ids int [B, S]; masked_lm_positions, masked_lm_ids int and
            masked_lm_weights float [B, P].
        predicted: "ids" int and "probabilities" float [B, P, K], the best first.
        vocab: all tokens, in the order of their ids.
        limit: most rows.
        num_words: words shown on each side of a blank.

    Returns:
        Text; without a row where no record hides a token behind [MASK].
    """
    mask_id = vocab.index(HIDDEN) if HIDDEN in vocab else -1
    chosen = choose(
        features["input_ids"],
        features["masked_lm_weights"],
        features["masked_lm_positions"],
        mask_id,
        limit=limit,
    )
    lines = ["| text | hidden | predicted |", "|---|---|---|"]
    for record, place in chosen:
        ids = features["input_ids"][record]
        position = int(features["masked_lm_positions"][record, place])
        truth = _token(vocab, features["masked_lm_ids"][record, place])
        tokens = [_token(vocab, i) for i in ids]
        tokens[position] = truth  # which says whether it goes on a word
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
    """The words around a token, pieces joined, with BLANK in its place.

    Args:
        tokens: of one record, with [CLS] and padding, which are left out.
        position: of the token, which is not hidden in `tokens`.
        num_words: on each side; of a longer text an ellipsis stands for the rest.
    """
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
    """A table may have more rows than the vocabulary has entries."""
    return vocab[token_id] if token_id < len(vocab) else f"[{token_id}]"


def _answer(token, probability, truth):
    """`word 43 %`, bold where it is the truth."""
    text = f"{_plain(token)} {100 * probability:.0f} %"
    return f"**{text}**" if token == truth else text


def _plain(text):
    return _MARKUP.sub(r"\\\1", text)
