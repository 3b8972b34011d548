r"""Writes texts with a left-to-right network, scores texts with it, and exports it.

    python run_generation.py --pretrained=DIR --prompt="The river" --temperature=0.7
    python run_generation.py --pretrained=DIR --score_file=texts.txt

See docs/left_to_right.md.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import flags

from cli import command_line, device_flags, generation_flags, model_flags

FLAGS = flags.FLAGS


def define_flags():
    model_flags.define(max_seq_length=None)
    generation_flags.define()
    device_flags.define_one()


if __name__ == "__main__":  # before the imports that take seconds
    # Weights do not change once they are there.
    command_line.parse(define_flags, generation_flags.check, serves=True)

import keras
import tensorflow as tf

from cli import device_setup
from contract import atomic_files, errors
from data_pipeline.classification import tables
from data_pipeline.generation import continuations, kinds, prompts, windows
from data_pipeline.generation import graph as generation_graph
from data_pipeline.text import opening
from modeling import pretrainers
from modeling.checkpoints import checkpoint, pretrained
from modeling.generation import decoding, sampling, scoring
from serving import export, generation
from terminal import progress
from training.results import metrics

STOP_TOKENS = 16  # between two looks for a --stop


class GenerationInput(NamedTuple):
    """Everything that is read and checked before the work starts.

    `work` takes the model, and gives the lines of --output_file.
    """

    files: model_flags.ModelFiles
    config: Any
    tokenizer: Any
    work: Callable


def prepare():
    generation_flags.check()
    device_setup.check_gpu()
    files = model_flags.files(pretrained.locate, needs_weights=True)
    tokenizer = opening.open_tokenizer(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, 0)
    if not config.is_left_to_right:
        raise errors.InputError(
            f"{files.config_file}: the network reads in both directions, so it cannot "
            "write; give a GPT, a GPT-2, or a BERT with attention=causal"
        )
    context = config.max_position_embeddings
    budget = prompts.ContextBudget(context, FLAGS.max_new_tokens, FLAGS.keep_end)
    if FLAGS.score_file:
        work = functools.partial(score, prepare_scores(tokenizer, context))
    elif FLAGS.do_export:
        budget.max_prompt_tokens(is_prompted=True)
        work = functools.partial(export_model, tokenizer, budget)
    else:
        work = prepare_texts(tokenizer, budget)
    if FLAGS.output_file:
        atomic_files.check_writable(FLAGS.output_file)
    return GenerationInput(files, config, tokenizer, work)


def build_model(parts):
    """The network with its weights, all of which must be there."""
    keras.config.set_dtype_policy(device_flags.dtype_policy())
    model = pretrainers.LanguageModel(parts.config)
    model.build()
    told = checkpoint.load_trained(model, parts.files.init_checkpoint)
    progress.say(f"weights: {told}")
    return model


def prepare_texts(tokenizer, budget):
    given = prompts.read(FLAGS.prompt, FLAGS.prompt_file)
    texts = prompts.plan(given, tokenizer, budget, FLAGS.num_samples)
    detokenizer = continuations.Detokenizer(
        tokenizer.decode, end_ids(tokenizer), FLAGS.stop
    )
    streams = len(texts.rows) == 1 and not FLAGS.output_file
    return functools.partial(
        stream if streams else write, tokenizer, texts, detokenizer
    )


def end_ids(tokenizer):
    """The tokens that end a text; none where it is to go on."""
    end = tokenizer.document_end_id
    return [end] if FLAGS.stop_at_end and end is not None else []


def rules_of(tokenizer, draws=None):
    draws = draws or generation_flags.sampling()
    size = tokenizer.vocab_size
    return decoding.GenerationConfig(
        sampling.Sampling(**draws), end_ids(tokenizer), size
    )


def stream(tokenizer, texts, detokenizer, model):
    """Shows one text while it is written."""
    (ids,) = texts.ids
    screen = continuations.StreamPrinter(detokenizer, ids, show)

    def stops(_, written):
        screen.show(written)
        return detokenizer.stops(ids, written)

    show(texts.prompts[0])
    ((written, _),) = decoding.generate(
        *(decoding.Decoder(model, rules_of(tokenizer)), [ids], [0]),
        max_new_tokens=texts.new_tokens,
        seed=FLAGS.seed,
        piece=1,
        stops=stops,
    )
    screen.finish(written)
    return ()


def show(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def write(tokenizer, texts, detokenizer, model):
    """The lines of all texts, in the order of the prompts."""
    decoder = decoding.Decoder(model, rules_of(tokenizer))
    found = {}
    batches = texts.batches(FLAGS.batch_size)
    for batch in progress.track(batches, len(batches), "writing: batch"):
        for row, *written in write_batch(texts, detokenizer, decoder, batch):
            found[row] = continuations.Text(texts.prompts[row[0]], row[1], *written)
    as_json = (FLAGS.output_file or "").endswith(".jsonl")
    return continuations.lines((found[row] for row in texts.rows), as_json=as_json)


def write_batch(texts, detokenizer, decoder, batch):
    """Yields of each row of a batch: the row, its text, tokens, whether it ended."""
    prompts = [texts.ids[i] for i, _ in batch]
    written = decoding.generate(
        *(decoder, prompts, [i for i, _ in batch]),
        max_new_tokens=texts.new_tokens,
        seed=FLAGS.seed,
        samples=[sample for _, sample in batch],
        piece=STOP_TOKENS if FLAGS.stop else None,
        stops=lambda place, ids: detokenizer.stops(prompts[place], ids),
    )
    for row, prompt, (ids, ended) in zip(batch, prompts, written, strict=True):
        yield row, detokenizer.after(prompt, ids), len(ids), ended


def prepare_scores(tokenizer, context):
    """Reads --score_file; returns a function: `run` -> results, lines."""
    settings = kinds.Settings(
        tokenizer,
        context,
        tables.Layout(**generation_flags.layout()),
        functools.partial(metrics.compute, metrics.DEFAULTS["classification"]),
        truncate_left=FLAGS.keep_end,
        **generation_flags.scores(),
    )
    return kinds.KINDS[FLAGS.score_as](FLAGS.score_file, settings)


def score(finish, model):
    """Prints the results; returns a line for each row."""
    run = functools.partial(
        windows.run, score=scoring.make_scorer(model), batch_size=FLAGS.batch_size
    )
    results, lines = finish(run)
    for name, value in results.items():
        print(f"{name} = {value}")
    return lines


def export_model(tokenizer, budget, model):
    """Writes output_dir/export/<n>; see serving/generation.py."""
    new_tokens, most = (
        f(is_prompted=True) for f in (budget.new_tokens, budget.max_prompt_tokens)
    )
    spelling, graph = None, generation_graph
    if tokenizer.in_graph:
        spelling = generation.Spelling(
            functools.partial(graph.encode, tokenizer, most=most),
            functools.partial(graph.encode_scored, tokenizer, most=budget.context),
            functools.partial(graph.decode, tokenizer),
            tokenizer.vocab,
        )

    def write_rows(ids, lengths, seeds=None, draws=None):
        if seeds is None:
            seeds = tf.fill(tf.shape(lengths), tf.constant(FLAGS.seed, tf.int64))
        rules = rules_of(tokenizer, draws)
        return decoding.write(model, rules, ids, lengths, seeds, new_tokens)

    module = generation.TextGenerator(
        write_rows,
        lambda ids, mask: scoring.score_tokens(model, ids, mask),
        [variable.value for variable in model.variables],
        spelling,
    )
    target = os.path.join(FLAGS.output_dir, "export")
    path = export.save(module, target, {}, FLAGS.export_server_config)
    print(f"exported: {path}")
    return ()


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        parts = prepare()
        model = build_model(parts)
        lines = parts.work(model)
        if FLAGS.output_file:
            atomic_files.write({FLAGS.output_file: lines})
            print(f"written: {FLAGS.output_file}")
        elif not FLAGS.score_file:
            sys.stdout.writelines(lines)
        sys.stdout.flush()  # while a reader that left can be told from an error


if __name__ == "__main__":
    command_line.run(main)
