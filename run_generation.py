r"""Writes texts with a left-to-right network, scores texts with it, and exports it.

    python run_generation.py --pretrained=DIR --prompt="The river" --temperature=0.7
    python run_generation.py --pretrained=DIR --score_file=texts.txt

See docs/generation.md.
"""

import functools
import os
import sys

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

from cli import device_setup, networks
from contract import atomic_files, errors
from data_pipeline.generation import graph as generation_graph
from data_pipeline.generation import perplexity, prompts
from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.generation import decoding, sampling, scoring
from serving import export, generation
from terminal import progress

STOP_TOKENS = 16  # between two looks for a --stop


def prepare():
    """The network, and a function of the model to the lines of --output_file."""
    generation_flags.check()
    device_setup.check_gpu()
    opened = networks.open_for_task(needs_weights=True, for_tasks=False)
    tokenizer, config = opened.tokenizer, opened.config
    if not config.is_left_to_right:
        raise errors.InputError(
            f"{opened.files.config_file}: a network of both directions cannot write; "
            "give a GPT, a GPT-2, or a BERT with attention=causal"
        )
    context = config.max_position_embeddings
    budget = prompts.ContextBudget(context, FLAGS.max_new_tokens, FLAGS.keep_end)
    if FLAGS.score_file:
        work = functools.partial(score, prepare_scores(tokenizer, context))
    elif FLAGS.do_export:
        budget.max_prompt_tokens(is_prompted=True)
        work = functools.partial(export_model, tokenizer, budget)
    else:
        work = Writer(tokenizer, budget)
    if FLAGS.output_file:
        atomic_files.check_writable(FLAGS.output_file)
    return opened, work


class Writer:
    """Writes the texts of the flags: one while it is shown, or many in batches."""

    def __init__(self, tokenizer, budget):
        read = prompts.read(FLAGS.prompt, FLAGS.prompt_file)
        self._texts = prompts.plan(read, tokenizer, budget, FLAGS.num_samples)
        self._tokenizer = tokenizer
        ends = end_ids(tokenizer)
        self._detokenizer = prompts.Detokenizer(tokenizer.decode, ends, FLAGS.stop)

    def __call__(self, model):
        """The lines of --output_file; () where the text is shown."""
        decoder = decoding.Decoder(model, rules(self._tokenizer))
        if len(self._texts.rows) == 1 and not FLAGS.output_file:
            return self._show(decoder)
        texts, lines = self._texts, {}
        batches = texts.batches(FLAGS.batch_size)
        for batch in progress.track(batches, len(batches), "writing: batch"):
            for row, *written in self._write(decoder, batch):
                prompt = texts.prompts[row[0]]
                lines[row] = prompts.Continuation(prompt, row[1], *written)
        as_json = (FLAGS.output_file or "").endswith(".jsonl")
        return prompts.lines((lines[row] for row in texts.rows), as_json=as_json)

    def _show(self, decoder):
        (ids,) = self._texts.ids
        num_shown = 0

        def show(text):
            nonlocal num_shown
            print(text[num_shown:], end="", flush=True)
            num_shown = max(num_shown, len(text))

        def stops(_, written):
            show(self._detokenizer.stable_prefix(ids, written))
            return self._detokenizer.stops(ids, written)

        print(self._texts.prompts[0], end="", flush=True)
        ((written, _),) = decoding.generate(
            decoder,
            [ids],
            [0],
            max_new_tokens=self._texts.new_tokens,
            seed=FLAGS.seed,
            piece=1,
            stops=stops,
        )
        show(self._detokenizer.after(ids, written))
        print()
        return ()

    def _write(self, decoder, batch):
        """Yields each row of a batch, its text, its tokens, and whether it ended."""
        detokenizer, ids = self._detokenizer, [self._texts.ids[i] for i, _ in batch]
        written = decoding.generate(
            decoder,
            ids,
            [i for i, _ in batch],
            max_new_tokens=self._texts.new_tokens,
            seed=FLAGS.seed,
            samples=[sample for _, sample in batch],
            piece=STOP_TOKENS if FLAGS.stop else None,
            stops=lambda place, written: detokenizer.stops(ids[place], written),
        )
        for row, prompt, (text_ids, ended) in zip(batch, ids, written, strict=True):
            yield row, detokenizer.after(prompt, text_ids), len(text_ids), ended


def rules(tokenizer, draws=None):
    """How tokens are drawn, by the flags or by other settings of sampling.Sampling."""
    how = sampling.Sampling(**(draws or generation_flags.sampling()))
    return decoding.GenerationConfig(how, end_ids(tokenizer), tokenizer.vocab_size)


def end_ids(tokenizer):
    """The tokens that end a text; none where it is to go on."""
    end = tokenizer.document_end_id
    return [end] if FLAGS.stop_at_end and end is not None else []


def build_model(opened):
    """The network with its weights, all of which must be there."""
    keras.config.set_dtype_policy(device_flags.dtype_policy())
    model = pretrainers.LanguageModel(opened.config)
    model.build()
    source = checkpoint.load_trained(model, opened.files.init_checkpoint)
    progress.print_line(f"weights: {source}")
    return model


def prepare_scores(tokenizer, context):
    """The texts of --score_file, read and checked before there is a model."""
    return perplexity.ScoredTexts(
        FLAGS.score_file,
        tokenizer,
        context,
        as_one=FLAGS.score_as == "document",
        stride=FLAGS.stride,
    )


def score(texts, model):
    """Prints the results; returns a line for each text."""
    run = functools.partial(
        perplexity.run, score=scoring.make_scorer(model), batch_size=FLAGS.batch_size
    )
    results, lines = texts.results(run)
    for name, value in results.items():
        print(f"{name} = {value}")
    return lines


def export_model(tokenizer, budget, model):
    """Writes output_dir/export/<n>; see serving/generation.py."""
    new_tokens = budget.new_tokens(is_prompted=True)
    most = budget.max_prompt_tokens(is_prompted=True)
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
        how = rules(tokenizer, draws)
        return decoding.write(model, how, ids, lengths, seeds, new_tokens)

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
        opened, work = prepare()
        lines = work(build_model(opened))
        if FLAGS.output_file:
            atomic_files.write({FLAGS.output_file: lines})
            print(f"written: {FLAGS.output_file}")
        elif not FLAGS.score_file:
            sys.stdout.writelines(lines)
        sys.stdout.flush()  # while a reader that left can be told from an error


if __name__ == "__main__":
    command_line.run(main)
