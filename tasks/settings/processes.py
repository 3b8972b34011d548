"""Settings of where work runs, and of output in shards that a killed command keeps."""

import dataclasses
from collections.abc import Sequence

from contract import errors
from tasks.settings import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine(fields.Settings):
    """This machine, or a runner of Apache Beam."""

    engine: str = fields.processes(
        "local",
        "Run on this machine, or with a runner of Apache Beam.",
        choices=["local", "beam"],
    )
    beam_option: Sequence[str] = fields.processes(
        (), "Option for Apache Beam, such as --runner=DataflowRunner", repeats=True
    )

    def check(self) -> None:
        """Refuses options without their engine."""
        super().check()
        if self.beam_option and self.engine != "beam":
            raise errors.InputError(
                f"{self.typed('beam_option')} is for --engine=beam; add it, or leave "
                "it out"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards(Engine):
    """Output in several files, each of some lines of the input."""

    input_file: str | None = None  # of the commands
    output_file: str | None = None
    lines_per_shard: int = fields.output(
        0,
        "Number of lines of --input_file for each output file, such as "
        "NAME-00000-of-00062.jsonl; 0 for one file. Files that are there are kept.",
        least=0,
    )

    def check(self) -> None:
        """Refuses shards without a name, or an engine without shards."""
        super().check()
        output, count = self.output_file, self.lines_per_shard
        errors.refuse(
            (
                count and output and output.endswith("/"),
                f"--output_file={output} is a directory; name the file in it, after "
                "which shards are called",
            ),
            (
                self.engine == "beam" and not count,
                "--engine=beam computes shards, and --lines_per_shard is 0; add "
                "--lines_per_shard=16384, for example",
            ),
            (
                count and (not output or self.input_file in (None, "-")),
                f"{self.typed('lines_per_shard')} needs an --input_file to read twice, "
                "and an --output_file to name its shards after; give both",
            ),
        )
