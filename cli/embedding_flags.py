"""Flags of run_embedding.py: texts that belong together, losses, and vectors."""

from typing import Any

from absl import flags

from cli import (
    command_line,
    device_flags,
    search_flags,
    table_flags,
    training_flags,
)
from contract import errors
from data_pipeline.classification import tables
from data_pipeline.embedding import corpora

FLAGS = flags.FLAGS
IN_BATCH, COSENT, COSINE = "in_batch_negatives", "cosent", "cosine"
TRIPLET, LABELS = "triplet", "labels"
DISTILLATION = "distillation"  # of --teacher
# The losses of each kind of rows, the usual one first.
LOSSES = {
    corpora.PAIRS: (IN_BATCH,),
    corpora.TRIPLETS: (IN_BATCH, TRIPLET),
    corpora.SCORED: (COSENT, COSINE),
    corpora.LABELLED: (LABELS,),
}
_RETRIEVAL = {
    "corpus": "passages, as BEIR's corpus.jsonl, or a TSV file of id and text.",
    "queries": "queries in the same form.",
    "judgements": "TSV file of query-id, corpus-id and score: relevant passages.",
}
RETRIEVAL_FILES = [f"{name}_file" for name in _RETRIEVAL]
_IN_ONNX = {"tanh", "relu", "linear"}  # activations
# The flags that each loss reads, in the order of its arguments in contrastive.py.
READS = {
    IN_BATCH: ("scale", "symmetric"),
    COSENT: ("scale",),
    COSINE: ("largest_score",),
    TRIPLET: ("triplet_margin",),
    LABELS: ("scale",),
    DISTILLATION: (),
}


def define() -> None:
    """Where texts come from, how they are compared, and what a vector is."""
    string = flags.DEFINE_string
    with command_line.heading("Data"):
        table_flags.define_files("TSV, CSV or JSONL file with the {} set.")
        table_flags.define_form()
        for column, content in (
            ("text_a", "the first text, such as a query"),
            ("text_b", "the text that belongs to it, such as a passage"),
            ("label", "the scores of pairs, or the labels of single texts"),
        ):
            table_flags.define_column(column, content)
        flags.DEFINE_list(
            "negative_columns",
            [],
            "Columns of texts that do not belong to the first text; --text_b_column "
            "must be set.",
        )
        string(
            "tfds_name",
            None,
            "Data set of TensorFlow Datasets to read instead of files; --train_file "
            "and so on are then names of splits.",
        )
        string("data_dir", None, "Data directory of TensorFlow Datasets.")
        for name, content in _RETRIEVAL.items():
            help_text = f"For --do_eval, instead of dev rows: {content}"
            string(f"{name}_file", None, help_text)
        search_flags.define_prompts("first text", "other text")
    with command_line.heading("Evaluation and checkpoints"):
        flags.DEFINE_integer(
            "num_labelled",
            0,
            "Number of training rows for each label, drawn ten times, by whose vectors "
            "--do_eval scores a logistic regression and the nearest label; 0 for no "
            "such scores.",
            lower_bound=0,
        )
        search_flags.define_reranker(
            "With --corpus_file: directory of a classifier of pairs, or its export, "
            "which ranks the best 100 passages of each query once more, for further "
            "scores."
        )
    with command_line.heading("Training"):
        _define_loss()
    with command_line.heading("Vectors"):
        search_flags.define_pooling()
        flags.DEFINE_bool(
            "normalize",
            None,
            "Scale vectors to the length 1. By default as in the model, or true.",
        )
    training_flags.define_packing(default=True)


def _define_loss() -> None:
    flags.DEFINE_enum(
        "loss",
        None,
        sorted({loss for losses in LOSSES.values() for loss in losses}),
        "Loss. in_batch_negatives, for pairs and negatives: the texts of other rows "
        "are negatives. cosent: the order of scored pairs. cosine: their scores. "
        "triplet: a margin between positive and negative. labels: texts of one label "
        "are near. By default the first that fits the rows.",
    )
    flags.DEFINE_string(
        "teacher",
        None,
        "Directory of a model of vectors of texts. The model is trained to have its "
        "vectors, or, where they are longer or shorter, its cosines; rows may be texts "
        "alone.",
    )
    flags.DEFINE_integer(
        "rows_per_label",
        0,
        "For labelled texts: number of rows of one label, such as 2, that a batch has "
        "at least, where the label has so many; 0 for rows by chance.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "symmetric",
        False,
        "Also find the first text of each second one, for in_batch_negatives.",
    )
    for name, default, least, help_text in (
        ("scale", 20.0, 0, "Factor of cosines in the losses with a softmax."),
        ("triplet_margin", 0.5, 0, "Margin between distances of vectors of length 1."),
        ("largest_score", 1.0, 1e-6, "Score of the most similar pairs, for cosine."),
    ):
        command_line.define_float(name, default, help_text, lower_bound=least)
    flags.DEFINE_list(
        "matryoshka_dims",
        [],
        "Numbers of leading values, such as 384,128,64, with which vectors are "
        "trained to be useful, too.",
    )


def layout() -> tables.Layout:
    """The columns of a table, as the flags name them."""
    pair = FLAGS.text_b_column
    negatives = tuple(FLAGS.negative_columns)
    return tables.Layout(
        file_format=FLAGS.file_format,
        **table_flags.form(),
        text_a=FLAGS.text_a_column,
        usual_texts=corpora.USUAL_TEXTS,
        text_b=None if negatives else pair,
        label=FLAGS.label_column,
        choices=(pair, *negatives) if negatives else (),
    )


def check() -> None:
    """Raises ValueError for flags that contradict each other, or an odd encoding."""
    layout()
    command_line.refuse(
        (
            len({bool(FLAGS[flag].value) for flag in RETRIEVAL_FILES}) > 1,
            f"--{', --'.join(RETRIEVAL_FILES)} belong together; set all of them, or "
            "none",
        ),
        (
            FLAGS.corpus_file and FLAGS.dev_file,
            f"--dev_file={FLAGS.dev_file} beside --corpus_file={FLAGS.corpus_file}: "
            "an evaluation is on one of them; leave one out",
        ),
        (
            FLAGS.reranker and not FLAGS.corpus_file,
            f"--reranker={FLAGS.reranker} ranks passages; set --corpus_file, "
            "--queries_file and --judgements_file",
        ),
        search_flags.lacks_reranker(),
        (
            FLAGS.num_labelled and not (FLAGS.do_eval and FLAGS.train_file),
            f"--num_labelled={FLAGS.num_labelled} needs --do_eval, --dev_file and "
            "--train_file, of which rows are drawn; set them",
        ),
        (
            FLAGS.negative_columns and not FLAGS.text_b_column,
            "--negative_columns needs --text_b_column, the text that belongs to the "
            "first one; set it",
        ),
        (
            FLAGS.negative_columns and FLAGS.label_column,
            "--label_column is for pairs with scores and for single texts; leave it "
            "out beside --negative_columns",
        ),
    )
    command_line.numbers("matryoshka_dims", int)
    command_line.check_files(*RETRIEVAL_FILES)


def loss(kind: str) -> str:
    """The loss for rows of a kind; ValueError if a flag does not fit."""
    chosen = DISTILLATION if FLAGS.teacher else FLAGS.loss or LOSSES[kind][0]
    command_line.refuse(
        (
            FLAGS.teacher and FLAGS.loss,
            f"--loss={FLAGS.loss} beside --teacher={FLAGS.teacher}, whose vectors are "
            "the loss; leave one out",
        ),
        (
            chosen != DISTILLATION and chosen not in LOSSES[kind],
            f"--loss={chosen} is not for {kind} rows; choose "
            f"{' or '.join(LOSSES.get(kind, ()))}, or name other columns",
        ),
        *(
            (
                FLAGS[name].present and name not in READS[chosen],
                f"{FLAGS[name].serialize()} is for --loss="
                f"{' and '.join(loss for loss in READS if name in READS[loss])}; leave "
                "it out",
            )
            for name in sorted({*sum(READS.values(), ())})
        ),
    )
    return chosen


def dimensions(width: int) -> tuple[int, ...]:
    """The values of --matryoshka_dims and the width of a vector; () without them.

    Raises ValueError for a value beyond the width.
    """
    values = command_line.numbers("matryoshka_dims", int)
    for value in values:
        if not 1 <= value <= width:
            raise errors.InputError(
                f"--matryoshka_dims={','.join(FLAGS.matryoshka_dims)}: {value} is not "
                f"one of 1 to {width}, the values of a vector; give others"
            )
    return tuple(sorted({*values, width}, reverse=True)) if values else ()


def check_model(config: Any, vectors: Any) -> None:
    """Raises ValueError for a network or TextVectors that a flag does not fit."""
    others = {each.activation for each in vectors.projections} - _IN_ONNX
    command_line.refuse(
        (
            config.network not in ("bert", "gpt"),
            f"vectors of texts are trained of BERT and GPT, and this network is "
            f"{config.kind}; choose another model",
        ),
        (
            FLAGS.jit_compile == "true" or device_flags.is_tpu(),
            "losses that compare all rows of a batch are not compiled by XLA; leave "
            "out --jit_compile=true and --use_tpu",
        ),
        (
            FLAGS.export_format == "onnx" and (vectors.pooling == "last" or others),
            "--export_format=onnx has the poolings cls, mean and max, and projections "
            "with tanh, relu or no activation; leave it out: a SavedModel holds this "
            "model",
        ),
    )
