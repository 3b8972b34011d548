"""Settings of run_embedding.py: texts that belong together, losses, and vectors."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from contract import errors
from data_pipeline.embedding import corpora
from data_pipeline.tables import labelled
from tasks.settings import fields, fine_tuning, model, retrieval, tables, training

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
RETRIEVAL_FILES = ("corpus_file", "queries_file", "judgements_file")
_IN_ONNX = {"tanh", "relu", "linear"}  # activations
# The settings that each loss reads, in the order of its arguments in contrastive.py.
READS = {
    IN_BATCH: ("scale", "symmetric"),
    COSENT: ("scale",),
    COSINE: ("largest_score",),
    TRIPLET: ("triplet_margin",),
    LABELS: ("scale",),
    DISTILLATION: (),
}


def _retrieval(content: str) -> Any:
    help_text = f"For --do_eval, instead of dev rows: {content}"
    return fields.data(None, help_text, path=True, changes=fields.ANSWERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingSettings(
    retrieval.TextPooling,
    tables.Form,
    tables.Files,
    training.PackSequences,
    training.Evaluates,
    model.MaxSeqLength,
    fine_tuning.FineTuning,
):
    """Settings of run_embedding.py: texts, how they are compared, what a vector is."""

    program: ClassVar[str] = "run_embedding"

    text_a_column: str | None = tables.column("the first text, such as a query")
    text_b_column: str | None = tables.column(
        "the text that belongs to it, such as a passage"
    )
    label_column: str | None = tables.column(
        "the scores of pairs, or the labels of single texts", fields.NOTHING
    )
    negative_columns: Sequence[str] = fields.data(
        (),
        "Columns of texts that do not belong to the first text; --text_b_column "
        "must be set.",
        changes=fields.ANSWERS,
    )
    tfds_name: str | None = fields.data(
        None,
        "Data set of TensorFlow Datasets to read instead of files; --train_file "
        "and so on are then names of splits.",
        changes=fields.NOTHING,
        in_python=False,
    )
    data_dir: str | None = fields.data(
        None,
        "Data directory of TensorFlow Datasets.",
        path=True,
        changes=fields.NOTHING,
        in_python=False,
    )
    num_labelled: int = fields.evaluation(
        0,
        "Number of training rows for each label, drawn ten times, by whose vectors "
        "--do_eval scores a logistic regression and the nearest label; 0 for no "
        "such scores.",
        least=0,
        changes=fields.ANSWERS,
    )
    normalize: bool | None = fields.vectors(
        None,
        "Scale vectors to the length 1. By default as in the model, or true.",
        changes=fields.ANSWERS,
    )
    corpus_file: str | None = _retrieval(
        "passages, as BEIR's corpus.jsonl, or a TSV file of id and text."
    )
    queries_file: str | None = _retrieval("queries in the same form.")
    judgements_file: str | None = _retrieval(
        "TSV file of query-id, corpus-id and score: relevant passages."
    )
    query_prompt: str | None = retrieval.prompt("first text")
    passage_prompt: str | None = retrieval.prompt("other text")
    reranker: str | None = retrieval.reranker(
        "Evaluation and checkpoints",
        "With --corpus_file: directory of a classifier of pairs, or its export, which "
        "ranks the best 100 passages of each query once more, for further scores.",
    )
    reranker_label: str | None = retrieval.reranker_label("Evaluation and checkpoints")
    loss: str | None = fields.training(
        None,
        "Loss. in_batch_negatives, for pairs and negatives: the texts of other rows "
        "are negatives. cosent: the order of scored pairs. cosine: their scores. "
        "triplet: a margin between positive and negative. labels: texts of one label "
        "are near. By default the first that fits the rows.",
        choices=sorted({loss for losses in LOSSES.values() for loss in losses}),
        only_trains=True,
    )
    teacher: str | None = fields.training(
        None,
        "Directory of a model of vectors of texts. The model is trained to have its "
        "vectors, or, where they are longer or shorter, its cosines; rows may be texts "
        "alone.",
        path=True,
        changes=fields.NOTHING,
        only_trains=True,
    )
    rows_per_label: int = fields.training(
        0,
        "For labelled texts: number of rows of one label, such as 2, that a batch has "
        "at least, where the label has so many; 0 for rows by chance.",
        least=0,
        only_trains=True,
    )
    hard_negatives: int = fields.training(
        0,
        "For pairs: number of texts near to each first text, of the second texts of "
        "other rows, that the model finds before it is trained; they are negatives, "
        "and in hard_negatives.jsonl.",
        least=0,
        changes=fields.WEIGHTS,
        only_trains=True,
    )
    negative_margin: float = fields.training(
        0.05,
        "Share of the cosine of a pair by which the cosine of a hard negative is less; "
        "nearer texts may be right ones.",
        least=0,
        most=1,
        changes=fields.WEIGHTS,
        only_with={"hard_negatives": True},
    )
    symmetric: bool = fields.training(
        False, "Also find the first text of each second one, for in_batch_negatives."
    )
    matryoshka_dims: Sequence[str] = fields.training(
        (),
        "Numbers of leading values, such as 384,128,64, with which vectors are "
        "trained to be useful, too.",
    )
    scale: float = fields.training(
        20.0, "Factor of cosines in the losses with a softmax.", least=0
    )
    triplet_margin: float = fields.training(
        0.5, "Margin between distances of vectors of length 1.", least=0
    )
    largest_score: float = fields.training(
        1.0, "Score of the most similar pairs, for cosine.", least=1e-6
    )
    pack_sequences: bool = fields.again(training.PackSequences, "pack_sequences", True)

    def layout(self) -> labelled.Layout:
        """The columns of a table, as the settings name them."""
        pair = self.text_b_column
        negatives = tuple(self.negative_columns)
        return labelled.Layout(
            file_format=self.file_format,
            **self.form(),
            text_a=self.text_a_column,
            usual_texts=corpora.USUAL_TEXTS,
            text_b=None if negatives else pair,
            label=self.label_column,
            choices=(str(pair), *negatives) if negatives else (),
        )

    def check(self) -> None:
        """Refuses contradictions, and an odd encoding."""
        super().check()
        self.layout()
        errors.refuse(
            (
                len({bool(getattr(self, flag)) for flag in RETRIEVAL_FILES}) > 1,
                f"--{', --'.join(RETRIEVAL_FILES)} belong together; set all of them, "
                "or none",
            ),
            (
                self.corpus_file and self.dev_file,
                f"--dev_file={self.dev_file} beside --corpus_file={self.corpus_file}: "
                "an evaluation is on one of them; leave one out",
            ),
            (
                self.reranker and not self.corpus_file,
                f"--reranker={self.reranker} ranks passages; set --corpus_file, "
                "--queries_file and --judgements_file",
            ),
            (
                self.num_labelled and not (self.do_eval and self.train_file),
                f"--num_labelled={self.num_labelled} needs --do_eval, --dev_file and "
                "--train_file, of which rows are drawn; set them",
            ),
            (
                self.negative_columns and not self.text_b_column,
                "--negative_columns needs --text_b_column, the text that belongs to "
                "the first one; set it",
            ),
            (
                self.hard_negatives and (self.teacher or self.negative_columns),
                f"--hard_negatives={self.hard_negatives} is for pairs alone; leave it "
                "out beside --teacher and --negative_columns",
            ),
            (
                self.negative_columns and self.label_column,
                "--label_column is for pairs with scores and for single texts; leave "
                "it out beside --negative_columns",
            ),
        )
        self.numbers("matryoshka_dims", int)
        self.check_files(*RETRIEVAL_FILES)

    def chosen_loss(self, kind: str) -> str:
        """The loss for rows of a kind; refused if a setting does not fit."""
        chosen = DISTILLATION if self.teacher else self.loss or LOSSES[kind][0]
        errors.refuse(
            (
                self.teacher and self.loss,
                f"--loss={self.loss} beside --teacher={self.teacher}, whose vectors "
                "are the loss; leave one out",
            ),
            (
                chosen != DISTILLATION and chosen not in LOSSES[kind],
                f"--loss={chosen} is not for {kind} rows; choose "
                f"{' or '.join(LOSSES.get(kind, ()))}, or name other columns",
            ),
            *(
                (
                    name in self.given and name not in READS[chosen],
                    f"{self.typed(name)} is for --loss="
                    f"{' and '.join(loss for loss in READS if name in READS[loss])}; "
                    "leave it out",
                )
                for name in sorted({*sum(READS.values(), ())})
            ),
        )
        return chosen

    def dimensions(self, width: int) -> tuple[int, ...]:
        """The values of --matryoshka_dims and the width of a vector; () without them.

        Raises InputError for a value beyond the width.
        """
        values = self.numbers("matryoshka_dims", int)
        for value in values:
            if not 1 <= value <= width:
                raise errors.InputError(
                    f"--matryoshka_dims={','.join(self.matryoshka_dims)}: {value} is "
                    f"not one of 1 to {width}, the values of a vector; give others"
                )
        return tuple(sorted({*values, width}, reverse=True)) if values else ()

    def check_model(self, config: Any, vectors: Any) -> None:
        """Refuses a network or TextVectors that a setting does not fit."""
        others = {each.activation for each in vectors.projections} - _IN_ONNX
        errors.refuse(
            (
                not config.spec.text_vectors,
                f"vectors of texts are trained of BERT and GPT, and this network is "
                f"{config.kind}; choose another model",
            ),
            (
                self.jit_compile == "true" or self.is_tpu,
                "losses that compare all rows of a batch are not compiled by XLA; "
                "leave out --jit_compile=true and --use_tpu",
            ),
            (
                self.do_export
                and self.export_format == "onnx"
                and (vectors.pooling == "last" or others),
                "--export_format=onnx has the poolings cls, mean and max, and "
                "projections with tanh, relu or no activation; leave it out: a "
                "SavedModel holds this model",
            ),
        )
