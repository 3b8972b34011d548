"""How run_generation.py writes texts: one while it is shown, or many in batches."""

import functools
import sys

from absl import flags

from cli import generation_flags
from data_pipeline.generation import prompts as prompt_files
from modeling.generation import decoding, sampling
from terminal import progress

FLAGS = flags.FLAGS
STOP_TOKENS = 16  # between two looks for a --stop


def prepare(tokenizer, budget):
    """Reads prompts; returns a function of the model to the lines of --output_file."""
    prompts = prompt_files.read(FLAGS.prompt, FLAGS.prompt_file)
    texts = prompt_files.plan(prompts, tokenizer, budget, FLAGS.num_samples)
    detokenizer = prompt_files.Detokenizer(
        tokenizer.decode, _end_ids(tokenizer), FLAGS.stop
    )
    streams = len(texts.rows) == 1 and not FLAGS.output_file
    return functools.partial(
        _stream if streams else _write, tokenizer, texts, detokenizer
    )


def rules(tokenizer, draws=None):
    """How tokens are drawn, by the flags or by other settings of sampling.Sampling."""
    draws = draws or generation_flags.sampling()
    size = tokenizer.vocab_size
    return decoding.GenerationConfig(
        sampling.Sampling(**draws), _end_ids(tokenizer), size
    )


def _end_ids(tokenizer):
    """The tokens that end a text; none where it is to go on."""
    end = tokenizer.document_end_id
    return [end] if FLAGS.stop_at_end and end is not None else []


def _stream(tokenizer, texts, detokenizer, model):
    """Shows one text while it is written."""
    (ids,) = texts.ids
    screen = prompt_files.StreamPrinter(detokenizer, ids, _show)

    def stops(_, written):
        screen.show(written)
        return detokenizer.stops(ids, written)

    _show(texts.prompts[0])
    ((written, _),) = decoding.generate(
        decoding.Decoder(model, rules(tokenizer)),
        [ids],
        [0],
        max_new_tokens=texts.new_tokens,
        seed=FLAGS.seed,
        piece=1,
        stops=stops,
    )
    screen.finish(written)
    return ()


def _show(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def _write(tokenizer, texts, detokenizer, model):
    """The lines of all texts, in the order of the prompts."""
    decoder = decoding.Decoder(model, rules(tokenizer))
    lines = {}
    batches = texts.batches(FLAGS.batch_size)
    for batch in progress.track(batches, len(batches), "writing: batch"):
        for row, *written in _write_batch(texts, detokenizer, decoder, batch):
            lines[row] = prompt_files.Continuation(
                texts.prompts[row[0]], row[1], *written
            )
    as_json = (FLAGS.output_file or "").endswith(".jsonl")
    return prompt_files.lines((lines[row] for row in texts.rows), as_json=as_json)


def _write_batch(texts, detokenizer, decoder, batch):
    """Yields of each row of a batch: the row, its text, tokens, whether it ended."""
    prompts = [texts.ids[i] for i, _ in batch]
    written = decoding.generate(
        decoder,
        prompts,
        [i for i, _ in batch],
        max_new_tokens=texts.new_tokens,
        seed=FLAGS.seed,
        samples=[sample for _, sample in batch],
        piece=STOP_TOKENS if FLAGS.stop else None,
        stops=lambda place, ids: detokenizer.stops(prompts[place], ids),
    )
    for row, prompt, (ids, ended) in zip(batch, prompts, written, strict=True):
        yield row, detokenizer.after(prompt, ids), len(ids), ended
