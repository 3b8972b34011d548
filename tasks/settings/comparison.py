"""Settings of the comparison of two runs."""

import dataclasses
from typing import ClassVar

from tasks.settings import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonSettings(fields.Settings):
    """Where the comparison goes."""

    program: ClassVar[str] = "compare_runs"
    takes_arguments: ClassVar[bool] = True

    output_file: str | None = fields.output(
        None, "Also write the comparison to this HTML file.", path=True
    )
