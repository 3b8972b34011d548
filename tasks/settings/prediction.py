"""Settings of who answers texts by an export: on the screen, in files, over HTTP."""

import dataclasses
import os
from typing import ClassVar

from contract import errors, tf_serving
from tasks.settings import fields, processes
from tasks.settings import server as server_settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionSettings(server_settings.Server, processes.Shards):
    """An export, its texts, and where answers go."""

    program: ClassVar[str] = "run_predictor"
    takes_arguments: ClassVar[bool] = True

    export_dir: str | None = fields.model(
        None,
        "Directory of an exported version, or the directory of all versions.",
        path=True,
    )
    signature: str = fields.model(
        tf_serving.DEFAULT_SIGNATURE,
        "Signature of the model to call; it must take texts.",
    )
    input_file: str | None = fields.data(
        None, "File with one example per line; - is standard input.", path=True
    )
    input_format: str = fields.data(
        "jsonl",
        "jsonl: an object with the texts by name, or a string for a single text. "
        "lines: plain text, with a tab between the texts of a pair.",
        choices=["jsonl", "lines"],
    )
    json: bool = fields.output(False, "Print one JSON object per line.")
    output_file: str | None = fields.output(
        None,
        "File for the predictions of --input_file, one JSON object per line. The "
        "default is standard output.",
        path=True,
        only_with={"input_file": True},
    )
    model_name: str = fields.server("default", "Name of the model in URLs.")

    def check(self) -> None:
        """Refuses a place that is not there."""
        path = self.export_dir or ""
        errors.refuse(
            (
                path and "://" not in path and not os.path.isdir(path),
                f"--export_dir={path}: no SavedModel there; train with --do_export "
                "first, and give OUTPUT_DIR/export, export_litert or export_onnx",
            ),
        )
        super().check()
        if self.serve and self.input_file:
            raise errors.InputError("give --serve or --input_file, not both")
        self.check_files("input_file")
