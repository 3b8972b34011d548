"""Settings of run_generation.py: what to write, how to draw, and what to score."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from contract import errors
from tasks.settings import devices, fields, model, sampling, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationSettings(
    sampling.Sampling, training.Exports, devices.OneDevice, model.Model
):
    """Prompts and draws, scores, and where results go."""

    program: ClassVar[str] = "run_generation"
    needs_weights: ClassVar[bool] = True

    output_dir: str | None = fields.again(training.Training, "output_dir", None)
    prompt: Sequence[str] = fields.data(
        (), "Prompt that a generated text continues", repeats=True
    )
    prompt_file: str | None = fields.data(
        None,
        "File with one prompt per line, or with objects with `prompt` if it ends in "
        ".jsonl; - is standard input. Without a prompt, a text begins with the "
        "end-of-text token.",
        path=True,
    )
    keep_end: bool = fields.data(
        False,
        "Keep the end of a prompt that is too long for the context of the network, "
        "instead of refusing it.",
    )
    batch_size: int = fields.data(
        8, "Number of texts to generate or score together.", least=1
    )
    num_samples: int = fields.text(
        1, "Number of texts to generate for each prompt.", least=1
    )
    max_new_tokens: int | None = fields.text(
        None,
        "Maximum number of tokens to generate per text. By default half of the "
        "context of the network or, without a prompt, all of it.",
        least=1,
    )
    released_top_p: bool = fields.text(
        False, "Leave out the token that reaches --top_p, as the release of GPT-2 does."
    )
    seed: int = fields.text(
        0,
        "Random seed; draws depend only on it and on the numbers of the prompt and of "
        "the text.",
        least=0,
        most=2**31 - 1,
    )
    stop: Sequence[str] = fields.text(
        (), "Stop sequence: a generated text ends before it", repeats=True
    )
    stop_at_end: bool = fields.text(
        True,
        "End a text at the end-of-text token; the release of GPT-2 continues after it.",
    )
    score_file: str | None = fields.scores(
        None, "File to score, instead of generating texts.", path=True
    )
    score_as: str = fields.scores(
        "texts",
        "texts: each line, or each `text` in a .jsonl file. document: the whole file "
        "as one text.",
        choices=("texts", "document"),
    )
    stride: int = fields.scores(
        0,
        "Stride in tokens between the windows of a long text; 0 for half of the "
        "context.",
        least=0,
        only_with={"score_file": True},
    )
    output_file: str | None = fields.output(
        None,
        "Output file: .jsonl for objects with texts or scores, or .txt for texts "
        "alone.",
        path=True,
    )

    def check(self) -> None:
        """Refuses contradictions, and files that are not there."""
        super().check()
        prompts, path = self.prompt or self.prompt_file, self.output_file
        endings = (".jsonl",) if self.score_file else (".jsonl", ".txt")
        errors.refuse(
            (
                self.score_file and prompts,
                "--score_file scores and --prompt writes texts; give one of them",
            ),
            (
                self.do_export and (self.score_file or prompts),
                "--do_export writes neither texts nor scores; leave out --prompt and "
                "--score_file",
            ),
            (
                "" in self.stop,
                "--stop is empty, so no text could begin; give one such as .",
            ),
            (
                self.do_export and not self.output_dir,
                "--do_export needs an --output_dir",
            ),
            (
                path and not path.endswith(endings),
                f"--output_file={path} ends in none of {', '.join(endings)}, which say "
                "what is written; rename it",
            ),
        )
        self.check_files("prompt_file", "score_file")

    def draws(self) -> dict[str, Any]:
        """How tokens are drawn, by the names of sampling.Sampling."""
        names = ("temperature", "top_k", "top_p", "released_top_p")
        return {name: getattr(self, name) for name in names}
