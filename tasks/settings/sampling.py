"""Settings of how tokens are drawn, of every command that draws some."""

import dataclasses

from contract import errors
from tasks.settings import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling(fields.Settings):
    """Temperature, and the tokens that are drawn from."""

    temperature: float = fields.text(
        1.0,
        "Divisor of the logits; 0 takes the most likely token at each step.",
        least=0,
        changes=fields.ANSWERS,
    )
    top_k: int = fields.text(
        0,
        "Draw from this many of the most likely tokens; 0 for all tokens.",
        least=0,
        changes=fields.ANSWERS,
    )
    top_p: float = fields.text(
        1.0,
        "Draw from the smallest set of most likely tokens with probabilities that add "
        "up to this value or more; 1 for all tokens.",
        least=0,
        most=1,
        changes=fields.ANSWERS,
    )

    def check(self) -> None:
        """Refuses a --top_p that leaves no token."""
        super().check()
        if self.top_p <= 0:
            raise errors.InputError(
                f"--top_p={self.top_p} is not above 0; give one such as 0.9"
            )
