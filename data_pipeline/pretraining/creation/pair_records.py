"""What a unit gives for masked words and the second sentence: pairs of segments."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from contract import features
from data_pipeline.batches import tf_records
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import creation_job, pairing

COUNTS = ("documents", "sentences", "tokens", "instances")
IN_METADATA = ()


def cut(
    job: creation_job.Job, unit: int, chunk: int, texts: Sequence[bytes]
) -> dict[str, np.ndarray]:
    """Tokenizes the ranges of a chunk and cuts them into pairs."""
    settings, lines = job.settings, []
    for text in texts:
        lines += [*text.split(b"\n"), b""]  # a range ends a document
    documents = pairing.read_documents(lines, job.tokenizer)
    pairs = pairing.cut(
        documents,
        sentence_task=settings.sentence_task,
        max_seq_length=settings.max_seq_length,
        short_seq_prob=settings.short_seq_prob,
        passes=settings.dupe_factor,
        seed=f"{settings.random_seed} {unit} {chunk}",
    )
    return {**vars(documents), **vars(pairs)}


@dataclasses.dataclass(frozen=True)
class Unit:
    """All documents of a unit, and its pairs in random order."""

    documents: pairing.Documents
    pairs: pairing.Pairs

    def __len__(self):
        return len(self.pairs)

    def counts(self) -> dict[str, int]:
        """What the text holds."""
        return {
            "documents": len(self.documents),
            "sentences": len(self.documents.sentence_ends) - 1,
            "tokens": len(self.documents.tokens),
        }

    def in_metadata(self, chosen: np.ndarray, first: int) -> tuple[int, ...]:
        """The values of IN_METADATA: none."""
        return ()

    def records(
        self, job: creation_job.Job, chosen: np.ndarray, rng: np.random.Generator
    ) -> Iterator[bytes]:
        """Serialized tf.train.Examples of some pairs, in order."""
        settings, tokenizer, pairs = job.settings, job.tokenizer, self.pairs
        pairs = pairing.fill(pairs.take(chosen), self.documents, rng)
        pairs = pairing.truncate(
            pairs, settings.max_seq_length, settings.sentence_task, rng
        )
        input_ids, lengths, first_lengths = pairing.assemble(
            pairs,
            self.documents.tokens,
            cls_id=tokenizer.start_id,
            sep_id=tokenizer.end_id,
            max_seq_length=settings.max_seq_length,
            sentence_task=settings.sentence_task,
        )
        column = np.arange(settings.max_seq_length)
        is_real = column < lengths[:, None]
        is_second = is_real & (column >= first_lengths[:, None])
        arrays = {
            features.INPUT_IDS: input_ids,
            features.INPUT_MASK: is_real.view(np.uint8),
            features.SEGMENT_IDS: is_second.view(np.uint8),
            features.NEXT_SENTENCE_LABELS: pairs.label[:, None],
        }
        if settings.masking != metadata.UNMASKED:
            rule = masking.Rule(
                *(settings.masking, settings.masked_lm_prob),
                *(settings.max_predictions_per_seq, settings.mask_proportions),
            )
            draws = masking.draw(input_ids.shape, rule, _pieces(job), rng)
            arrays |= masking.mask(input_ids, lengths, rule, _pieces(job), draws)
        return tf_records.records(arrays)


@functools.lru_cache(maxsize=2)
def _pieces(job: creation_job.Job) -> masking.Pieces:
    return masking.pieces_of(job.tokenizer)


def join(
    job: creation_job.Job, unit: int, chunks: Sequence[Mapping[str, np.ndarray]]
) -> Unit:
    """The unit whose chunks `cut` has made."""
    documents, pairs = [], []
    num_tokens = num_documents = 0
    for arrays in chunks:
        documents.append(_from(pairing.Documents, arrays))
        pairs.append(_from(pairing.Pairs, arrays).moved(num_tokens, num_documents))
        num_tokens += len(documents[-1].tokens)
        num_documents += len(documents[-1])
    joined = pairing.join_pairs(pairs)
    order = np.random.default_rng(job.seed(1, unit)).permutation(len(joined))
    return Unit(pairing.join_documents(documents), joined.take(order))


def _from(kind, arrays):
    return kind(*(arrays[field.name] for field in dataclasses.fields(kind)))
