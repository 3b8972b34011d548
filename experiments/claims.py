"""Claims of papers about these systems, each beside the scores here."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from experiments import scores, systems, tasks

# {system: {task: Score}} and {network: report of its pretraining}.
SystemScores = Mapping[str, Mapping[str, scores.Score]]
Reports = Mapping[str, Mapping[str, Any]]


class Row(NamedTuple):
    """A claim, the runs behind it, their difference, and the meaning at this scale."""

    claim: str
    source: str
    ran: str
    result: str
    verdict: str


class Comparison(NamedTuple):
    """A claim that one system beats another, on average over tasks."""

    claim: str
    source: str
    worse: str
    better: str
    tasks: tuple[str, ...] = tuple(tasks.TASKS)

    def row(self, scored: SystemScores) -> Row | None:
        """None where the systems or tasks were left out."""
        worse, better = (scored.get(name, {}) for name in (self.worse, self.better))
        both = [name for name in self.tasks if name in worse and name in better]
        if not both:
            return None
        layered = systems.layer_systems(num_layers=4)
        titles = {s.name: s.title for s in (*systems.SYSTEMS.values(), *layered)}
        ran = f"{titles[self.better]} against {titles[self.worse]}"
        pairs = {name: (worse[name], better[name]) for name in both}
        return _row(self.claim, self.source, ran, pairs)


# By the sign of a difference; and where neither system is above the same answer to all
# rows.
_VERDICTS = {1: "seen", 0: "not decided", -1: "the opposite is seen"}
UNLEARNED = "nothing is learned"

_BERT, _T5 = "Devlin et al. 2019", "Raffel et al. 2020"
_TABLE_1, _TABLE_5, _TABLE_7, _TABLE_8 = (f"{_BERT}, table {n}" for n in (1, 5, 7, 8))
_FEATURE = (systems.FEATURE_TASK,)
COMPARISONS = (
    Comparison("Pretraining helps", f"{_BERT}, section 1", "random", "bert"),
    Comparison("NSP helps", _TABLE_5, "no_nsp", "bert"),
    Comparison(
        "NSP helps most with pairs of texts",
        f"{_BERT}, section 5.1",
        "no_nsp",
        "bert",
        ("stsb", "rte", "squad1"),
    ),
    Comparison("Both directions beat one", _TABLE_5, "left_to_right", "no_nsp"),
    Comparison(
        "A BiLSTM on top of left to right helps where tokens count",
        f"{_TABLE_5}: SQuAD 77.8 to 84.9",
        "left_to_right",
        "left_to_right_bilstm",
        ("wnut17", "squad1"),
    ),
    Comparison(
        "A BiLSTM on top does not make up for one direction",
        _TABLE_5,
        worse="left_to_right_bilstm",
        better="no_nsp",
    ),
    Comparison("BERT beats GPT", _TABLE_1, "gpt", "bert"),
    Comparison("GPT beats ELMo", _TABLE_1, "elmo", "gpt"),
    Comparison(
        "Fine-tuning beats features of the same BERT, by a little",
        f"{_TABLE_7}: 96.4 against 96.1",
        "bert_features",
        "bert",
        _FEATURE,
    ),
    Comparison(
        "SOP helps tasks more than NSP",
        "Lan et al. 2020, table 5: 80.1 against 79.2",
        "bert",
        "order",
    ),
    Comparison(
        "Masking whole words helps",
        "README of google-research/bert, May 2019",
        "bert",
        "whole_word",
    ),
    Comparison(
        "80/10/10 beats [MASK] alone, by very little, when fine-tuned",
        f"{_TABLE_8}: 84.2 against 84.3, 95.4 against 94.9",
        "masks_alone",
        "bert",
    ),
    Comparison(
        "80/10/10 beats [MASK] alone for features",
        f"{_TABLE_8}: 94.9 against 94.0",
        "masks_alone_features",
        "bert_features",
        _FEATURE,
    ),
    Comparison(
        "The second-to-last layer suits NER better than the last",
        f"{_TABLE_7}: 95.6 against 94.9",
        "layers_last",
        "layers_second_to_last",
        _FEATURE,
    ),
    Comparison(
        "Four last layers end to end suit NER better than the embeddings",
        f"{_TABLE_7}: 96.1 against 91.0",
        "layers_embedding",
        "layers_concat_last_4",
        _FEATURE,
    ),
    Comparison(
        "Spans that are left out teach more than single masks, by very little",
        f"{_T5}, tables 4 to 7, GLUE: 83.5 against 83.0, of both sides of a pair",
        "no_nsp",
        "denoising",
    ),
)


def rows(scored: SystemScores, reports: Reports, curves: SystemScores) -> list[Row]:
    """A row for each claim that was run.

    Args:
        scored: scores at the end of pretraining.
        reports: of the pretraining of each network.
        curves: {network: {str(step): Score}} of the task along the pretraining.
    """
    first = "Masked LM converges more slowly than left to right"
    last = "Masked LM is ahead in the end"
    all_rows = [
        *(comparison.row(scored) for comparison in COMPARISONS),
        _order_is_harder(reports),
        _curve_row(curves, 0, first, worse="no_nsp", better="left_to_right"),
        _curve_row(curves, -1, last, worse="left_to_right", better="no_nsp"),
    ]
    return [row for row in all_rows if row]


def _row(claim, source, ran, pairs, result="{}"):
    """A row of {task: (worse, better)}, without tasks that neither has learned."""
    learned = [
        name
        for name, pair in pairs.items()
        if any(scores.is_learned(score, tasks.TASKS[name].guessed) for score in pair)
    ]
    ran += _titles(": ", learned)
    ran += _titles("; neither has learned ", [n for n in pairs if n not in learned])
    if not learned:
        return Row(claim, source, ran, "", UNLEARNED)
    gain = scores.difference([pairs[name] for name in learned])
    return Row(claim, source, ran, result.format(gain), _VERDICTS[gain.sign])


def _titles(before, names):
    titles = ", ".join(tasks.TASKS[name].title for name in names)
    return before + titles if titles else ""


def _order_is_harder(reports):
    """Held-out accuracy of SOP below that of NSP (ALBERT, section 4.6)."""
    if not {"bert", "order"} <= set(reports):
        return None
    shares = []
    for name in ("order", "bert"):
        results, flags = reports[name]["results"], reports[name]["flags"]
        records = flags["max_eval_steps"] * flags["eval_batch_size"]
        shares.append((results["next_sentence_accuracy"], records))
    gain = scores.share_difference(*shares)
    half = 0.5, math.inf  # of all pairs have either answer
    learned = any(scores.share_difference(half, share).sign > 0 for share in shares)
    order, following = (100 * share for share, _ in shares)
    return Row(
        "The order of two segments is harder to tell than whether one follows",
        "Lan et al. 2020, table 5: SOP 86.5, NSP 90.5",
        f"{shares[0][1]} held-out pairs each: SOP {order:.1f} %, NSP {following:.1f} %",
        str(gain),
        _VERDICTS[gain.sign] if learned else UNLEARNED,
    )


def _curve_row(curves, place, claim, *, worse, better):
    """A claim about one checkpoint along the pretraining (BERT, appendix C.1)."""
    steps = sorted({*curves.get(worse, ())} & {*curves.get(better, ())}, key=int)
    if not steps:
        return None
    step = steps[place]
    ahead = "masked LM" if better == "no_nsp" else "left to right"
    return _row(
        claim,
        f"{_BERT}, appendix C.1, figure 5",
        f"after {step} of {steps[-1]} steps",
        {systems.CURVE_TASK: (curves[worse][step], curves[better][step])},
        result=f"{{}}, {ahead} ahead",
    )
