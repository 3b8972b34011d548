"""Records of left-to-right blocks, made by hand, and the vocabulary they are of."""

import numpy as np

from data_pipeline.pretraining import metadata
from data_pipeline.text import wordpiece
from tests.data_pipeline import tiny_records

LENGTH = 20
PAD, CLS, SEP, MASK = 0, 28, 29, 30
FIRST_WORD = 31
VOCAB = [
    "[PAD]",
    *(f"[unused{i}]" for i in range(26)),
    *("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(f"w{i}" for i in range(90)),
]
SENTINELS = range(26, 0, -1)  # [unused25] to [unused0]
TEXT_LENGTHS = (18, 18, 11, 1, 17, 0)  # of records, one after another


def tokenizer_of(vocab=VOCAB):
    return wordpiece.BertTokenizer(vocab)


def words(number):
    """The text of a record, which tells its number by the first word."""
    count = TEXT_LENGTHS[number % len(TEXT_LENGTHS)]
    return [FIRST_WORD + number, *range(100, 99 + count)][:count]


def ids(number):
    """[CLS], the text, [SEP]; every other record has the end of a document inside."""
    text = words(number)
    if number % 2 and len(text) < LENGTH - 2:
        text.insert(len(text) // 2, SEP)
    return [CLS, *text, SEP]


def record(number):
    row = ids(number)
    padding = [0] * (LENGTH - len(row))
    return {
        "input_ids": row + padding,
        "input_mask": [1] * len(row) + padding,
        "segment_ids": [0] * LENGTH,
        "next_sentence_labels": [0],
    }


def write(path, start, stop, **about):
    """Writes these records, and metadata in which `about` differs."""
    known = {
        **{"max_seq_length": LENGTH, "max_predictions_per_seq": 0, "masking": "none"},
        **{"masked_lm_prob": 0.0, "sentence_task": "none", "dupe_factor": 1},
        "vocab_size": len(VOCAB),
        "vocab_digest": metadata.vocab_digest(VOCAB),
        "objective": "left_to_right",
    }
    records = [record(number) for number in range(start, stop)]
    return tiny_records.write(path, records, about=known | about)


def unframed(ids, mask):
    """The rows of [N, S] without [CLS], [SEP] and padding."""
    return [
        [i for i, real in zip(*row, strict=True) if real and i not in (CLS, SEP)]
        for row in zip(np.asarray(ids).tolist(), np.asarray(mask), strict=True)
    ]
