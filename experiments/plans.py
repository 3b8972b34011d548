"""Steps of each pretraining: all networks read as many tokens as the first.

Tokens of a step come from the report of a short run, which every command has before the
long work begins.
"""

import os
from collections.abc import Mapping

from contract import file_names, json_files
from experiments import commands

TRIAL_STEPS, TRIAL_EPOCHS = 24, 0.2


def tokens_per_step(directory: str) -> float:
    """Tokens that a step of a short run read, the same on any machine."""
    report = json_files.read_object(os.path.join(directory, file_names.REPORT_JSON))
    curves, batch = report["curves"], report["flags"]["train_batch_size"]
    examples = curves["train/examples_per_second"]
    tokens = curves["train/tokens_per_second"]
    read, steps = 0, 0
    for (step, example_rate), (_, token_rate) in zip(examples, tokens, strict=True):
        # A whole number, whatever the digits of a speed on this machine.
        read += round(batch * (step - steps) * token_rate / example_rate)
        steps = step
    return read / steps


def equal_steps(steps: int, networks: Mapping[str, float]) -> dict[str, int]:
    """{network: steps} that read as many tokens as so many steps of the first.

    Args:
        networks: {network: tokens of a step}. Steps are multiples of EVALUATIONS.
    """
    tokens = steps * next(iter(networks.values()))
    each = commands.EVALUATIONS
    return {
        name: max(each, round(tokens / per_step / each) * each)
        for name, per_step in networks.items()
    }
