"""Settings of run_tagger.py: words and tags, and how long sentences are cut."""

import dataclasses
from typing import Any, ClassVar

from tasks.settings import fields, fine_tuning, head, model, tables, training

_FILE = "CoNLL, seq.in or JSONL file with the {} set."


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggerSettings(
    tables.Files,
    head.Head,
    training.LabelSmoothing,
    training.PackSequences,
    training.Evaluates,
    model.MaxSeqLength,
    fine_tuning.FineTuning,
):
    """Settings of run_tagger.py: words and tags, and how long sentences are cut."""

    program: ClassVar[str] = "run_tagger"

    train_file: str | None = tables.split_file(_FILE.format("train"))
    dev_file: str | None = tables.split_file(_FILE.format("dev"))
    test_file: str | None = tables.split_file(_FILE.format("test"))
    file_format: str = fields.data(
        "auto",
        "Format of the files; auto detects it from the file name or the first line. "
        "cluener: as CLUENER2020, a tag for each character.",
        choices=["auto", "conll", "seq", "jsonl", "cluener"],
        changes=fields.ANSWERS,
    )
    word_column: int = fields.data(
        0,
        "Column of the words, counted from 0; negative numbers count from the end.",
        changes=fields.ANSWERS,
    )
    tag_column: int = fields.data(
        -1,
        "Column of the tags, counted from 0; negative numbers count from the end.",
        changes=fields.NOTHING,
    )
    labels: str | None = fields.data(
        None,
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line.",
        path=True,
        changes=fields.NOTHING,
    )
    tag_scheme: str = fields.data(
        "auto",
        "Scheme of the tags in the files; auto detects it. BIO also reads IOB1.",
        choices=["auto", "BIO", "BIOES", "BILOU", "BMES", "plain"],
    )
    accept_unknown_tags: bool = fields.data(
        False,
        "Score dev and test rows with tags that are not in the training set, instead "
        "of refusing them. Each such tag counts as wrong, because it cannot be "
        "predicted.",
        changes=fields.NOTHING,
    )
    window_stride: int = fields.data(
        0,
        "Stride in tokens between the windows of a long sentence; 0 for half a window.",
        least=0,
    )
    document_context: bool = fields.data(
        False, "Fill each window with the sentences around it, up to --max_seq_length."
    )

    def layout(self) -> dict[str, Any]:
        """How files hold words and tags, by the names of the fields."""
        names = ("file_format", "word_column", "tag_column")
        return {name: getattr(self, name) for name in names}

    def limits(self) -> dict[str, Any]:
        """How long sentences are cut, in tokens."""
        return {"max_seq_length": self.max_seq_length, "stride": self.window_stride}

    def sentence_files(self) -> dict[str, Any]:
        """The files that the run needs; refused where one is not set."""
        return self.paths(self.wanted_splits, "sentences")

    def check(self) -> None:
        """Refuses a split without a file."""
        super().check()
        self.sentence_files()
