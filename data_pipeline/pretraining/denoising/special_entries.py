"""Which entries of a vocabulary stand for noise, and which around sources.

BERT's vocabularies have no sentinels. Where one has [unused0] and so on, sentinels are
these, which no text has, from the highest id down; else they are the last entries,
from the last one down, as in T5.
"""

import re

import numpy as np

from contract import errors, features
from data_pipeline.pretraining.denoising import corruptions
from data_pipeline.text import tokenization

_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK)\]")


def around_source(tokenizer: tokenization.Tokenizer | None) -> tuple[int, int]:
    """The ids before and after a source: [CLS] and [SEP].

    Raises:
        ValueError: there is no vocabulary, or one of byte pairs or words.
    """
    if not isinstance(tokenizer, tokenization.BertTokenizer):
        raise errors.InputError(
            "--objective=denoising needs the vocabulary of word pieces that the "
            "records were made with; set --vocab_file to a vocab.txt"
        )
    return tokenizer.cls_id, tokenizer.sep_id


def entries_of(
    tokenizer: tokenization.Tokenizer, rule: corruptions.Rule, width: int
) -> corruptions.Entries:
    """What takes the place of noise in texts of at most `width` tokens.

    Raises:
        ValueError: the vocabulary has no [MASK], or too few sentinels.
    """
    known = corruptions.CORRUPTIONS[rule.corruption]
    if known.has_mask and tokenizer.mask_id is None:
        others = [name for name, c in corruptions.CORRUPTIONS.items() if not c.has_mask]
        raise errors.InputError(
            f"the vocabulary of {tokenizer.vocab_size} tokens lacks "
            f"{tokenization.MASK}, which --corruption={rule.corruption} writes; give "
            "the vocab.txt of a pretrained model, make one with build_vocab.py, or set "
            f"--corruption to one of {', '.join(others)}"
        )
    needed = corruptions.sizes(width, rule).sentinels
    ids = _unused(tokenizer) or _ordinary(tokenizer)
    if len(ids) < needed:
        raise errors.InputError(
            f"--corruption={rule.corruption} needs {needed} sentinels for texts of up "
            f"to {width} tokens, but the vocabulary has {len(ids)} [unused] entries; "
            "set --corruption=random_spans with a longer --mean_noise_span_length or a "
            "lower --noise_density, make records of shorter stretches, or make the "
            "vocabulary with build_vocab.py --num_unused_tokens"
        )
    sentinels = np.array(ids[:needed], features.INTEGER)
    return corruptions.Entries(tokenizer.mask_id, sentinels, tokenizer.vocab_size)


def _unused(tokenizer):
    """The ids of [unused...], the highest first."""
    tokens = enumerate(tokenizer.vocab)
    return [i for i, token in tokens if _UNUSED.fullmatch(token)][::-1]


def _ordinary(tokenizer):
    """All ids but those of special tokens, the highest first."""
    tokens = enumerate(tokenizer.vocab)
    return [i for i, token in tokens if not _SPECIAL.fullmatch(token)][::-1]
