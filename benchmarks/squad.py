r"""Times SQuAD fine-tuning and featurising, in turn with a peer's training.

    python benchmarks/squad.py --train_file=sample_data/questions/train.json \
        --pretrained=models/minilm \
        --peer_python=/path/to/python-with-transformers

Both sides train the same weights on windows of the same questions in batches of 16,
ours grouped by length, Hugging Face's padded to the longest of each random batch.
Prints windows a second without start-up and first steps, the ratio of each pair,
`sides.shares_of_peak`, and questions featurised a second; see `turns.compare`.
"""

import json
import pathlib
import sys
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import sides, turns

FLAGS = flags.FLAGS
WARM_UP_STEPS, PEER_WARM_UP_STEPS = 10, 3
MAX_QUERY_LENGTH = 64


def time_ours():
    """Windows a second of this project's loop, and questions made into windows."""
    from data_pipeline.examples import batching
    from data_pipeline.squad import context_windows, question_sets, squad_files
    from modeling import losses

    tokenizer, model = sides.open_pretrained(FLAGS.pretrained, "span")
    questions = squad_files.read_for_training(
        FLAGS.train_file, version_2_with_negative=True, multiple_answers="first"
    )
    limits = {
        "max_seq_length": FLAGS.max_seq_length,
        "doc_stride": FLAGS.doc_stride,
        "max_query_length": MAX_QUERY_LENGTH,
    }
    context_windows.make_windows(questions, tokenizer, **limits)  # first calls are slow
    begin = time.perf_counter()
    windows = context_windows.make_windows(questions, tokenizer, **limits)
    featurised = len(questions) / (time.perf_counter() - begin)
    data = question_sets.QuestionSet(questions, windows)
    order = batching.training_order(
        windows.packed.lengths,
        batch_size=FLAGS.batch_size,
        num_steps=WARM_UP_STEPS + FLAGS.steps,
        seed=1,
    )
    batches = data.examples().batches(order, None)
    seconds, tokens = sides.time_ours(
        model, losses.span(), batches, WARM_UP_STEPS, FLAGS.steps
    )
    return {
        "windows_per_second": FLAGS.steps * FLAGS.batch_size / seconds,
        "tokens_per_second": tokens / seconds,
        **sides.shares_of_peak(model.config, seconds, tokens),
        "questions_featurised_per_second": featurised,
    }


def time_hugging_face():
    """Windows a second of transformers with PyTorch on the same questions."""
    import torch
    import transformers

    tokenizer = transformers.BertTokenizerFast.from_pretrained(FLAGS.pretrained)
    model = transformers.BertForQuestionAnswering.from_pretrained(FLAGS.pretrained)
    starts = torch.zeros(FLAGS.batch_size, dtype=torch.long)
    answers = {"start_positions": starts, "end_positions": starts}
    batches = sides.random_batches(
        tokenizer,
        _windows(tokenizer),
        FLAGS.batch_size,
        PEER_WARM_UP_STEPS + FLAGS.peer_steps,
    )
    seconds, tokens = sides.time_hugging_face(
        model, ({**batch, **answers} for batch in batches), PEER_WARM_UP_STEPS
    )
    return {
        "windows_per_second": FLAGS.peer_steps * FLAGS.batch_size / seconds,
        "tokens_per_second": tokens / seconds,
    }


def _windows(tokenizer):
    """Input ids and segments of all windows, as Hugging Face's example cuts them."""
    entries = json.loads(pathlib.Path(FLAGS.train_file).read_text("utf-8"))["data"]
    pairs = [
        (question["question"], paragraph["context"])
        for entry in entries
        for paragraph in entry["paragraphs"]
        for question in paragraph["qas"]
    ]
    texts, contexts = zip(*pairs, strict=True)
    found = tokenizer(
        list(texts),
        list(contexts),
        truncation="only_second",
        max_length=FLAGS.max_seq_length,
        # The shared part of two windows, where ours is the step between them.
        stride=max(FLAGS.max_seq_length - MAX_QUERY_LENGTH - 3 - FLAGS.doc_stride, 0),
        return_overflowing_tokens=True,
    )
    return [
        {"input_ids": ids, "token_type_ids": kinds}
        for ids, kinds in zip(found["input_ids"], found["token_type_ids"], strict=True)
    ]


def main(_):
    """Times one side, or both in turn."""
    timed = {turns.OURS: time_ours, turns.PEER: time_hugging_face}
    turns.compare(timed, "windows_per_second")


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    flags.DEFINE_string("train_file", None, "SQuAD json.", required=True)
    flags.DEFINE_integer("max_seq_length", 384, "Tokens of a window.")
    flags.DEFINE_integer("doc_stride", 128, "Tokens between two windows.")
    flags.DEFINE_integer("batch_size", 16, "Windows a step.")
    flags.DEFINE_integer("steps", 40, "Steps of ours that are timed.")
    flags.DEFINE_integer("peer_steps", 15, "Steps of the peer that are timed.")
    turns.define_flags()
    app.run(main)
