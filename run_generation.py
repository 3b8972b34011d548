r"""Writes texts with a left-to-right network, scores texts with it, and exports it.

    python run_generation.py --pretrained=DIR --prompt="The river" --temperature=0.7
    python run_generation.py --pretrained=DIR --score_file=texts.txt

See docs/left_to_right.md.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import flags

from training.flags import command_line, device_flags, generation_flags, model_flags

FLAGS = flags.FLAGS


def define_flags():
    model_flags.define(max_seq_length=None)
    generation_flags.define()
    device_flags.define_one()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import keras

from contract import atomic_files
from data_pipeline.classification import tables
from data_pipeline.prompts import continuations, prompt_lists
from data_pipeline.scoring import scored_files, windows
from data_pipeline.text import vocabulary_checks
from modeling import models
from modeling.checkpoints import pretrained
from modeling.generation import decoding, sampling, scoring
from serving import export, generation
from terminal import progress
from training import errors
from training.flags import device_setup
from training.results import metrics

# Tokens between two looks for a --stop; and batches that are ordered by length.
STOP_TOKENS = 16
POOL_BATCHES = 16


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
    files = model_flags.files(pretrained.locate)
    if not files.init_checkpoint:
        raise ValueError(
            "--init_checkpoint is missing; set it, or set --pretrained to the "
            "directory of a model"
        )
    tokenizer = vocabulary_checks.open_tokenizer(files, checks_case=FLAGS.check_case)
    config = pretrained.open_config(files, tokenizer.vocab_size, 0)
    if not config.is_left_to_right:
        raise ValueError(
            f"{files.config_file}: the network reads in both directions, so it cannot "
            "write; give a GPT, a GPT-2, or a BERT with attention=causal"
        )
    context = config.max_position_embeddings
    if FLAGS.score_file:
        work = functools.partial(score, prepare_scores(tokenizer, context))
    elif FLAGS.do_export:
        work = functools.partial(export_model, tokenizer, context)
    else:
        work = prepare_texts(tokenizer, context)
    if FLAGS.output_file:
        atomic_files.check_writable(FLAGS.output_file)
    return GenerationInput(files, config, tokenizer, work)


def build_model(parts):
    """The network with its weights, all of which must be there."""
    keras.config.set_dtype_policy(device_flags.dtype_policy())
    model = models.LanguageModel(parts.config)
    model.build()
    print(f"weights: {pretrained.load_weights(model, parts.files.init_checkpoint)}")
    return model


def prepare_texts(tokenizer, context):
    room = prompt_lists.Room(context, FLAGS.max_new_tokens, FLAGS.keep_end)
    prompts = prompt_lists.read(FLAGS.prompt, FLAGS.prompt_file)
    ids = prompt_lists.encode(prompts, tokenizer, room)
    texts = [prompt.text for prompt in prompts] or [""]
    new_tokens = room.new_tokens(is_prompted=bool(prompts))
    rows = [(i, sample) for i in range(len(ids)) for sample in range(FLAGS.num_samples)]
    spelling = continuations.Spelling(tokenizer.decode, end_ids(tokenizer), FLAGS.stop)
    if len(rows) == 1 and not FLAGS.output_file:
        return functools.partial(
            stream, tokenizer, texts[0], ids[0], new_tokens, spelling
        )
    return functools.partial(write, tokenizer, texts, ids, rows, new_tokens, spelling)


def end_ids(tokenizer):
    """The tokens that end a text; none where it is to go on."""
    end = tokenizer.document_end_id
    return [end] if FLAGS.stop_at_end and end is not None else []


def rules_of(tokenizer, draws):
    """How texts are written; `draws` as generation_flags.sampling has them."""
    names = {field.name for field in dataclasses.fields(sampling.Sampling)}
    draws = {name: value for name, value in draws.items() if name in names}
    return decoding.Rules(
        sampling.Sampling(**draws), end_ids(tokenizer), tokenizer.vocab_size
    )


def decoder_of(model, tokenizer):
    return decoding.Decoder(model, rules_of(tokenizer, generation_flags.sampling()))


def stream(tokenizer, text, ids, new_tokens, spelling, model):
    """Shows one text while it is written."""
    screen = continuations.Screen(spelling, ids, show)

    def stops(_, written):
        screen.show(written)
        return spelling.stops(ids, written)

    show(text)
    ((written, _),) = decoding.texts(
        *(decoder_of(model, tokenizer), [ids], [0]),
        max_new_tokens=new_tokens,
        seed=FLAGS.seed,
        piece=1,
        stops=stops,
    )
    screen.finish(written)
    return ()


def show(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def write(tokenizer, texts, ids, rows, new_tokens, spelling, model):
    """Yields the lines of all texts, in the order of the prompts."""
    decoder = decoder_of(model, tokenizer)
    found = {}
    size, pool = FLAGS.batch_size, FLAGS.batch_size * POOL_BATCHES
    for part in progress.slices(len(rows), size, "writing: texts"):
        if part.start % pool == 0:
            waiting = sorted(
                rows[part.start : part.start + pool], key=lambda row: len(ids[row[0]])
            )
        batch, waiting = waiting[:size], waiting[size:]
        prompts = [ids[i] for i, _ in batch]
        written = decoding.texts(
            *(decoder, prompts, [i for i, _ in batch]),
            max_new_tokens=new_tokens,
            seed=FLAGS.seed,
            samples=[sample for _, sample in batch],
            piece=STOP_TOKENS if FLAGS.stop else None,
            stops=lambda row, new: spelling.stops(prompts[row], new),
        )
        for (i, sample), (new, ended) in zip(batch, written, strict=True):
            text = spelling.after(ids[i], new)
            found[i, sample] = continuations.Text(
                texts[i], sample, text, len(new), ended
            )
    as_json = (FLAGS.output_file or "").endswith(".jsonl")
    return continuations.lines((found[row] for row in rows), as_json=as_json)


def prepare_scores(tokenizer, context):
    """What FLAGS.score_file asks for: `run` -> results, lines."""
    path = FLAGS.score_file
    reader = scored_files.Reader(tokenizer, context, FLAGS.keep_end)
    match FLAGS.score_as:
        case "texts" | "document" as kind:
            as_one = kind == "document"
            return scored_files.texts(path, reader, FLAGS.stride, as_one=as_one)
        case "last_word":
            return scored_files.last_word(path, reader)
        case "choices":
            layout = tables.Layout(**generation_flags.layout())
            return scored_files.choice_of(path, reader, layout, FLAGS.labels)
        case _:
            names = metrics.DEFAULTS["classification"]
            return scored_files.labels_of(
                *(path, reader, tables.Layout(**generation_flags.layout())),
                **generation_flags.shown(),
                metrics=functools.partial(metrics.compute, names),
            )


def score(finish, model):
    """Prints the results; returns a line for each row."""
    run = functools.partial(
        windows.run, score=scoring.scorer(model), batch_size=FLAGS.batch_size
    )
    results, lines = finish(run)
    for name, value in results.items():
        print(f"{name} = {value}")
    return lines


def export_model(tokenizer, room, model):
    """Writes output_dir/export/<n>; see serving/generation.py."""
    new_tokens = room.new_tokens(is_prompted=True)
    spelling = None
    if tokenizer.in_graph:
        spelling = generation.Spelling(
            functools.partial(generation_graph.encode, tokenizer, most=room.most_read),
            functools.partial(
                generation_graph.encode_scored, tokenizer, most=room.context
            ),
            functools.partial(generation_graph.decode, tokenizer),
            tokenizer.vocab,
        )

    def write_rows(ids, lengths, draws):
        rules = rules_of(tokenizer, draws or generation_flags.sampling())
        seeds = draws["seed"] if draws else tf.fill(tf.shape(lengths), FLAGS.seed)
        return decoding.write(model, rules, ids, lengths, seeds, new_tokens)

    module = generation.TextGenerator(
        write_rows,
        lambda ids, mask: scoring.losses_of(model, ids, mask),
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
        with errors.of_input():
            parts = prepare()
            model = build_model(parts)
        lines = parts.work(model)
        with errors.of_writing():
            if FLAGS.output_file:
                atomic_files.write({FLAGS.output_file: lines})
                print(f"written: {FLAGS.output_file}")
            elif not FLAGS.score_file:
                sys.stdout.writelines(lines)


if __name__ == "__main__":
    command_line.run(main)
