"""What reading pretraining records costs one of 1, 8 or 64 hosts.

    python -m benchmarks.hosts --vocab_file=models/minilm/vocab.txt

Simulates the first host of each number by its tf.distribute.InputContext, with nothing
but reading, on records that are masked and on records that are masked while training.
`share` cuts the serialized records to the host's rows before they are parsed, as
run_pretraining.py does; `whole` parses and masks whole batches and then cuts them. They
take turns. Prints a Markdown table: records parsed a batch, batches a second, records
of the host's share a second, and milliseconds of CPU time a batch, from the fastest of
some rounds.
"""

import tempfile
import time

from cli import environment

environment.prepare()  # before TensorFlow is imported

import numpy as np
import tensorflow as tf
from absl import app, flags

from data_pipeline.batches import tf_records
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import masking, shuffling
from data_pipeline.text import wordpiece

FLAGS = flags.FLAGS
LENGTH, PREDICTIONS = 128, 20
FILES, RECORDS_A_FILE = 8, 4096
WINDOWS = 4  # of records that are timed, after one that is not


def define_flags():
    """What is read, and by how many hosts."""
    flags.DEFINE_string("vocab_file", None, "The vocabulary.", required=True)
    flags.DEFINE_list("hosts", ["1", "8", "64"], "Numbers of hosts.")
    flags.DEFINE_integer("host_batch_size", 32, "Records of a batch on each host.")
    flags.DEFINE_enum("masking", "word_piece", list(masking.GROUP_LENGTHS), "Tokens.")
    flags.DEFINE_integer("rounds", 3, "Turns of each way.")


def write_records(directory, vocab_size, is_masked):
    """Full sequences of random tokens; returns a glob of the files."""
    rng = np.random.default_rng(1)
    rows = (RECORDS_A_FILE, LENGTH)
    predictions = (RECORDS_A_FILE, PREDICTIONS)
    segments = (np.arange(LENGTH) >= LENGTH // 2).astype(int)
    for number in range(FILES):
        arrays = {
            "input_ids": rng.integers(999, vocab_size, rows),
            "input_mask": np.ones(rows, np.int32),
            "segment_ids": np.tile(segments, (rows[0], 1)),
            "next_sentence_labels": rng.integers(0, 2, (RECORDS_A_FILE, 1)),
        }
        if is_masked:
            places = rng.permuted(
                np.tile(np.arange(1, LENGTH - 1), (rows[0], 1)), axis=1
            )
            arrays |= {
                "masked_lm_positions": np.sort(places[:, :PREDICTIONS], axis=1),
                "masked_lm_ids": rng.integers(999, vocab_size, predictions),
                "masked_lm_weights": np.ones(predictions, np.float32),
            }
        with tf.io.TFRecordWriter(f"{directory}/part-{number}") as writer:
            for record in tf_records.records(arrays):
                writer.write(record)
    return f"{directory}/part-*"


def first_share(data, hosts, cuts_first):
    """A dataset of what the first of `hosts` hosts gets of each batch."""
    size = hosts * FLAGS.host_batch_size
    order = (size, 1, 0, 1 << 30)
    if cuts_first:
        return data.training_batches(*order, tf.distribute.InputContext(hosts, 0))

    def cut(batch):
        return {name: value[: FLAGS.host_batch_size] for name, value in batch.items()}

    return data.training_batches(*order).map(cut)


def count_parsed(make):
    """What `make` returns, and how many records its batches parse."""
    parse, found = tf.io.parse_example, []

    def counted(serialized, *others):
        found.append(serialized.shape[0])
        return parse(serialized, *others)

    tf.io.parse_example = counted
    try:
        return make(), found[0]
    finally:
        tf.io.parse_example = parse


def measure(data, hosts, cuts_first):
    """Figures of one turn."""
    dataset, parsed = count_parsed(lambda: first_share(data, hosts, cuts_first))
    batches = shuffling.WINDOW_RECORDS // (hosts * FLAGS.host_batch_size)
    iterator = iter(dataset)
    for _ in range(batches):
        next(iterator)
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(WINDOWS * batches):
        next(iterator)
    rate = WINDOWS * batches / (time.perf_counter() - begin)
    cpu = (time.process_time() - cpu) / (WINDOWS * batches)
    return {
        "parsed": parsed,
        "batches": rate,
        "records": rate * FLAGS.host_batch_size,
        "cpu": 1000 * cpu,
    }


def lines_of(kind, data):
    """The table of one kind of records."""
    for hosts in map(int, FLAGS.hosts):
        turns = {cuts_first: [] for cuts_first in (False, True)}
        for _ in range(FLAGS.rounds):
            for cuts_first, found in turns.items():
                found.append(measure(data, hosts, cuts_first))
        for cuts_first, found in turns.items():
            one = max(found, key=lambda turn: turn["batches"])
            yield (
                f"| {kind} | {hosts} | {'share' if cuts_first else 'whole'} "
                f"| {one['parsed']:,} | {one['batches']:,.1f} | {one['records']:,.0f} "
                f"| {one['cpu']:.1f} |"
            )


def main(_):
    """Prints the table."""
    tokenizer = wordpiece.BertTokenizer.from_file(FLAGS.vocab_file, True)
    rule = masking.Rule(FLAGS.masking, 0.15, PREDICTIONS)
    print("| records | hosts | cut | parsed | batches/s | records/s | CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for is_masked in (True, False):
        with tempfile.TemporaryDirectory() as directory:
            data = record_batches.load(
                {
                    "input_file": write_records(
                        directory, tokenizer.vocab_size, is_masked
                    )
                },
                tokenizer,
                rule,
                max_seq_length=LENGTH,
                vocab_size=tokenizer.vocab_size,
                spare_rows=0,
                has_mask_flags=False,
            )
            kind = "masked" if is_masked else "masked while training"
            for line in lines_of(kind, data):
                print(line, flush=True)


if __name__ == "__main__":
    define_flags()
    app.run(main)
