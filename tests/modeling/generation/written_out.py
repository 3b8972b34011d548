"""Beam search in a few lines of Python."""


def search(follow, rules, length):
    """The search in a few lines, which goes on to the last token.

    `follow` gives log probabilities after the tokens of a text so far.
    """
    beams, alpha = rules.num_beams, rules.length_penalty
    open_texts, ended = [(0.0, ())], []
    for n in range(1, length + 1):
        grown = sorted(
            (
                (total + more, (*text, token))
                for total, text in open_texts
                for token, more in enumerate(follow(text))
            ),
            reverse=True,
        )
        ended += [(s / n**alpha, t) for s, t in grown[:beams] if t[-1] in rules.end_ids]
        open_texts = [(s, t) for s, t in grown if t[-1] not in rules.end_ids][:beams]
        if beams == 1 and ended:
            return ended
    ended += [(s / length**alpha, text) for s, text in open_texts]
    return sorted(ended, reverse=True)[: rules.num_results]
