"""Documents to pairs of segments for pretraining (BERT section 3.1, Task #2).

As create_instances_from_document of the original. Pairs are ranges of a flat array of
tokens, gathered when written: some bytes each, whatever their length.
"""

import bisect
import dataclasses
import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import packing, tf_records
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import instances
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.tables import text_rows
from data_pipeline.text import wordpiece

SENTENCE_TASKS = ("next", "order", "none")
_WORD = re.compile("[^ \t\r\n\u3000]+")
_SAMPLE_BYTES = 1 << 16
_LONGEST_WORDS = 5  # tokens of a word, on average; Chinese has 1.6 characters


@dataclasses.dataclass(frozen=True)
class Documents:
    """Tokenized documents, end to end."""

    tokens: np.ndarray  # int32 [T]
    sentence_ends: np.ndarray  # int64 [S + 1], 0 and where each ends in tokens
    document_ends: np.ndarray  # int64 [D + 1], 0 and where each ends in sentences

    def __len__(self):
        return len(self.document_ends) - 1


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Where the two segments of N pairs lie; all arrays are [N]."""

    document: np.ndarray  # int32, that A comes from
    a_start: np.ndarray  # int64, first token of A
    a_end: np.ndarray  # int64, one past its last token
    b_start: np.ndarray  # int64, or -1 where any document may give B
    b_end: np.ndarray  # int64
    target: np.ndarray  # int32, tokens that A and B shall have together
    label: np.ndarray  # int32, next_sentence_labels: 1 for a random or swapped B

    def __len__(self):
        return len(self.document)

    @property
    def num_tokens(self) -> int:
        """Tokens of all segments; none is open."""
        return int((self.a_end - self.a_start + self.b_end - self.b_start).sum())

    def move(self, tokens, documents):
        """The same pairs where so many tokens and documents come before theirs."""
        is_open = self.b_start < 0
        return Pairs(
            self.document + np.int32(documents),
            self.a_start + tokens,
            self.a_end + tokens,
            np.where(is_open, -1, self.b_start + tokens),
            np.where(is_open, -1, self.b_end + tokens),
            self.target,
            self.label,
        )

    def take(self, indices):
        return Pairs(*(values[indices] for values in vars(self).values()))


def read_documents(lines, tokenizer, segmented_words=False):
    """Tokenizes lines of UTF-8 bytes: a sentence each, blank ones between documents.

    Ignores invalid bytes and, as the original, sentences and documents without a token.
    With `segmented_words`, V (the size of the vocabulary) is added to a token that goes
    on with a word, as spaces separate them.
    """
    if segmented_words:
        ids = _mark_words(lines, tokenizer)
    else:
        ids = tokenizer.tokenize(tf.constant(lines, tf.string))  # [L, (S)]
    lengths = ids.row_lengths().numpy()
    is_empty = lengths == 0
    is_blank = np.zeros(len(lines), bool)
    for index in np.flatnonzero(is_empty):
        # A line of nothing but deleted characters is no sentence, but no break either.
        is_blank[index] = not lines[index].decode("utf-8", "ignore").strip()
    document = np.cumsum(is_blank)[~is_empty]  # [S]
    sentence_ends = np.concatenate([[0], np.cumsum(lengths[~is_empty])])
    changes = np.flatnonzero(np.diff(document)) + 1
    ends = np.concatenate([[0], changes, [len(document)]] if len(document) else [[0]])
    return Documents(
        ids.values.numpy().astype(features.INTEGER, copy=False),
        sentence_ends.astype(np.int64),
        ends.astype(np.int64),
    )


def _mark_words(lines, tokenizer):
    """Ids of lines, ragged int32 [L, (S)]; V is added but to the first of each word."""
    rows = [_WORD.findall(line.decode("utf-8", "ignore")) for line in lines]
    words = list(itertools.chain.from_iterable(rows))
    pieces = tokenizer.tokenize_words(tf.constant(words, tf.string))  # [W, (pieces)]
    splits = pieces.row_splits.numpy()
    continues = np.ones(splits[-1] + 1, bool)  # one more, for words of no token
    continues[splits] = False
    ids = pieces.values.numpy() + tokenizer.vocab_size * continues[:-1]
    lines_end = np.cumsum([0, *map(len, rows)])
    return tf.RaggedTensor.from_row_splits(ids, splits[lines_end])


def check_words(path, tokenizer, settings):
    """Refuses or warns of words at the beginning of a file that masking won't find."""
    is_segmented = settings.segmented_words
    if not is_segmented and settings.masking != "whole_word":
        return
    sample = next(text_rows.blocks(path), b"")[:_SAMPLE_BYTES].split(b"\n")
    tokens = read_documents(sample, tokenizer, is_segmented).tokens
    num_words = np.sum(tokens < tokenizer.vocab_size)
    if not is_segmented:
        masking.warn_of_characters(tokens, tokenizer)
    elif not isinstance(tokenizer, wordpiece.BertTokenizer):
        raise errors.InputError("--segmented_words needs word pieces; leave it out")
    elif len(tokens) > _LONGEST_WORDS * num_words:
        raise errors.InputError(
            f"{path}: words have {len(tokens) / num_words:.1f} tokens on average; put "
            "spaces between words, or leave out --segmented_words"
        )


def join_parts(parts):
    """Joins several (Documents, Pairs)."""
    sentences, documents, moved = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    num_tokens = num_sentences = num_documents = 0
    for part, pairs in parts:
        sentences.append(part.sentence_ends[1:] + num_tokens)
        documents.append(part.document_ends[1:] + num_sentences)
        moved.append(pairs.move(num_tokens, num_documents))
        num_tokens += len(part.tokens)
        num_sentences += len(part.sentence_ends) - 1
        num_documents += len(part)
    tokens = np.concatenate([part.tokens for part, _ in parts])
    columns = {
        field.name: np.concatenate([getattr(pairs, field.name) for pairs in moved])
        for field in dataclasses.fields(Pairs)
    }
    return (
        Documents(tokens, np.concatenate(sentences), np.concatenate(documents)),
        Pairs(**columns),
    )


def cut_pairs(documents, *, sentence_task, max_tokens, short_seq_prob, passes, seed):
    """Cuts documents into Pairs, by passes and documents; a random B is left open.

    The task `next` gives half of the pairs a random B, `order` swaps half of them
    (ALBERT section 3.1), and `none` has one segment, as many whole sentences as fit
    (RoBERTa section 4.2). `max_tokens` leaves out special ones. With probability
    `short_seq_prob` a pass over a document has a shorter target.
    """
    rng = random.Random(seed)
    cut_one = {"next": _cut_next, "order": _cut_order, "none": _cut_single}
    ends = documents.sentence_ends.tolist()
    bounds = documents.document_ends.tolist()
    pairs: list[tuple[int, int, int, int, int]] = []
    owners, targets, counts = [], [], []
    for _ in range(passes):
        for document, (first, last) in enumerate(itertools.pairwise(bounds)):
            target = max_tokens
            if rng.random() < short_seq_prob:
                target = rng.randint(min(2, max_tokens), max_tokens)
            before = len(pairs)
            cut_one[sentence_task](ends, first, last, target, rng.random, pairs)
            owners.append(document)
            targets.append(target)
            counts.append(len(pairs) - before)
    a_start, a_end, b_start, b_end, label = np.array(pairs, np.int64).reshape(-1, 5).T
    return Pairs(
        document=np.repeat(np.array(owners, np.int32), counts),
        a_start=a_start,
        a_end=a_end,
        b_start=b_start,
        b_end=b_end,
        target=np.repeat(np.array(targets, np.int32), counts),
        label=label.astype(np.int32),
    )


def _cut_next(ends, first, last, target, uniform, pairs):
    """Splits sentences up to the target; a random B leaves the rest for the next."""
    while first < last:
        end = bisect.bisect_left(ends, ends[first] + target, first + 1, last)
        size = end - first
        split = first + 1 + int(uniform() * (size - 1)) if size > 1 else end
        if size == 1 or uniform() < 0.5:
            pairs.append((ends[first], ends[split], -1, -1, 1))
            first = split
        else:
            pairs.append((ends[first], ends[split], ends[split], ends[end], 0))
            first = end


def _cut_order(ends, first, last, target, uniform, pairs):
    """Swaps half of the pairs; a sentence alone is split between two of its tokens."""
    while first < last:
        end = bisect.bisect_left(ends, ends[first] + target, first + 1, last)
        size, begin, stop = end - first, ends[first], ends[end]
        if size > 1:
            middle = ends[first + 1 + int(uniform() * (size - 1))]
        else:
            middle = begin + 1 + int(uniform() * (stop - begin - 1))
        first = end
        if middle == stop:  # a single token
            continue
        if uniform() < 0.5:
            pairs.append((middle, stop, begin, middle, 1))
        else:
            pairs.append((begin, middle, middle, stop, 0))


def _cut_single(ends, first, last, target, uniform, pairs):
    """Whole sentences up to the target; a longer one is cut into several."""
    begin, stop = ends[first], ends[last]
    while begin < stop:
        sentence = bisect.bisect_right(ends, begin + target, first + 1, last + 1) - 1
        end = ends[sentence]
        if end <= begin:  # within a sentence that does not fit
            end = min(begin + target, stop)
        pairs.append((begin, end, end, end, 0))
        begin = end


def fill(pairs, documents, rng):
    """Gives open pairs a B: sentences of another document, up to the target or its end.

    Document (that of A if there is no other) and first sentence are drawn uniformly.
    """
    is_open = pairs.b_start < 0
    of_a = pairs.document[is_open]
    others = max(len(documents) - 1, 1)
    drawn = rng.integers(others, size=len(of_a))
    if len(documents) > 1:
        drawn += drawn >= of_a
    first, last = documents.document_ends[drawn], documents.document_ends[drawn + 1]
    sentence = rng.integers(first, last) if len(of_a) else first
    start = documents.sentence_ends[sentence]
    wanted = pairs.target[is_open] - (pairs.a_end - pairs.a_start)[is_open]
    reached = np.searchsorted(documents.sentence_ends, start + np.maximum(wanted, 1))
    end = documents.sentence_ends[np.minimum(reached, last)]
    b_start, b_end = pairs.b_start.copy(), pairs.b_end.copy()
    b_start[is_open], b_end[is_open] = start, end
    return dataclasses.replace(pairs, b_start=b_start, b_end=b_end)


def truncate(pairs, max_tokens, sentence_task, rng):
    """Shortens pairs as truncate_seq_pair does, the longer segment at a random end."""
    length_a, length_b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    if sentence_task == "none":  # cut to fit
        return pairs
    keep_a, keep_b = packing.budgets(length_a, length_b, max_tokens)
    over_a, over_b = length_a - keep_a.numpy(), length_b - keep_b.numpy()
    front_a, front_b = rng.binomial(over_a, 0.5), rng.binomial(over_b, 0.5)
    return dataclasses.replace(
        pairs,
        a_start=pairs.a_start + front_a,
        a_end=pairs.a_end - (over_a - front_a),
        b_start=pairs.b_start + front_b,
        b_end=pairs.b_end - (over_b - front_b),
    )


def assemble(pairs, tokens, *, special, sentence_task) -> packing.Packed:
    """[CLS] A [SEP] B [SEP], as `packing.pack` has it; [CLS] A [SEP] without a task."""
    is_pair = sentence_task != "none"
    length_a, length_b = pairs.a_end - pairs.a_start, pairs.b_end - pairs.b_start
    delimiters = special.delimiter_ids if is_pair else (special.end_id,)
    first = length_a + 1 + len(delimiters)
    splits = packing.row_splits(first + (length_b + 1 if is_pair else 0))
    begins, second = splits[:-1], splits[:-1] + first
    packed = np.empty(splits[-1], features.INTEGER)
    packed[begins] = special.start_id
    segments = [(begins + 1, pairs.a_start, length_a)]
    if is_pair:
        segments.append((second, pairs.b_start, length_b))
    for place, start, length in segments:
        packed[packing.ranges(place, length)] = tokens[packing.ranges(start, length)]
    for before, delimiter in enumerate(reversed(delimiters), start=1):
        packed[second - before] = delimiter
    packed[splits[1:] - 1] = special.end_id
    return packing.Packed(packed, splits, first.astype(features.INTEGER))


@dataclasses.dataclass(frozen=True)
class ShuffledPairs(instances.Instances):
    """All documents of a unit, and its pairs in random order."""

    COUNTS = ("documents", "sentences", "tokens", "unknown_tokens", "random_next")
    # Of A and B, and what the length limit leaves of these.
    RECORD_COUNTS = ("segment_tokens", "used_tokens")

    documents: Documents
    pairs: Pairs
    counts: dict[str, int]

    @staticmethod
    def cut(
        job: creation_job.Job, unit: int, chunk: int, texts: Sequence[bytes]
    ) -> dict[str, np.ndarray]:
        settings, lines = job.settings, []
        for text in texts:
            lines += [*text.split(b"\n"), b""]  # a range ends a document
        documents = read_documents(lines, job.tokenizer, settings.segmented_words)
        pairs = cut_pairs(
            documents,
            sentence_task=settings.sentence_task,
            max_tokens=_max_tokens(job),
            short_seq_prob=settings.short_seq_prob,
            passes=settings.dupe_factor,
            seed=f"{settings.random_seed} {unit} {chunk}",
        )
        return {**vars(documents), **vars(pairs)}

    @classmethod
    def join(
        cls, job: creation_job.Job, unit: int, chunks: Sequence[instances.Arrays]
    ) -> "ShuffledPairs":
        text, joined = join_parts(
            [(_from(Documents, c), _from(Pairs, c)) for c in chunks]
        )
        order = np.random.default_rng(job.seed(1, unit)).permutation(len(joined))
        ids = text.tokens % job.tokenizer.vocab_size  # without marks of segmented words
        num_unknown = int(np.sum(ids == job.tokenizer.unk_id))
        num_random = int(joined.label.sum())
        num_sentences = len(text.sentence_ends) - 1
        counts = len(text), num_sentences, len(text.tokens), num_unknown, num_random
        return cls(text, joined.take(order), dict(zip(cls.COUNTS, counts, strict=True)))

    def __len__(self):
        return len(self.pairs)

    def records(
        self, job: creation_job.Job, chosen: np.ndarray, rng: np.random.Generator
    ) -> tuple[Iterator[bytes], tuple[int, ...]]:
        settings, tokenizer, pairs = job.settings, job.tokenizer, self.pairs
        pairs = fill(pairs.take(chosen), self.documents, rng)
        whole = pairs.num_tokens
        pairs = truncate(pairs, _max_tokens(job), settings.sentence_task, rng)
        packed = assemble(
            pairs,
            self.documents.tokens,
            special=tokenizer,
            sentence_task=settings.sentence_task,
        )
        arrays = packing.grids(packed, settings.max_seq_length)
        arrays[features.NEXT_SENTENCE_LABELS] = pairs.label[:, None]
        if settings.masking != metadata.UNMASKED:
            rule = masking.Rule(
                settings.masking,
                settings.masked_lm_prob,
                settings.max_predictions_per_seq,
                settings.mask_proportions,
            )
            vocab = _masking_vocab(job)
            input_ids, lengths = arrays[features.INPUT_IDS], packed.sequence_lengths
            draws = masking.draw(input_ids.shape, rule, vocab, rng)
            continues = None
            if settings.segmented_words:
                continues = input_ids >= vocab.vocab_size
                input_ids %= vocab.vocab_size
            arrays |= masking.mask(input_ids, lengths, rule, vocab, draws, continues)
        return tf_records.records(arrays), (whole, pairs.num_tokens)


def _max_tokens(job):
    """Tokens of a pair that are not special."""
    is_pair = job.settings.sentence_task != "none"
    return job.settings.max_seq_length - packing.num_special(job.tokenizer, is_pair)


@functools.lru_cache(maxsize=2)
def _masking_vocab(job: creation_job.Job) -> masking.MaskingVocab:
    return masking.MaskingVocab.from_tokenizer(job.tokenizer)


def _from(kind, arrays):
    return kind(*(arrays[field.name] for field in dataclasses.fields(kind)))
