r"""Trains vectors of texts on what belongs together: pairs, scored pairs or labels.

Texts of equal meaning get near vectors; docs/text_vectors.md shows data and losses.

    python run_embedding.py --pretrained=DIR --do_train --do_eval \
        --train_file=pairs.tsv --dev_file=scored.tsv --output_dir=output/vectors
"""

import dataclasses
import functools

from absl import flags

from cli import command_line, embedding_flags, fine_tuning_flags

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    embedding_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    checks = fine_tuning_flags.check_run, embedding_flags.check
    command_line.parse(define_flags, *checks)

from cli import embedding_task, networks, run_flags
from data_pipeline.classification import encoding
from modeling import text_encoder
from modeling.checkpoints import pretrained, sentence_transformers
from modeling.features import head_config
from serving import export, formats
from training import contrastive_step


def prepare():
    """The task and its settings; ValueError for wrong input."""
    strategy = run_flags.set_up()
    embedding_flags.check()
    files, tokenizer, config = networks.open_for_task(FLAGS.max_seq_length)
    kept = embedding_task.choose_vectors(run_flags.first_weights(files), config)
    embedding_flags.check_model(config, kept.text_vectors)
    splits = fine_tuning_flags.wanted_splits()
    if FLAGS.num_labelled and not FLAGS.do_train:
        splits = ["train", *splits]
    data = embedding_task.load(splits, tokenizer, kept)
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(data["train"]) if "train" in data else 0,
        score_names=embedding_task.score_names(data.get("dev")),
    )
    if FLAGS.teacher and FLAGS.do_train:
        data["train"] = embedding_task.with_teacher(data["train"], settings)
    return make_task(config, tokenizer, data, kept), settings


def make_task(config, tokenizer, data, kept):
    """The driver.FineTuningTask of vectors of texts."""
    vectors, objective = kept.text_vectors, None
    if FLAGS.do_train:
        width = vectors.width(config.hidden_size)
        objective = embedding_task.objective(data["train"], width)
    reranker = embedding_task.open_reranker() if FLAGS.reranker else None
    formats.check(FLAGS.export_format, config, head_config.ORIGINAL)
    described = text_encoder.TextEncoder(config, vectors)
    modules = sentence_transformers.files(described, kept)
    values = dataclasses.asdict(vectors)
    return run_flags.make_task(
        "sentence-similarity",
        lambda: {split: texts.summary() for split, texts in data.items()},
        splits={split: texts.examples() for split, texts in data.items()},
        model=functools.partial(
            text_encoder.TextEncoder, config, vectors, recompute=FLAGS.recompute
        ),
        objective=objective,
        score=lambda split, outputs, _: embedding_task.score(
            data[split], outputs["vectors"], kept.similarity
        ),
        evaluate=functools.partial(embedding_task.evaluate, data.get("dev"), reranker),
        show=functools.partial(embedding_task.show_few_labels, data),
        predict=lambda scored, settings, _: embedding_task.predict(
            data["test"], scored, settings
        ),
        export=functools.partial(export_model, tokenizer, kept.similarity),
        reopen=embedding_task.reopen,
        files=pretrained.files(config, tokenizer) | modules,
        identity={"vectors": {k: v for k, v in values.items() if v is not None}},
        make_step=contrastive_step.ContrastiveTrainStep,
    )


def export_model(tokenizer, similarity, model, output_dir):
    """Writes output_dir/export/<n>: raw text in, its vector out."""

    def make(variables):
        return export.TextModel(
            encoding.Encoder(tokenizer, FLAGS.max_seq_length),
            functools.partial(model, training=False),
            variables,
            lambda _, outputs: {"vector": outputs["vectors"]},
            model.config,
            names=["embed"],
        )

    kept = sentence_transformers.similarity_file(similarity)
    return run_flags.export(model, make, output_dir, kept)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
