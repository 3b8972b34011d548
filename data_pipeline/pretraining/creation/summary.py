"""The summary of creation: shares of the text and of its records, and warnings."""

from collections.abc import Mapping

from contract import errors
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.text import base
from data_pipeline.vocabularies import byte_ranges

_PRINTED = ("documents", "sentences", "words", "bytes", "tokens", "instances")
# Part and whole of each share.
_SHARES = {
    "random_next_share": ("random_next", "instances"),
    "used_token_share": ("used_tokens", "segment_tokens"),
    "unknown_token_share": ("unknown_tokens", "tokens"),
}
_LEAST_USED = 0.5
_RANDOM_NEXT = 0.3, 0.7  # next sentences; a half, save for where documents end
_FEW_INSTANCES = 20  # whose share of random next sentences is chance


def shares(job: creation_job.Job, totals: Mapping[str, int]) -> dict[str, float]:
    """The shares of a job, 0 to 1, that its objective and sentence task have."""
    is_next = job.settings.sentence_task == "next"
    return {
        name: totals[part] / totals[whole]
        for name, (part, whole) in _SHARES.items()
        if totals.get(whole) and (is_next or part != "random_next")
    }


def describe(job: creation_job.Job, totals: Mapping[str, int]) -> list[str]:
    """Lines `name = number` of counts and shares."""
    lines = [f"{name} = {totals[name]}" for name in _PRINTED if name in totals]
    return lines + [f"{name} = {s:.5f}" for name, s in shares(job, totals).items()]


def check(job: creation_job.Job, totals: Mapping[str, int]) -> None:
    """Refuses a text that is not UTF-8, or that the vocabulary does not spell."""
    files, lines = job.input_files, totals["lines"]
    byte_ranges.check_lines(files, lines, totals["invalid_lines"])
    unknown = shares(job, totals).get("unknown_token_share", 0)
    if unknown > base.UNKNOWN_REFUSED and job.refuses_unknown:
        raise errors.InputError(
            f"{unknown:.1%} of the tokens of --input_file are [UNK]; give a "
            "--vocab_file for this text (build_vocab.py), or --nocheck_tokenizer"
        )


def warnings(job: creation_job.Job, totals: Mapping[str, int]) -> list[str]:
    """Lines on what is unusual in the records of a job."""
    settings, share = job.settings, shares(job, totals)
    length, documents = settings.max_seq_length, totals["documents"]
    random, unknown = share.get("random_next_share"), share.get("unknown_token_share")
    least, most = _RANDOM_NEXT
    lines = [byte_ranges.check_lines((), totals["lines"], totals["invalid_lines"])]
    if random is not None:
        # A file without blank lines is cut into ranges, each of them a document.
        is_cut = totals["ranges"] > len(job.input_files)
        if documents == 1 or (is_cut and documents <= totals["ranges"]):
            lines.append(
                "no blank line separates documents, so random next sentences come from "
                "the same text; put one between documents, or set --sentence_task=none"
            )
        if not least <= random <= most and totals["instances"] >= _FEW_INSTANCES:
            lines.append(
                f"random_next_share={random:.3f} is far from a half; put a sentence a "
                "line, blank lines between documents alone, and see --max_seq_length"
            )
    if share.get("used_token_share", 1) < _LEAST_USED:
        lines.append(
            f"used_token_share={share['used_token_share']:.3f}: most of the text is cut"
            f" to --max_seq_length={length}; put a sentence a line, or raise it"
        )
    if unknown and unknown > base.UNKNOWN_WARNED:
        lines.append(
            f"unknown_token_share={unknown:.3f}: the vocabulary does not spell the "
            "text; give another --vocab_file, or make one with build_vocab.py"
        )
    return [line for line in lines if line]
