r"""Fine-tunes BERT to tag words, evaluates, predicts with and exports the tagger.

Slot filling, entities, parts of speech (BERT section 5.3): see docs/tagging.md.

    python run_tagger.py --pretrained=DIR --do_train --do_eval \
        --train_file=train.conll --dev_file=dev.conll --output_dir=output/tags
"""

import functools
from typing import Any

from absl import flags

from cli import (
    command_line,
    feature_flags,
    fine_tuning_flags,
    table_flags,
    training_flags,
)

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    _define_words()
    training_flags.define_packing()
    training_flags.define_label_smoothing()
    feature_flags.define()


@command_line.heading("Data")
def _define_words() -> None:
    integer, boolean = flags.DEFINE_integer, flags.DEFINE_bool
    table_flags.define_files("CoNLL, seq.in or JSONL file with the {} set.")
    forms = ["auto", "conll", "seq", "jsonl", "cluener"]
    flags.DEFINE_enum(
        "file_format",
        "auto",
        forms,
        "Format of the files; auto detects it from the file name or the first line. "
        "cluener: as CLUENER2020, a tag for each character.",
    )
    integer(
        "word_column",
        0,
        "Column of the words, counted from 0; negative numbers count from the end.",
    )
    integer(
        "tag_column",
        -1,
        "Column of the tags, counted from 0; negative numbers count from the end.",
    )
    text = (
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line."
    )
    flags.DEFINE_string("labels", None, text)
    flags.DEFINE_enum(
        "tag_scheme",
        "auto",
        ["auto", "BIO", "BIOES", "BILOU", "BMES", "plain"],
        "Scheme of the tags in the files; auto detects it. BIO also reads IOB1.",
    )
    boolean(
        "accept_unknown_tags",
        False,
        "Score dev and test rows with tags that are not in the training set, instead "
        "of refusing them. Each such tag counts as wrong, because it cannot be "
        "predicted.",
    )
    integer(
        "window_stride",
        0,
        "Stride in tokens between the windows of a long sentence; 0 for half a window.",
        lower_bound=0,
    )
    boolean(
        "document_context",
        False,
        "Fill each window with the sentences around it, up to --max_seq_length.",
    )


def layout() -> dict[str, Any]:
    """How files hold words and tags, by the names of the flags."""
    names = ("file_format", "word_column", "tag_column")
    return {name: FLAGS[name].value for name in names}


def limits() -> dict[str, Any]:
    """How long sentences are cut, in tokens."""
    return {"max_seq_length": FLAGS.max_seq_length, "stride": FLAGS.window_stride}


def paths() -> dict[str, Any]:
    """The files that the run needs; ValueError where a flag is not set."""
    return table_flags.paths(fine_tuning_flags.wanted_splits(), "sentences")


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run, paths)

from cli import fine_tuning, networks, run_flags
from contract import features
from data_pipeline.tables import label_files
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import graph, scores, windows
from data_pipeline.text import offsets, opening
from modeling import losses, models
from serving import formats, windowed


def prepare():
    """The task and its settings; ValueError for wrong input."""
    sentence_files = paths()
    strategy = run_flags.set_up()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    opening.check_exports(opened.tokenizer, FLAGS.do_export)
    reading = run_flags.reading(opened.files)
    names = label_files.read_labels(FLAGS.labels) if FLAGS.labels else ()
    form = tagged_files.Layout(**layout(), tag_names=names)
    splits = windows.read(sentence_files, form)
    tag_set = windows.find_tags(
        splits.get("train"),
        names=names,
        scheme=FLAGS.tag_scheme,
        head=run_flags.find_head(opened, "tagger"),
    )
    data = windows.load(
        splits,
        tag_set,
        opened.tokenizer,
        accepts_unknown=FLAGS.accept_unknown_tags,
        document_context=FLAGS.document_context,
        **limits(),
    )
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=len(data.get("train", ())),
        score_names=scores.score_names(tag_set.scheme),
    )
    return TaggerTask(opened, data, tag_set, reading), settings


class TaggerTask(fine_tuning.ScriptTask):
    """Tags words: the likeliest tag of each first piece.

    `data` is {split: windows.SentenceSplit}.
    """

    kind = "token-classification"

    def __init__(self, opened, data, tag_set, reading):
        formats.check(FLAGS.export_format, opened.config, reading)
        self.objective = losses.tagger(FLAGS.label_smoothing)
        identity = {"labels": list(tag_set.names)}
        super().__init__(
            opened, data, classes=tag_set, reading=reading, identity=identity
        )

    def make_model(self):
        return models.BertTagger(
            self.config,
            self.classes.num_outputs,
            reading=self.reading,
            recompute=FLAGS.recompute,
        )

    def outputs(self, model):
        """Best tag and probability of each token, and the loss of a known tag."""

        def forward(batch, training):
            logits = model(batch, training=training)["logits"]
            outputs = graph.best_tags(logits)
            if features.LABEL_IDS in batch:
                outputs["losses"] = losses.tag_losses(logits, batch[features.LABEL_IDS])
            return outputs

        return forward

    def score(self, split, outputs, batch_size):
        return scores.decide(self.data[split], outputs, self.classes)

    def outcomes(self, split, scored):
        scheme = self.classes.scheme
        return scores.outcomes(split, self.data[split], scored, scheme)

    def predict(self, scored, current, step):
        if current.writes:
            sentences, scheme = self.data["test"].sentences, self.classes.scheme
            names = scores.write_all(current.output_dir, sentences, scored, scheme)
            print("\n".join(f"predictions: {name}" for name in names))
        return scored.results("test")

    def served(self, model, variables):
        """Text or words in, tags out."""
        return windowed.WordTagger(
            functools.partial(offsets.split_words, rules=self.tokenizer.rules),
            graph.encoder(self.tokenizer, **limits()),
            functools.partial(model, training=False),
            graph.chooser(self.classes),
            variables,
            (None, *self.tokenizer.token_shape),
            model.config,
        )


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
