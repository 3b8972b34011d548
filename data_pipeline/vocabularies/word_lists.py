"""The vocabulary of an ELMo: the most frequent words of a corpus."""

from data_pipeline.text import elmo_tokenizer
from data_pipeline.vocabularies import word_counts

_SPECIAL = (elmo_tokenizer.BEGIN, elmo_tokenizer.END, elmo_tokenizer.UNKNOWN)


def learn(
    counts: word_counts.WordCounts, vocab_size: int, split_words: str
) -> elmo_tokenizer.ElmoTokenizer:
    """The tokenizer of <S>, </S>, <UNK> and words, the most frequent first.

    A sampled softmax draws words by their place in the list, and so wants that order;
    equally frequent words are in that of their characters. `vocab_size` counts all.
    """
    words = sorted(counts.words.keys() - {*_SPECIAL})
    words.sort(key=counts.words.__getitem__, reverse=True)
    vocab = [*_SPECIAL, *words[: vocab_size - len(_SPECIAL)]]
    return elmo_tokenizer.ElmoTokenizer(vocab, split_words, max_characters=None)
