r"""Fine-tunes BERT to tag words, evaluates, predicts with and exports the tagger.

Slot filling, entities, parts of speech (BERT section 5.3): see docs/tagging.md.

    python run_tagger.py --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.conll --dev_file=dev.conll --output_dir=output/tags
"""

import functools

from absl import flags

from cli import command_line, fine_tuning_flags, tagger_flags

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    tagger_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run, tagger_flags.paths)

from cli import networks, run_flags, training_flags
from contract import features, file_names
from data_pipeline import label_maps
from data_pipeline.tables import label_files
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import graph, scores, windows
from data_pipeline.text import offsets, opening
from modeling import losses, models
from modeling.checkpoints import pretrained
from serving import formats, windowed


def prepare():
    """The task and its settings; ValueError for wrong input."""
    paths = tagger_flags.paths()
    strategy = run_flags.set_up()
    files, tokenizer, config = networks.open_for_task(FLAGS.max_seq_length)
    opening.check_exports(tokenizer, FLAGS.do_export)
    reading = run_flags.reading(files)
    names = label_files.read_labels(FLAGS.labels) if FLAGS.labels else ()
    layout = tagged_files.Layout(**tagger_flags.layout(), tag_names=names)
    splits = windows.read(paths, layout)
    tag_set = windows.find_tags(
        splits.get("train"),
        names=names,
        scheme=FLAGS.tag_scheme,
        head=run_flags.find_head(files, config, "tagger"),
    )
    data = windows.load(
        splits,
        tag_set,
        tokenizer,
        accepts_unknown=FLAGS.accept_unknown_tags,
        document_context=FLAGS.document_context,
        **tagger_flags.limits(),
    )
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(data["train"]) if "train" in data else 0,
        score_names=scores.score_names(tag_set.scheme),
    )
    return make_task(config, tokenizer, tag_set, data, reading), settings


def make_task(config, tokenizer, tag_set, data, reading):
    """The driver.FineTuningTask of tagging words."""
    label_map = {file_names.LABEL_MAP: label_maps.text(tag_set)}
    formats.check(FLAGS.export_format, config, reading)
    training_flags.check_packing(config.network, reads_plainly=not reading.chosen())
    return run_flags.make_task(
        "token-classification",
        lambda: {split: sentences.summary() for split, sentences in data.items()},
        load_weights=networks.weights_loader(tag_set),
        splits={split: sentences.examples() for split, sentences in data.items()},
        model=functools.partial(
            models.BertTagger,
            config,
            tag_set.num_outputs,
            reading=reading,
            recompute=FLAGS.recompute,
        ),
        objective=losses.tagger(),
        outputs=best_tags,
        score=lambda split, outputs, _: scores.decide(data[split], outputs, tag_set),
        examine=lambda split, scored: scores.outcomes(
            split, data[split], scored, tag_set.scheme
        ),
        predict=functools.partial(predict, tag_set, data),
        export=functools.partial(export_model, tokenizer, tag_set, label_map),
        reopen=formats.open_network,
        files=pretrained.files(config, tokenizer) | label_map | reading.files(),
        identity={"labels": list(tag_set.names), "reading": reading.chosen()},
    )


def best_tags(model):
    """The likeliest tag of each token, its probability, and the loss of a known tag."""

    def forward(batch, training):
        logits = model(batch, training=training)["logits"]
        outputs = graph.best_tags(logits)
        if features.LABEL_IDS in batch:
            outputs["losses"] = losses.tag_losses(logits, batch[features.LABEL_IDS])
        return outputs

    return forward


def predict(tag_set, data, tagged, settings, _):
    """Writes predictions in both forms; returns scores, if any."""
    if settings.writes:
        paths = scores.write_all(
            settings.output_dir, data["test"].sentences, tagged, tag_set.scheme
        )
        print("\n".join(f"predictions: {path}" for path in paths))
    return tagged.results("test")


def export_model(tokenizer, tag_set, label_map, model, output_dir):
    """Writes output_dir/export/<n>: text or words in, tags out."""

    def make(variables):
        return windowed.WordTagger(
            functools.partial(offsets.split_words, rules=tokenizer.rules),
            graph.encoder(tokenizer, **tagger_flags.limits()),
            functools.partial(model, training=False),
            graph.chooser(tag_set),
            variables,
            (None, *tokenizer.token_shape),
            model.config,
        )

    return run_flags.export(model, make, output_dir, label_map)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
