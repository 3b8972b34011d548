"""Learns a byte-level vocabulary as GPT-2's from counted pieces of a corpus."""

import collections
import itertools
import json
from collections.abc import Callable, Iterator, Mapping

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from contract import errors
from data_pipeline.text import byte_pairs
from data_pipeline.vocabularies import word_counts

# A pair that occurs once is no pattern.
MIN_FREQUENCY = 2
_BLOCK_WORDS = 1 << 13
# Of running text, which the library counts anew; it takes most of a minute.
MAX_CHARS = 1 << 28


def learn(
    counts: word_counts.WordCounts, vocab_size: int, report: Callable[[str], None]
) -> byte_pairs.Gpt2Tokenizer:
    """The tokenizer of at most `vocab_size` tokens: bytes, merges, <|endoftext|>.

    All 256 bytes are tokens, so any text can be spelled. The counts of words with more
    than MAX_CHARS characters are divided by one number.
    """
    alphabet = byte_pairs.BYTE_CHARS
    least = len(alphabet) + 1
    if vocab_size < least:
        raise errors.InputError(
            f"--vocab_size={vocab_size} has no room for bytes; raise it to {least}"
        )
    learned = tokenizers.Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=list(alphabet),
        special_tokens=[],
        show_progress=False,
    )
    report(f"learning from {len(counts.words)} different words")
    spelled = ((byte_pairs.to_byte_chars(word), n) for word, n in counts.words.items())
    words = {word: n for word, n in spelled if len(word) > 1}  # others have no pair
    learned.train_from_iterator(_running_text(_at_most(words, MAX_CHARS)), trainer)
    model = json.loads(learned.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [(first, second) for first, second in model["merges"]]
    return byte_pairs.Gpt2Tokenizer([*vocab, byte_pairs.END_OF_TEXT], merges)


def _at_most(words: Mapping[str, int], max_chars: int) -> dict[str, int]:
    """Counts, divided so that the running text has about `max_chars` characters.

    The rest of a division goes to the next count: pairs in rare words keep their share.
    """
    divisor = -(-sum((len(word) + 1) * n for word, n in words.items()) // max_chars)
    sums = itertools.accumulate(words.values(), initial=0)
    cuts = [total // max(divisor, 1) for total in sums]
    return dict(zip(words, map(int.__sub__, cuts[1:], cuts), strict=True))


def _running_text(words: Mapping[str, int]) -> Iterator[str]:
    """Blocks in which words, spelled in the alphabet, occur as often as counted.

    The library counts what it learns from by itself, and takes no counts.
    """
    running = collections.Counter(words).elements()
    while block := list(itertools.islice(running, _BLOCK_WORDS)):
        yield " ".join(block)
