"""Settings of an index of texts, and of queries to it."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from contract import errors
from tasks.settings import fields, retrieval
from tasks.settings import server as server_settings

_OF_BUILDS = {"input_file": True, "add": False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings(server_settings.Server, retrieval.TextPooling):
    """An index of texts, and queries to it."""

    program: ClassVar[str] = "run_search"
    takes_arguments: ClassVar[bool] = True

    pretrained: str | None = fields.model(
        None,
        "Directory of a model of vectors of texts, or of a BERT; its id on the "
        "Hugging Face hub. By default, for queries, that of the index.",
        path=True,
    )
    export_dir: str | None = fields.model(
        None, "Export of run_embedding.py, in place of a model.", path=True
    )
    index_dir: str | None = fields.data(None, "Directory of the index.", path=True)
    input_file: str | None = fields.data(
        None, "Texts to build the index of, plain or .gz.", path=True
    )
    add: bool = fields.data(
        False, "Add the texts of --input_file to an index that is there."
    )
    replace: bool = fields.data(
        False,
        "Of --add: replace other texts that have the same ids.",
        only_with={"add": True},
    )
    remove: Sequence[str] = fields.data(
        (), "Id of a text to remove from the index, once for each", repeats=True
    )
    queries_file: str | None = fields.data(
        None, "File with a query on each line, or JSONL.", path=True
    )
    max_seq_length: int | None = fields.data(
        None,
        "Maximum number of tokens of a text, including [CLS] and [SEP]; longer "
        "texts are truncated. By default that of the model.",
        least=4,
        only_with=_OF_BUILDS,
    )
    passage_tokens: int | None = fields.data(
        None,
        "Cut texts into passages of at most this many tokens, which are searched "
        "in place of whole texts.",
        least=1,
        only_with=_OF_BUILDS,
    )
    passage_stride: int | None = fields.data(
        None,
        "Stride in tokens between passages of a text; by default --passage_tokens, "
        "so that none overlap.",
        least=1,
        only_with={"passage_tokens": True, **_OF_BUILDS},
    )
    quantization: str = fields.vectors(
        "none",
        "Numbers that are searched: float32, or int8, a quarter of the size. The "
        "best by int8 are ranked by float32.",
        choices=["none", "int8"],
        only_with=_OF_BUILDS,
    )
    approximate: bool = fields.vectors(
        False,
        "Build a graph of the vectors, and search it instead of all vectors; needs "
        "faiss-cpu.",
    )
    top_k: int = fields.answers(5, "Texts to print for a query.", least=1)
    num_candidates: int | None = fields.answers(
        None,
        "Texts that --reranker ranks for a query; by default 5 * --top_k, at most "
        "100, and at least --top_k.",
        least=1,
        only_with={"reranker": True},
    )
    json: bool = fields.answers(False, "Print one JSON object for a query.")
    query_prompt: str | None = retrieval.prompt(
        "query of a build", only_with=_OF_BUILDS
    )
    passage_prompt: str | None = retrieval.prompt(
        "text of the index", only_with=_OF_BUILDS
    )
    reranker: str | None = retrieval.reranker(
        "Answers",
        "Directory of a classifier of pairs, or its export, which ranks the best "
        "--num_candidates texts of a query once more.",
    )
    reranker_label: str | None = retrieval.reranker_label("Answers")

    def check(self) -> None:
        """Refuses contradictions, and files that are not there."""
        super().check()
        errors.refuse(
            (
                not self.index_dir,
                "--index_dir is missing; name the directory of the index",
            ),
            (
                self.pretrained and self.export_dir,
                "--pretrained and --export_dir are both set; leave out one of them",
            ),
            (
                self.add and not self.input_file,
                "--input_file is missing; --add takes the texts of it",
            ),
            (
                self.input_file
                and not (self.add or self.pretrained or self.export_dir),
                "--pretrained is missing; set it to the directory of a model, or set "
                "--export_dir to an export",
            ),
            *(
                (
                    self.export_dir and getattr(self, name),
                    f"--{name}={getattr(self, name)} is not for an export, which has "
                    "one; leave it out",
                )
                for name in ("pooling", "max_seq_length")
            ),
            (
                self.remove and self.input_file and not self.add,
                "--remove is for an index that is there; leave it out, or set --add",
            ),
            (
                self.add and self.approximate,
                "--approximate is for a build or for queries; leave it or --add out",
            ),
            (
                not self.serve and (self.num_candidates or self.top_k) < self.top_k,
                f"--num_candidates={self.num_candidates} is below "
                f"--top_k={self.top_k}; raise it, or lower --top_k",
            ),
        )
        self.check_files("input_file", "queries_file")
