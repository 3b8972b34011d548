r"""Times classifier fine-tuning on real text, in turn with a peer.

    python benchmarks/classifier.py --pretrained=models/minilm \
        --train_file=sample_data/messages/train.tsv --text_column=0 \
        --peer_python=/path/to/python-with-transformers

Each side trains the same weights on the same rows in batches of 32, ours grouped by
length, Hugging Face's padded to the longest of each random batch; see `turns.compare`.
Prints examples a second without start-up and first steps, the ratio of each pair, and
`sides.shares_of_peak`.
"""

import pathlib
import sys

import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import sides, turns

FLAGS = flags.FLAGS
WARM_UP_STEPS, PEER_WARM_UP_STEPS = 20, 5


def read_texts():
    """The text column of a TSV, without a header line named `text`."""
    lines = pathlib.Path(FLAGS.train_file).read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[FLAGS.text_column] for line in lines]
    return texts[1:] if texts[0] in ("text", "sentence") else texts


def time_ours():
    """Examples and tokens a second of this project's loop, and the peak."""
    from data_pipeline.classification import labelled_texts, tables
    from data_pipeline.examples import batching
    from modeling import losses

    tokenizer, model = sides.open_pretrained(FLAGS.pretrained, "classifier", 2)
    texts = read_texts()
    table = tables.Table(
        path=FLAGS.train_file,
        text_a=texts,
        text_b=None,
        labels=None,
        example_ids=[],
        lines=[],
    )
    encode = labelled_texts.encoder(tokenizer, FLAGS.max_seq_length)
    packed = labelled_texts.featurize(table, encode, FLAGS.max_seq_length)
    order = batching.training_order(
        packed.lengths,
        batch_size=FLAGS.batch_size,
        num_steps=WARM_UP_STEPS + FLAGS.steps,
        seed=1,
    )
    labels = np.zeros(len(texts), np.int32)
    batches = batching.batches(packed, order, targets={"label_ids": labels})
    objective = losses.classifier("classification")
    seconds, tokens = sides.time_ours(
        model, objective, batches, WARM_UP_STEPS, FLAGS.steps
    )
    return {
        "examples_per_second": FLAGS.steps * FLAGS.batch_size / seconds,
        "tokens_per_second": tokens / seconds,
        **sides.shares_of_peak(model.config, seconds, tokens),
    }


def time_hugging_face():
    """Examples a second of transformers with PyTorch on the same rows."""
    import torch
    import transformers

    tokenizer = transformers.BertTokenizerFast.from_pretrained(FLAGS.pretrained)
    model = transformers.BertForSequenceClassification.from_pretrained(FLAGS.pretrained)
    ids = tokenizer(read_texts(), truncation=True, max_length=FLAGS.max_seq_length)
    rows = [{"input_ids": row} for row in ids["input_ids"]]
    labels = torch.zeros(FLAGS.batch_size, dtype=torch.long)
    batches = sides.random_batches(
        tokenizer, rows, FLAGS.batch_size, PEER_WARM_UP_STEPS + FLAGS.peer_steps
    )
    seconds, _ = sides.time_hugging_face(
        model, ({**batch, "labels": labels} for batch in batches), PEER_WARM_UP_STEPS
    )
    return {"examples_per_second": FLAGS.peer_steps * FLAGS.batch_size / seconds}


def main(_):
    """Times one side, or both in turn."""
    timed = {turns.OURS: time_ours, turns.PEER: time_hugging_face}
    turns.compare(timed, "examples_per_second")


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    flags.DEFINE_string("train_file", None, "TSV of texts.", required=True)
    flags.DEFINE_integer("text_column", 0, "Its column with the text.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest sequence, in tokens.")
    flags.DEFINE_integer("batch_size", 32, "Examples a step.")
    flags.DEFINE_integer("steps", 100, "Steps of ours that are timed.")
    flags.DEFINE_integer("peer_steps", 30, "Steps of the peer that are timed.")
    turns.define_flags()
    app.run(main)
