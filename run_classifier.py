r"""Fine-tunes, evaluates, predicts with and exports a BERT classifier.

Takes the flags of google-research/bert, and tables of any form: docs/classification.md.

    python run_classifier.py --pretrained=DIR --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/mine
"""

import dataclasses
import functools
import json
import os
from typing import Any

from absl import flags

from cli import (
    command_line,
    feature_flags,
    fine_tuning_flags,
    table_flags,
    training_flags,
)
from contract import errors, export_formats, wording
from data_pipeline.classification import label_checks, sources, tables

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")
# Beyond these both softmaxes are 0 and 1, or all alike, and nothing is learned of them.
_LOWEST_HEAT, _HIGHEST_HEAT = 0.01, 1000.0
# Splits of a table, and what TensorFlow Datasets usually calls them.
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
boolean, enum, string = flags.DEFINE_bool, flags.DEFINE_enum, flags.DEFINE_string


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    _define_rows()
    _define_labels()
    _define_training()
    _define_output()
    feature_flags.define()


@command_line.heading("Data")
def _define_rows() -> None:
    string(
        "data_dir",
        None,
        "Directory with the files of --task_name, or the data directory of TensorFlow "
        "Datasets.",
    )
    string(
        "task_name",
        None,
        "Name of the task: XNLI, a GLUE task such as CoLA, MNLI or MRPC, or a CLUE "
        "task such as AFQMC, TNEWS or C3.",
    )
    string("xnli_language", "zh", "Language of the XNLI texts.")
    table_flags.define_files("TSV, CSV or JSONL file with the {} set.")
    for split, tfds in _TFDS_SPLITS.items():
        string(f"tfds_{split}_split", tfds, f"TFDS split to use as the {split} set.")
    command_line.define_float(
        "dev_share",
        0.0,
        "Share of the rows of --train_file, such as 0.2, to use as the dev set "
        "instead of --dev_file. The other rows are for training.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    string(
        "tfds_name",
        None,
        "Data set of TensorFlow Datasets to read instead of files, such as glue/sst2.",
    )
    table_flags.define_form()
    enum(
        "pair_input",
        "joined",
        ["joined", "both_orders", "separate", "cloze"],
        "Input of the network for two texts. joined: one sequence. both_orders: two "
        "sequences, A before B and B before A; their vectors are added, for "
        "similarity. For choices also separate: question [SEP] choice, as for C3; and "
        "cloze: the choice, and the text around #idiom#, as for ChID.",
    )
    boolean(
        "allow_empty_text",
        False,
        "Keep rows without text in your own files, instead of leaving them out of the "
        "training and dev rows and refusing them in test rows.",
    )


@command_line.heading("Data")
def _define_labels() -> None:
    string(
        "labels",
        None,
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line.",
    )
    boolean(
        "check_data",
        False,
        "Only look at the rows of all files that are given: print the labels, and all "
        "that is odd in them or in the texts, and end.",
    )
    kinds = ["classification", "multi_label", "regression"]
    enum(
        "problem_type",
        "classification",
        kinds,
        "Type of the labels: one label, several labels or a number per row.",
    )
    string(
        "label_separator",
        ",",
        "Separator between the labels of a row, for --problem_type=multi_label.",
    )
    command_line.define_float(
        "multi_label_threshold",
        0.5,
        "Minimum probability of a predicted label, for --problem_type=multi_label.",
        0,
        1,
    )
    string(
        "class_weights",
        None,
        "Weights of the classes in the loss: 'balanced', or one number per class, "
        "separated by commas.",
    )
    table_flags.define_columns()


@command_line.heading("Training")
def _define_training() -> None:
    training_flags.define_packing()
    training_flags.define_label_smoothing()
    command_line.define_float(
        "lm_loss_weight",
        0.0,
        "Weight of an additional loss for predicting each next token, for networks "
        "that read from left to right. GPT uses 0.5.",
        lower_bound=0,
    )
    string(
        "teacher",
        None,
        "Directory of a fine-tuned classifier with the same labels: an --output_dir, "
        "or any directory for --pretrained. The model is trained on the outputs of "
        "this teacher in addition to the labels.",
    )
    command_line.define_float(
        "distill_temperature",
        2.0,
        "Divisor of the logits of teacher and student before they are compared. "
        "Higher values show more of the unlikely labels; no effect on regression.",
    )
    command_line.define_float(
        "distill_weight",
        0.9,
        "Weight of the loss between the model and the teacher; the loss of the labels "
        "has the remaining weight.",
        lower_bound=0,
        upper_bound=1,
    )
    string(
        "unlabelled_file",
        None,
        "TSV, CSV or JSONL file with rows without labels; they are trained on the "
        "outputs of the teacher alone.",
    )


@command_line.heading("Output")
def _define_output() -> None:
    boolean(
        "write_tf_records",
        True,
        "Write the features to *.tf_record files, as google-research/bert does.",
    )
    flags.DEFINE_integer(
        "explain",
        0,
        "Number of rows with a weight for each word, in explanations.jsonl and the "
        "report: the worst errors of the dev set or, without --do_eval, of the test "
        "set. Without labels, they are the first rows of the test set.",
        lower_bound=0,
    )
    boolean(
        "write_projector",
        False,
        "Write the vectors of the dev rows for the embedding projector of TensorBoard.",
    )


def check_flags() -> None:
    """Raises ValueError where flags contradict each other."""
    share, teacher = f"--dev_share={FLAGS.dev_share}", FLAGS.teacher
    heat, unlabelled = FLAGS.distill_temperature, FLAGS.unlabelled_file
    command_line.refuse(
        (
            layout().label_columns
            and FLAGS["problem_type"].present
            and FLAGS.problem_type != "multi_label",
            f"--label_column={FLAGS.label_column} is a column for each of several "
            f"labels; leave --problem_type={FLAGS.problem_type} out",
        ),
        (
            FLAGS.write_projector and not FLAGS.do_eval,
            "--write_projector shows evaluated rows; add --do_eval",
        ),
        *(
            (
                FLAGS.dev_share and FLAGS[name].value,
                f"{share} beside --{name}={FLAGS[name].value}: takes the dev rows from "
                f"--train_file; leave --{name} or this out",
            )
            for name in ("dev_file", "task_name", "tfds_name")
        ),
        *(
            (
                FLAGS.task_name and FLAGS[name].present,
                f"{FLAGS[name].serialize()} is for files of your own; leave it or "
                f"--task_name={FLAGS.task_name} out",
            )
            for name in ("file_format", "has_header", "delimiter", "quote", "encoding")
        ),
        (
            FLAGS.dev_share and not FLAGS.train_file,
            f"{share}: takes the dev rows from --train_file; set that, too",
        ),
        (
            FLAGS.explain and not (FLAGS.do_eval or FLAGS.do_predict),
            "--explain explains predictions; add --do_eval or --do_predict",
        ),
        *(
            (
                FLAGS[name].present and not teacher,
                f"--{name}={FLAGS[name].value} needs a --teacher; set it, too",
            )
            for name in ("distill_temperature", "distill_weight", "unlabelled_file")
        ),
        (
            teacher and not _LOWEST_HEAT <= heat <= _HIGHEST_HEAT,
            f"--distill_temperature={heat} is not {_LOWEST_HEAT} to {_HIGHEST_HEAT}; "
            "give one such as 2",
        ),
        (
            teacher and unlabelled and not FLAGS.distill_weight,
            "--distill_weight=0 leaves nothing to learn from --unlabelled_file="
            f"{unlabelled}; raise it, or leave the file out",
        ),
        (
            teacher and os.path.realpath(teacher) == os.path.realpath(FLAGS.output_dir),
            f"--teacher={teacher} is the --output_dir of the student; name another",
        ),
    )
    command_line.check_files("unlabelled_file", *["data_dir"][: bool(FLAGS.task_name)])


def check_kind(problem_type: str) -> None:
    """Raises ValueError where a flag does not suit the problem type of the rows."""
    is_choice, is_both = problem_type == "choice", FLAGS.pair_input == "both_orders"
    command_line.refuse(
        (
            is_choice and is_both,
            "--pair_input=both_orders: these rows have choices; leave it out",
        ),
        (
            FLAGS.choice_columns and FLAGS["problem_type"].present,
            f"--problem_type={FLAGS.problem_type} stands beside --choice_columns; "
            "leave one out",
        ),
        (
            FLAGS.label_smoothing
            and (FLAGS.teacher or problem_type in ("multi_label", "regression")),
            f"--label_smoothing={FLAGS.label_smoothing} is for rows with one label, "
            "and for training without a --teacher; leave it out",
        ),
        (
            FLAGS.explain and (is_choice or is_both),
            f"--explain={FLAGS.explain} weighs the words of one sequence; leave it out",
        ),
        *(
            (
                is_choice and FLAGS[name].value,
                f"--{name} is for labels that all examples share; leave it out",
            )
            for name in ("teacher", "write_projector")
        ),
    )


def check_network(config: Any, config_file: str, takes_text: bool) -> None:
    """Raises ValueError where a flag does not suit the network or its tokenizer.

    `takes_text` is whether an export can have the tokenizer.
    """
    records, weight = FLAGS["write_tf_records"], FLAGS.lm_loss_weight
    export_format = FLAGS.export_format
    is_split = FLAGS.do_export and export_format != export_formats.SAVED_MODEL
    command_line.refuse(
        (
            FLAGS.explain and config.network != "bert",
            f"--explain={FLAGS.explain} weighs the words of BERT's word pieces, and "
            f"{config_file} describes another network; leave it out",
        ),
        (
            config.network == "elmo" and records.present and records.value,
            "--write_tf_records writes a number for each token, and an ELMo reads its "
            "characters; leave it out",
        ),
        (
            is_split and not takes_text,
            f"--export_format={export_format} keeps the tokenizer beside the network, "
            "and GPT's is no TensorFlow operation; leave it out",
        ),
        (
            weight and FLAGS.freeze_encoder,
            f"--lm_loss_weight={weight} trains the network, and --freeze_encoder does "
            "not; leave one of them out",
        ),
        (
            weight and not config.is_left_to_right,
            f"--lm_loss_weight={weight} predicts each token from those before it, and "
            f"the network of {config_file} sees both sides; leave it out",
        ),
    )


def layout() -> tables.Layout:
    """The columns of own files; several of labels have commas between them."""
    names = tuple(map(str.strip, (FLAGS.label_column or "").split(",")))
    read = table_flags.layout(FLAGS.file_format)
    return dataclasses.replace(
        read,
        label=names if len(names) > 1 else read.label,
        allow_empty_text=FLAGS.allow_empty_text,
    )


def look() -> None:
    """Ends the program after a look at the rows, where --check_data is set."""
    if not FLAGS.check_data:
        return
    check_flags()
    splits = [split for split in table_flags.SPLITS if FLAGS[f"{split}_file"].value]
    if FLAGS.task_name or FLAGS.tfds_name:
        splits = ["train", "dev"]
    if FLAGS.dev_share:
        splits[1:1] = ["dev"]
    if faults := label_checks.look(source(), splits):
        raise errors.InputError(f"--check_data: {wording.count(faults, 'fault')}")
    print("--check_data: no fault")
    raise SystemExit


def source() -> sources.Source:
    """Where the rows come from, as the flags name them."""
    prefix, suffix = ("tfds_", "_split") if FLAGS.tfds_name else ("", "_file")
    return sources.Source(
        task_name=FLAGS.task_name or "",
        data_dir=FLAGS.data_dir or "",
        xnli_language=FLAGS.xnli_language,
        files={s: FLAGS[f"{prefix}{s}{suffix}"].value for s in _TFDS_SPLITS},
        tfds_name=FLAGS.tfds_name or "",
        layout=layout(),
        label_spec=FLAGS.labels or "",
        problem_type=FLAGS.problem_type,
        separator=FLAGS.label_separator,
        unlabelled_file=FLAGS.unlabelled_file or "",
        pair_input=FLAGS.pair_input,
        dev_share=FLAGS.dev_share,
    )


def check():
    look()
    fine_tuning_flags.check_run()
    check_flags()
    local_tables = fine_tuning_flags.local_tables()
    tables.check_columns(local_tables, layout())


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, check)

import keras
import numpy as np

from cli import fine_tuning, networks, run_flags
from contract import atomic_files, file_names
from data_pipeline.classification import (
    encoding,
    prediction_table,
    predictions,
    soft_labels,
)
from data_pipeline.classification import split as row_splits
from modeling import losses, models, sequences
from modeling.checkpoints import conversion, pretrained
from modeling.features import attribution
from serving import export, formats
from training import checkpoints, metrics, tensorboard


def prepare():
    """The task and its settings; ValueError for wrong input."""
    check()
    strategy = run_flags.set_up()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    files, tokenizer, config = opened.files, opened.tokenizer, opened.config
    check_network(config, files.config_file, tokenizer.in_graph)
    rows_source = source()
    check_kind(rows_source.kind)
    data = row_splits.load(
        rows_source,
        fine_tuning_flags.wanted_splits(),
        tokenizer,
        FLAGS.max_seq_length,
        head=run_flags.find_head(opened, "classifier"),
        default_metrics=metrics.DEFAULTS,
        num_texts=None if FLAGS.do_train else run_flags.num_texts(opened),
    )
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, files.config_file)
    data = soft_labels.with_unlabelled(data, rows_source)
    reading = run_flags.reading(files, len(data.encode.text_names))
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=sum(len(data.splits.get(s, ())) for s in soft_labels.TRAINED),
        score_names=(*data.metrics, "loss"),
    )
    soft = open_teacher(data, settings) if FLAGS.teacher else None
    return ClassifierTask(opened, data, reading, soft), settings


def open_teacher(data, settings):
    """The labels that the outputs of --teacher give the rows."""
    teacher, length = networks.open_named("teacher", None, FLAGS.max_seq_length)
    config = teacher.config
    if len(data.encode.text_names) > 1:
        pretrained.check_segments(config, teacher.files.config_file)
    if (head := teacher.find_head("classifier")) is None:
        raise errors.InputError(
            f"--teacher={FLAGS.teacher}: has no head of a classifier; give the "
            "--output_dir of a run"
        )
    columns = soft_labels.order_classes(FLAGS.teacher, head.classes, data.label_set)
    keras.config.set_dtype_policy(settings.run.dtype_policy)  # as run.start does
    with settings.run.strategy.scope():
        model = conversion.read(
            teacher.path, config, "classifier", teacher.weights
        ).model
    predict, digest = settings.predictor(model), conversion.digest(model)
    encode = encoding.Encoder(teacher.tokenizer, length)
    return soft_labels.SoftLabels(data, encode, predict, digest, columns)


class ClassifierTask(fine_tuning.ScriptTask):
    """Classifies texts, pairs of texts, or answers to choose from.

    Args:
        rows: the LabelledData of the run.
        soft: the SoftLabels of a teacher, or None.
    """

    def __init__(self, opened, rows, reading, soft=None):
        label_set = rows.label_set
        super().__init__(
            opened,
            rows.splits,
            classes=label_set,
            reading=reading,
            identity={
                **label_set.identity,
                "num_texts": len(rows.encode.text_names),
            },
        )
        self.kind = rows.encode.task
        self.more_facts = {
            "text_names": rows.encode.text_names,
            "findings": rows.findings,
        }
        self._rows, self._soft = rows, soft
        weights = rows.class_weights(FLAGS.class_weights)
        smoothing = FLAGS.label_smoothing
        objective = losses.classifier(rows.problem_type, weights, smoothing)
        if soft:
            taught = FLAGS.distill_temperature, FLAGS.distill_weight
            self.splits |= soft.training_examples(*taught)
            objective = losses.distillation(rows.problem_type, *taught, weights)
        self.objective = losses.with_next_tokens(objective, FLAGS.lm_loss_weight)
        self._sequences = sequences.choose_kind(rows.problem_type, label_set.pair_input)
        formats.check(FLAGS.export_format, opened.config, reading, self._sequences)

    def make_model(self):
        return models.BertClassifier(
            self.config,
            self.classes.num_outputs,
            self._sequences,
            predicts_tokens=FLAGS.lm_loss_weight > 0,
            reading=self.reading,
            recompute=FLAGS.recompute,
        )

    def score(self, split, outputs, batch_size):
        """Probabilities, decisions and, where labels are known, scores of a split."""
        problem_type, logits = self.classes.problem_type, outputs["logits"]
        label_ids = self.data[split].label_ids
        lines = self.data[split].table.lines
        probabilities, decisions = self._decide(logits, lines)
        if problem_type == "regression":
            logits = probabilities  # of a CrossEncoder not the same
        scores, each = {}, None
        if label_ids is not None:
            each = losses.classifier_losses(problem_type, logits, label_ids)
            each = np.asarray(each).reshape(len(label_ids), -1).mean(axis=1)
            scores = self._compute(label_ids, decisions)
            scores["loss"] = each.mean()
            if self._soft and split == "dev":
                theirs, heat = self._soft.logits(split), FLAGS.distill_temperature
                soft = losses.soft_losses(problem_type, logits, theirs, heat)
                scores |= {"label_loss": each.mean(), "soft_loss": np.mean(soft)}
            scores["batch_loss"] = metrics.mean_loss(each, batch_size)
        return predictions.Scored(probabilities, decisions, scores, each)

    def _decide(self, logits, lines=()):
        """Probabilities [B, C], and the labels that they decide on.

        `lines` are those of the rows, if they are whole splits.
        """
        shares = np.asarray(losses.probabilities(self.classes.shares_as, logits))
        threshold = FLAGS.multi_label_threshold
        how = threshold, lines, np.asarray(logits)
        return shares, predictions.decide(self.classes, shares, *how)

    def _compute(self, *label_ids):
        asked = self._rows.asked
        if self.classes.has_one_label:  # F1 is of the second name that was asked for
            places = np.array([asked.index(name) for name in self.classes.names])
            label_ids = tuple(places[ids] for ids in label_ids)
        return metrics.compute(self._rows.metrics, *label_ids)

    def results(self, scored):
        return scored.eval_results()

    def outcomes(self, split, scored):
        return predictions.outcomes(split, self.data[split], scored, self._compute)

    def explain(self, model, rows, settings):
        """Explanations of --explain rows, also in explanations.jsonl.

        Of evaluated rows the wrong ones come first, the worst before the others; of
        rows without labels, the first of "test". All processes take part, one writes.
        """
        if not FLAGS.explain:
            return []
        split = rows.split if rows is not None else "test"
        chosen = np.arange(min(FLAGS.explain, len(self.data[split])))
        if rows is not None:
            order = np.lexsort((-np.asarray(rows.losses), np.asarray(rows.is_correct)))
            chosen = order[: FLAGS.explain]
        ascending = np.sort(chosen)
        weigh = functools.partial(attribution.token_weights, model)
        predictor = settings.predictor(weigh, settings.eval_batch_size)
        outputs = predictor.rows(self.examples(split), ascending)
        places = np.searchsorted(ascending, chosen)
        outputs = {name: value[places] for name, value in outputs.items()}
        vocab, decide = self.tokenizer.vocab, self._decide
        explanations = predictions.explain_rows(
            self._rows, vocab, decide, split, chosen, outputs
        )
        if settings.run.writes:
            path = os.path.join(settings.run.output_dir, file_names.EXPLANATIONS)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in explanations)
            atomic_files.write({path: lines})
            print(f"explanations: {path}")
        return explanations

    def show(self, model, scored, settings):
        """Writes the vectors that the head reads, where a flag is set."""
        if not FLAGS.write_projector:
            return
        pooled = settings.predictor(
            lambda features, training: {"vectors": model.pool(features)},
            settings.eval_batch_size,
        )
        columns = functools.partial(predictions.columns, self.data["dev"], scored)
        tensorboard.write_projector(
            pooled,
            self.examples("dev"),
            columns,
            settings.run.output_dir,
            writes=settings.run.writes,
        )

    def predict(self, scored, current, step):
        """Writes the predictions, also as a site takes them; returns scores."""
        if current.writes:
            rows, name = self.data["test"], self._rows.submission
            others = dict(prediction_table.files(rows, scored))
            if name:
                others[name] = predictions.submission_lines(name, rows, scored)
            predictions.write(
                current.output_dir,
                rows,
                scored,
                writes_labels=not checkpoints.all_checkpoints(current.output_dir),
                others=others,
            )
        return scored.results("test")

    def write_records(self, directory):
        """Writes train.tf_record and so on, with --write_tf_records."""
        if FLAGS.write_tf_records:
            row_splits.write_records(directory, self._rows, FLAGS.max_seq_length)

    def served(self, model, variables):
        """Raw text in, label and probabilities out."""
        return export.TextClassifier(
            self._rows.encode,
            losses.WithProbabilities(self.classes.shares_as, model),
            variables,
            self.classes.names if self.classes.has_one_label else (),
            model.config,
        )


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
