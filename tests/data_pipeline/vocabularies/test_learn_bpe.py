"""Byte pairs from counts; more in tests/test_build_vocab.py."""

import tokenizers

from data_pipeline.vocabularies import learn_bpe, word_counts

WORDS = {" the": 1000, " then": 400, " other": 300, "ab": 7, "é": 5, "x": 9000}


def learn(words, vocab_size=270):
    counts = word_counts.WordCounts(words, {}, sum(words.values()), 0)
    return learn_bpe.learn(counts, vocab_size, lambda line: None)


def test_counts_that_are_many_keep_their_proportions():
    rare = {f"rare{number}": 1 for number in range(1000)}
    words = {"the": 400_000, **rare, "ab": 4000}
    divided = learn_bpe._at_most(words, 20_000)
    assert divided["the"] == 400_000 // 81
    assert divided["ab"] in (49, 50)
    assert sum(divided[word] for word in rare) in (12, 13)  # of 1000 / 81
    assert list(divided) == list(words)


def test_a_large_corpus_is_learned_as_its_share(monkeypatch):
    lengths = []
    train = tokenizers.Tokenizer.train_from_iterator

    def counted(self, texts, trainer):
        texts = list(texts)
        lengths.append(sum(map(len, texts)))
        return train(self, iter(texts), trainer)

    monkeypatch.setattr(tokenizers.Tokenizer, "train_from_iterator", counted)
    monkeypatch.setattr(learn_bpe, "MAX_CHARS", 100_000)
    few = learn(WORDS)
    many = learn({word: count * 10**9 for word, count in WORDS.items()})
    assert few.merges[:4] == [("h", "e"), ("t", "he"), ("Ġ", "the"), ("Ġthe", "n")]
    assert many.merges == few.merges[: len(many.merges)]
    assert len(many.merges) > 5
    assert 1000 < lengths[0] < lengths[1] < 110_000
