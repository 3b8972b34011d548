"""The same run with several seeds, and a summary of their scores."""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from contract import atomic_files
from training.results import hparams, metrics

SUMMARY_FILE = "seeds.json"


def directory_of(seed: int, output_dir: str) -> str:
    """Where a run with one of several seeds writes."""
    return os.path.join(output_dir, f"seed-{seed}")


def run_all(
    run_once: Callable[[int, str], Mapping[str, float]],
    seeds: Sequence[int],
    output_dir: str,
    writes: bool = True,
    shows: bool = True,
) -> dict[str, dict[str, float]]:
    """Runs once with each seed, in its `directory_of`, and summarises the scores.

    BERT's fine-tuning scores vary with the seed by more than most changes do, so a
    score is a mean and a deviation: {score: {"mean": ..., "deviation": ...}}, also in
    seeds.json if this process `writes`. `run_once` maps seed and directory to scores.
    `shows` announces each run, and has TensorBoard compare them.
    """
    experiment = hparams.Experiment(output_dir, {"seed": seeds}, writes=writes)
    runs = {}
    for number, seed in enumerate(seeds, start=1):
        directory = directory_of(seed, output_dir)
        if shows:
            print(f"seeds: run {number} of {len(seeds)}: {directory}", flush=True)
        runs[seed] = dict(run_once(seed, directory))
        if shows:
            experiment.add(directory, {"seed": seed}, runs[seed])
    summary = metrics.summarize(list(runs.values()))
    record = {
        "seeds": {
            str(seed): {name: float(value) for name, value in scores.items()}
            for seed, scores in runs.items()
        },
        "summary": summary,
    }
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    if writes:
        atomic_files.write_text(os.path.join(output_dir, SUMMARY_FILE), text)
    print(f"over seeds {', '.join(map(str, seeds))}:")
    for name, values in summary.items():
        if name != "global_step":
            print(f"  {name} = {values['mean']:.4f} +- {values['deviation']:.4f}")
    return summary
