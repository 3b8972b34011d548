"""How run_generation.py writes texts: one while it is shown, or many in batches."""

import functools

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
    num_shown = 0

    def show(text):
        nonlocal num_shown
        print(text[num_shown:], end="", flush=True)
        num_shown = max(num_shown, len(text))

    def stops(_, written):
        show(detokenizer.stable_prefix(ids, written))
        return detokenizer.stops(ids, written)

    print(texts.prompts[0], end="", flush=True)
    ((written, _),) = decoding.generate(
        decoding.Decoder(model, rules(tokenizer)),
        [ids],
        [0],
        max_new_tokens=texts.new_tokens,
        seed=FLAGS.seed,
        piece=1,
        stops=stops,
    )
    show(detokenizer.after(ids, written))
    print()
    return ()


def _write(tokenizer, texts, detokenizer, model):
    """The lines of all texts, in the order of the prompts."""
    decoder = decoding.Decoder(model, rules(tokenizer))
    continuations = {}
    batches = texts.batches(FLAGS.batch_size)
    for batch in progress.track(batches, len(batches), "writing: batch"):
        prompts = [texts.ids[i] for i, _ in batch]

        def stops(place, ids, prompts=prompts):
            return detokenizer.stops(prompts[place], ids)

        written = decoding.generate(
            decoder,
            prompts,
            [i for i, _ in batch],
            max_new_tokens=texts.new_tokens,
            seed=FLAGS.seed,
            samples=[sample for _, sample in batch],
            piece=STOP_TOKENS if FLAGS.stop else None,
            stops=stops,
        )
        for row, prompt, (ids, ended) in zip(batch, prompts, written, strict=True):
            continuations[row] = prompt_files.Continuation(
                texts.prompts[row[0]],
                row[1],
                detokenizer.after(prompt, ids),
                len(ids),
                ended,
            )
    as_json = (FLAGS.output_file or "").endswith(".jsonl")
    return prompt_files.lines(
        (continuations[row] for row in texts.rows), as_json=as_json
    )
