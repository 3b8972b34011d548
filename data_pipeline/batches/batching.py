"""Which examples make which batch, and the batches as a tf.data pipeline.

The order is a pure function of seed and lengths, so a resumed run goes on with the next
batch by skipping to a row of a table. Batches hold texts of similar length and are
padded to their longest, so little is spent on padding.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from contract import errors, features, outcomes
from contract.tensorflow_later import tf
from data_pipeline import findings
from data_pipeline.batches import packing

# Batches filled from one pool of texts sorted by length. A larger pool pads less and
# mixes less; 64 leaves 2 % padding on one-sentence tasks.
POOL_BATCHES = 64


def training_order(
    lengths: np.ndarray,
    *,
    batch_size: int,
    num_steps: int,
    seed: int | Sequence[int],
    group_by_length: bool = True,
) -> np.ndarray:
    """Orders the examples of all training batches, int32 [num_steps, batch_size].

    `lengths` are int [N], in tokens. Each epoch is a new permutation; rows that fill no
    batch are the first of the next epoch, and no batch has a row twice unless there are
    fewer rows than `batch_size`. With `group_by_length`, pools of consecutive rows are
    sorted by length and cut into batches, which are shuffled. The order of fewer steps
    begins that of more, so a run can be made longer.
    """
    num_epochs = -(-num_steps * batch_size // len(lengths))
    batches = [np.zeros((0, batch_size), np.int32)]
    left: np.ndarray = np.zeros(0, np.int32)
    for epoch in range(num_epochs):
        rng = np.random.default_rng([*np.ravel(seed), epoch])
        rows: np.ndarray = rng.permutation(len(lengths)).astype(np.int32)
        # The first batch has rows of two epochs, and is sorted with no others.
        first = rows[~np.isin(rows, left)][: batch_size - len(left)]
        rows = np.concatenate([left, first, rows[~np.isin(rows, first)]])
        has_two_epochs, count = len(left) > 0, len(rows) // batch_size
        left = rows[count * batch_size :]
        ordered = rows[: count * batch_size].reshape(count, batch_size)
        if group_by_length:
            _group(ordered[has_two_epochs:], lengths, rng)
        batches.append(ordered)
    return np.concatenate(batches)[:num_steps]


def _group(batches, lengths, rng):
    """Sorts pools of batches by length, in place; shuffles the batches of each."""
    for pool in np.array_split(batches, -(-len(batches) // POOL_BATCHES) or 1):
        rows = pool.ravel()
        order = np.argsort(lengths[rows], kind="stable")
        pool[:] = rng.permutation(rows[order].reshape(pool.shape))


def evaluation_order(lengths, batch_size):
    """All examples once, by length: int32 [batches, batch_size], -1 fills the last."""
    order = np.argsort(lengths, kind="stable").astype(np.int32)
    filling = np.full(-len(order) % batch_size, -1, np.int32)
    return np.concatenate([order, filling]).reshape(-1, batch_size)


def batches(packed: packing.Packed, order, *, targets=None, pad_to=None, others=None):
    """Makes a tf.data.Dataset of padded batches in an order, int32 [steps, B].

    The order may be a Dataset of int32 [B], too. An index of -1 stands for any example.
    `targets` are {feature name: array [N, ...]}; or a tf.RaggedTensor [N, (S)] of
    tokens, filled up with IGNORED; or a function from indices [B] to the targets.
    `pad_to` is the length of every batch, None for its longest. `others`: indices [B]
    -> features of another length.

    Returns:
        Dicts: input_ids, input_mask, segment_ids int32 [B, S] ([B, G, S] of G sequences
        an example, as many as the example of the batch that has most), the targets and
        the others.
    """
    tokens = tf.RaggedTensor.from_row_splits(packed.tokens, packed.splits)
    first_lengths = tf.constant(packed.first_lengths)
    num_sequences = packed.num_sequences
    targets = {
        name: values
        if isinstance(values, tf.RaggedTensor) or callable(values)
        else tf.constant(values)
        for name, values in (targets or {}).items()
    }

    def pad(indices):
        rows = indices
        if num_sequences > 1:
            each = tf.range(num_sequences, dtype=indices.dtype)
            rows = tf.reshape(indices[:, None] * num_sequences + each, [-1])
        return packing.pad(
            tf.gather(tokens, rows),
            tf.gather(first_lengths, rows),
            pad_to,
            num_sequences,
        )

    if packed.counts is not None:
        pad = _window_padder(packed, tokens, pad_to)

    def gather(indices):
        indices = tf.maximum(indices, 0)
        batch = pad(indices)
        for name, values in targets.items():
            chosen = values(indices) if callable(values) else tf.gather(values, indices)
            if isinstance(chosen, tf.RaggedTensor):
                chosen = chosen.to_tensor(features.IGNORED, shape=[None, pad_to])
            batch[name] = chosen
        return batch | others(indices) if others else batch

    dataset = order
    if not isinstance(order, tf.data.Dataset):
        dataset = tf.data.Dataset.from_tensor_slices(order)
    # AutoGraph would read it for branches on tensors, which takes 0.3 s and finds none.
    gather = tf.autograph.experimental.do_not_convert(gather)
    # Two batches ahead are enough, and no more threads than the model can spare.
    dataset = dataset.map(gather, num_parallel_calls=1).prefetch(2)
    return without_autotuning(dataset)


def _window_padder(packed, tokens, pad_to):
    """A function of examples [B] to features [B, G, S]; G differs, unless S does not.

    Examples of fewer sequences have empty ones behind theirs.
    """
    counts = tf.constant(packed.counts)
    starts = tf.cumsum(counts, exclusive=True)
    first_lengths = tf.constant(packed.first_lengths)
    most = int(packed.counts.max(initial=1)) if pad_to else None

    def pad_windows(indices):
        first = tf.gather(starts, indices)
        rows = tf.ragged.range(first, first + tf.gather(counts, indices))
        each, lengths = (tf.gather(v, rows.values) for v in (tokens, first_lengths))
        grids = packing.pad(each, lengths, pad_to)
        size = indices.shape[0]
        return {
            name: rows.with_values(grid).to_tensor(
                0, shape=[size, most, *grid.shape[1:]]
            )
            for name, grid in grids.items()
        }

    return pad_windows


def without_autotuning(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """The dataset without the thread that tunes numbers of parallel calls.

    It sleeps up to a minute, and may miss that its iterator has ended, which waits for
    it: runs stood still for 20 or 40 seconds at their end.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@dataclasses.dataclass(frozen=True)
class Examples:
    """N examples of a split, for tasks/fine_tuning.py; targets as in `batches`."""

    packed: packing.Packed
    names: Callable[[np.ndarray], list[str]]  # indices [B] -> their names in messages
    digest: Callable[[], str]  # differs where tokens or targets differ
    targets: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.packed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} examples>"

    @property
    def sequence_lengths(self) -> np.ndarray:
        """int64 [N, G], tokens of each sequence."""
        return self.packed.sequence_lengths.reshape(-1, self.packed.num_sequences)

    def input_digest(self) -> str:
        """Differs where what the network reads does, whatever the targets."""
        return packing.digest(self.packed, self.packed.first_lengths)

    def training_order(self, **settings: Any) -> np.ndarray:
        return training_order(self.packed.lengths, **settings)

    def evaluation_order(self, batch_size: int) -> np.ndarray:
        return evaluation_order(self.packed.lengths, batch_size)

    def batches(self, order: np.ndarray, pad_to: int | None) -> "tf.data.Dataset":
        return batches(self.packed, order, targets=self.targets, pad_to=pad_to)


def keras_training(
    examples: Examples,
    batch_size: int,
    *,
    seed: int = 1,
    group_by_length: bool = True,
    pad_to: int | None = None,
) -> "tf.data.Dataset":
    """Pairs of features and labels; each time through is an epoch in an order anew.

    All batches are full, so an epoch leaves out less than a batch, others each time.
    Pass `shuffle=False` to `fit`, which has no part in the order.
    """
    if len(examples) < batch_size:
        raise errors.InputError(
            f"batch_size={batch_size} exceeds {len(examples)} examples; lower it"
        )
    num_steps = len(examples) // batch_size
    orders = (
        examples.training_order(
            batch_size=batch_size,
            num_steps=num_steps,
            seed=[seed, epoch],
            group_by_length=group_by_length,
        )
        for epoch in itertools.count()
    )
    spec = tf.TensorSpec([batch_size], features.INTEGER)
    rows = tf.data.Dataset.from_generator(lambda: next(orders), output_signature=spec)
    rows = rows.apply(tf.data.experimental.assert_cardinality(num_steps))
    return _pairs(examples.batches(rows, pad_to))


def keras_in_order(
    examples: Examples, batch_size: int, *, pad_to: int | None = None
) -> "tf.data.Dataset":
    """As `keras_training`, in the order of the rows, and without labels if none are."""
    indices = np.arange(len(examples), dtype=features.INTEGER)
    rows = tf.data.Dataset.from_tensor_slices(indices).batch(batch_size)
    return _pairs(examples.batches(rows, pad_to))


def _pairs(dataset):
    def split(batch):
        batch = dict(batch)
        labels = batch.pop(features.LABEL_IDS)
        return batch, labels

    has_labels = features.LABEL_IDS in dataset.element_spec
    return dataset.map(split) if has_labels else dataset


@dataclasses.dataclass(frozen=True)
class Split:
    """The N examples of one file or table, packed for the network."""

    path: str
    packed: packing.Packed
    unit: ClassVar[str] = "examples"  # of `packed`, for messages
    length_unit: ClassVar[str] = "tokens of a row"
    before_lengths: ClassVar[str] = ", "  # in the announcement

    def __len__(self) -> int:
        return len(self.packed)

    def __repr__(self) -> str:  # without texts, since notebooks are passed on
        return f"<{type(self).__name__}: {len(self)} {self.unit} of {self.path}>"

    @property
    def averaged_lengths(self) -> np.ndarray:
        """int64, in tokens, of what the announcement has the average of."""
        return self.packed.lengths

    def contents(self) -> str:
        """What the split has, such as "32 examples from train.csv"."""
        return f"{len(self)} {self.unit} from {self.path}"

    def announcement(
        self, name: str, tokenizer: Any, cut: str, *, texts: str = "", notes: str = ""
    ) -> findings.Finding:
        """What was read as the split `name`: how much, how long, and how much unknown.

        `cut` is what `packed.num_truncated` counts, and `texts` what a warning of
        unknown words calls what is read; see Tokenizer.describe_unknown.
        """
        counts = tokenizer.count_unknown(self.packed.tokens)
        unknown = tokenizer.describe_unknown(texts or self.path, counts)
        lengths = f"{self.averaged_lengths.mean():.1f} tokens on average"
        lengths += f", {self.packed.num_truncated} {cut}{unknown}"
        text = f"{self.contents()}{self.before_lengths}{lengths}{notes}"
        return findings.Finding(name, text)

    def targets(self) -> dict[str, Any]:
        """{feature: values [N, ...]} as batching.batches takes them; {} without."""
        raise NotImplementedError

    def target_arrays(self) -> list[Any]:
        """The arrays that a digest covers besides the tokens."""
        return list(self.targets().values())

    def digest(self) -> str:
        """A short text that differs where tokens or targets differ."""
        digest = packing.digest(self.packed, *self.target_arrays())
        return f"{len(self.packed)} {self.unit}, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] examples by file and line, for messages."""
        raise NotImplementedError

    def summary(self) -> outcomes.Summary:
        """Counts and lengths of the rows, for reports."""
        return outcomes.Summary(
            path=self.path,
            count=len(self),
            unit=self.unit,
            lengths=self.packed.lengths,
            length_unit=self.length_unit,
            cut=self.packed.num_truncated,
        )

    def examples(self) -> Examples:
        """The examples as tasks/fine_tuning.py takes them."""
        return Examples(self.packed, self.names, self.digest, self.targets())


class WindowSplit(Split):
    """A split whose examples are windows of longer texts, one text after another."""

    unit: ClassVar[str] = "windows"

    @property
    def owners(self) -> np.ndarray:
        """The text of each window, int [N], ascending."""
        raise NotImplementedError

    def owner_name(self, owner: int) -> str:
        """The place of a text in the file, after its path: ":17"."""
        raise NotImplementedError

    def names(self, indices: np.ndarray) -> list[str]:
        """Such as "train.conll:17 (window 1 of 2)"."""
        owners = self.owners[indices]
        first = np.searchsorted(self.owners, owners, side="left")
        end = np.searchsorted(self.owners, owners, side="right")
        columns = owners, indices - first + 1, end - first
        return [
            f"{self.path}{self.owner_name(owner)} (window {number} of {count})"
            for owner, number, count in zip(*columns, strict=True)
        ]


def best_windows(scores: Any, items: Any, windows: Any, count: Any) -> "tf.Tensor":
    """The window that decides on each item, int64 [count]: the first of highest score.

    `scores`, `items` and `windows`, [K], are of K pairs of an item and a window that
    shows it; some window shows each item.
    """
    highest = tf.math.unsorted_segment_max(scores, items, count)
    best = tf.where(scores == tf.gather(highest, items))[:, 0]
    return tf.math.unsorted_segment_min(
        tf.gather(windows, best), tf.gather(items, best), count
    )
