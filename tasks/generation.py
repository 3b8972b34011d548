"""Texts that a left-to-right network writes, and scores of texts by it."""

import functools
import os
import sys
from typing import Any

import keras
import tensorflow as tf

from contract import atomic_files, errors
from data_pipeline.generation import graph as generation_graph
from data_pipeline.generation import perplexity, prompts
from data_pipeline.tables import file_patterns
from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.generation import decoding, sampling, scoring
from serving import export, generation
from tasks import device_setup, networks
from tasks.settings.generation import GenerationSettings
from terminal import progress

STOP_TOKENS = 16  # between two looks for a --stop


def prepare(settings: GenerationSettings):
    """The network, and a function of the model to the lines of --output_file."""
    device_setup.check_gpu(settings)
    opened = networks.open_for_task(settings, for_tasks=False)
    tokenizer, config = opened.tokenizer, opened.config
    if not config.is_left_to_right:
        raise errors.InputError(
            f"{opened.files.config_file}: a network of both directions cannot write; "
            "give a GPT, a GPT-2, or a BERT with attention=causal"
        )
    context = config.max_position_embeddings
    file_patterns.refuse_overwriting(
        settings.output_file,
        prompt_file=settings.prompt_file,
        score_file=settings.score_file,
    )
    if settings.output_file:
        atomic_files.check_writable(settings.output_file)
    budget = prompts.ContextBudget(context, settings.max_new_tokens, settings.keep_end)
    work: Any
    if settings.score_file:
        work = functools.partial(
            score, settings, prepare_scores(settings, tokenizer, context)
        )
    elif settings.do_export:
        budget.max_prompt_tokens(is_prompted=True)
        work = functools.partial(export_model, settings, tokenizer, budget)
    else:
        work = Writer(settings, tokenizer, budget)
    return opened, work


class Writer:
    """Writes the texts of the settings: one while it is shown, or many in batches."""

    def __init__(self, settings, tokenizer, budget):
        self._settings = settings
        read = prompts.read(settings.prompt, settings.prompt_file)
        self._texts = prompts.plan(read, tokenizer, budget, settings.num_samples)
        self._tokenizer = tokenizer
        ends = end_ids(settings, tokenizer)
        self._detokenizer = prompts.Detokenizer(tokenizer.decode, ends, settings.stop)

    def __call__(self, model):
        """The lines of --output_file; () where the text is shown."""
        decoder = decoding.Decoder(model, rules(self._settings, self._tokenizer))
        if len(self._texts.rows) == 1 and not self._settings.output_file:
            return self._show(decoder)
        texts, lines = self._texts, {}
        batches = texts.batches(self._settings.batch_size)
        for batch in progress.track(batches, len(batches), "writing: batch"):
            for row, *written in self._write(decoder, batch):
                prompt = texts.prompts[row[0]]
                lines[row] = prompts.Continuation(prompt, row[1], *written)
        as_json = (self._settings.output_file or "").endswith(".jsonl")
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
            seed=self._settings.seed,
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
            seed=self._settings.seed,
            samples=[sample for _, sample in batch],
            piece=STOP_TOKENS if self._settings.stop else None,
            stops=lambda place, written: detokenizer.stops(ids[place], written),
        )
        for row, prompt, (text_ids, ended) in zip(batch, ids, written, strict=True):
            yield row, detokenizer.after(prompt, text_ids), len(text_ids), ended


def rules(settings: GenerationSettings, tokenizer, draws=None):
    """How tokens are drawn, by the settings or by others of sampling.Sampling."""
    how = sampling.Sampling(**(draws or settings.draws()))
    return decoding.GenerationConfig(
        how, end_ids(settings, tokenizer), tokenizer.vocab_size
    )


def end_ids(settings: GenerationSettings, tokenizer):
    """The tokens that end a text; none where it is to go on."""
    end = tokenizer.document_end_id
    return [end] if settings.stop_at_end and end is not None else []


def build_model(settings: GenerationSettings, opened):
    """The network with its weights, all of which must be there."""
    keras.config.set_dtype_policy(settings.dtype_policy)
    model = pretrainers.LanguageModel(opened.config)
    model.build()
    source = checkpoint.load_trained(model, opened.files.init_checkpoint)
    progress.print_line(f"weights: {source}")
    return model


def prepare_scores(settings: GenerationSettings, tokenizer, context):
    """The texts of --score_file, read and checked before there is a model."""
    return perplexity.ScoredTexts(
        str(settings.score_file),
        tokenizer,
        context,
        as_one=settings.score_as == "document",
        stride=settings.stride,
    )


def score(settings: GenerationSettings, texts, model):
    """Prints the results; returns a line for each text."""
    run = functools.partial(
        perplexity.run, score=scoring.make_scorer(model), batch_size=settings.batch_size
    )
    results, lines = texts.results(run)
    for name, value in results.items():
        print(f"{name} = {value}")
    return lines


def export_model(settings: GenerationSettings, tokenizer, budget, model):
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
            seeds = tf.fill(tf.shape(lengths), tf.constant(settings.seed, tf.int64))
        how = rules(settings, tokenizer, draws)
        return decoding.write(model, how, ids, lengths, seeds, new_tokens)

    module = generation.TextGenerator(
        write_rows,
        lambda ids, mask: scoring.score_tokens(model, ids, mask),
        [variable.value for variable in model.variables],
        spelling,
        model.config,
    )
    target = os.path.join(str(settings.output_dir), "export")
    path = export.save(module, target, {}, settings.export_server_config)
    print(f"exported: {path}")
    return ()


def run(settings: GenerationSettings) -> None:
    """What run_generation.py does."""
    opened, work = prepare(settings)
    lines = work(build_model(settings, opened))
    if settings.output_file:
        atomic_files.write({settings.output_file: lines})
        print(f"written: {settings.output_file}")
    elif not settings.score_file:
        sys.stdout.writelines(lines)
    sys.stdout.flush()  # while a reader that left can be told from an error
