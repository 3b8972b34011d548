"""What papers say of these systems, each beside what was found here."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments import scores, systems, tasks

# {system: {task: Score}} and {network: report of its pretraining}.
Found = Mapping[str, Mapping[str, scores.Score]]
Reports = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A claim, what was run for it, what came out, and what that means here."""

    claim: str
    source: str
    ran: str
    result: str
    verdict: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A claim that one system beats another, on average over tasks."""

    claim: str
    source: str
    worse: str
    better: str
    tasks: tuple[str, ...] | None = None  # None: all that both have

    def row(self, found: Found) -> Row | None:
        """None where the systems or tasks were left out."""
        both = [found.get(name, {}) for name in (self.worse, self.better)]
        wanted = self.tasks or tuple(tasks.TASKS)
        pairs = {
            name: (both[0][name], both[1][name])
            for name in wanted
            if all(name in scored for scored in both)
        }
        if not pairs:
            return None
        layered = {s.name: s for s in systems.layer_systems(num_layers=4)}
        known = {**systems.SYSTEMS, **layered}
        titles = f"{known[self.better].title} against {known[self.worse].title}"
        return _row(self.claim, self.source, titles, pairs)


# Where neither of two is above what an answer that reads nothing has.
UNLEARNED = "nothing is learned"

_BERT, _T5 = "Devlin et al. 2019", "Raffel et al. 2020"
COMPARISONS = (
    Comparison("Pretraining helps", f"{_BERT}, section 1", "random", "bert"),
    Comparison("NSP helps", f"{_BERT}, table 5", "no_nsp", "bert"),
    Comparison(
        *("NSP helps most with pairs of texts", f"{_BERT}, section 5.1"),
        *("no_nsp", "bert"),
        tasks=("stsb", "rte", "squad1"),
    ),
    Comparison(
        *("Both directions beat one", f"{_BERT}, table 5"), "left_to_right", "no_nsp"
    ),
    Comparison(
        "A BiLSTM on top of left to right helps where tokens count",
        f"{_BERT}, table 5: SQuAD 77.8 to 84.9",
        *("left_to_right", "left_to_right_bilstm", ("wnut17", "squad1")),
    ),
    Comparison(
        "A BiLSTM on top does not make up for one direction",
        f"{_BERT}, table 5",
        *("left_to_right_bilstm", "no_nsp"),
    ),
    Comparison("BERT beats GPT", f"{_BERT}, table 1", "gpt", "bert"),
    Comparison("GPT beats ELMo", f"{_BERT}, table 1", "elmo", "gpt"),
    Comparison(
        "Fine-tuning beats features of the same BERT, by a little",
        f"{_BERT}, table 7: 96.4 against 96.1",
        *("bert_features", "bert", (systems.FEATURE_TASK,)),
    ),
    Comparison(
        "SOP helps tasks more than NSP",
        "Lan et al. 2020, table 5: 80.1 against 79.2",
        *("bert", "order"),
    ),
    Comparison(
        "Masking whole words helps",
        "README of google-research/bert, May 2019",
        *("bert", "whole_word"),
    ),
    Comparison(
        "80/10/10 beats [MASK] alone, by very little, when fine-tuned",
        f"{_BERT}, table 8: 84.2 against 84.3, 95.4 against 94.9",
        *("masks_alone", "bert"),
    ),
    Comparison(
        "80/10/10 beats [MASK] alone for features",
        f"{_BERT}, table 8: 94.9 against 94.0",
        *("masks_alone_features", "bert_features", (systems.FEATURE_TASK,)),
    ),
    Comparison(
        "The second-to-last layer suits NER better than the last",
        f"{_BERT}, table 7: 95.6 against 94.9",
        *("layers_last", "layers_second_to_last", (systems.FEATURE_TASK,)),
    ),
    Comparison(
        "Four last layers end to end suit NER better than the embeddings",
        f"{_BERT}, table 7: 96.1 against 91.0",
        *("layers_embedding", "layers_concat_last_4", (systems.FEATURE_TASK,)),
    ),
    Comparison(
        "Spans that are left out teach more than single masks, by very little",
        f"{_T5}, tables 4 to 7, GLUE: 83.5 against 83.0, of both sides of a pair",
        *("no_nsp", "denoising"),
    ),
)


def rows(found: Found, reports: Reports, curves: Found) -> list[Row]:
    """A row for each claim that was run.

    Args:
        found: scores at the end of pretraining.
        reports: of the pretraining of each network.
        curves: {network: {str(step): Score}} of the task along the pretraining.
    """
    others: Sequence[Callable[[], Row | None]] = (
        lambda: _order_is_harder(reports),
        lambda: _slower_per_step(curves),
        lambda: _ahead_in_the_end(curves),
    )
    compared = [comparison.row(found) for comparison in COMPARISONS]
    return [row for row in [*compared, *(make() for make in others)] if row]


def interval(told: scores.Difference) -> str:
    """A difference of scores, as tables print it."""
    return f"{told.mean:+.1f} ({told.low:+.1f} to {told.high:+.1f})"


def verdict(told: scores.Difference) -> str:
    """What a claimed gain that was found to be so large means."""
    return {1: "seen", 0: "not decided", -1: "the opposite is seen"}[told.sign]


def _row(claim, source, ran, pairs, result="{}"):
    """Of {task: (worse, better)}, without tasks that neither of the two has learned."""
    learned = [
        name
        for name, pair in pairs.items()
        if any(scores.is_learned(score, tasks.TASKS[name].guessed) for score in pair)
    ]
    ran += _titles(": ", learned)
    ran += _titles("; neither has learned ", [n for n in pairs if n not in learned])
    if not learned:
        return Row(claim, source, ran, "", UNLEARNED)
    told = scores.difference([pairs[name] for name in learned])
    return Row(claim, source, ran, result.format(interval(told)), verdict(told))


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
    told = scores.share_difference(*shares)
    half = 0.5, math.inf  # of all pairs have either answer
    learned = any(scores.share_difference(half, share).sign > 0 for share in shares)
    order, following = (100 * share for share, _ in shares)
    return Row(
        "The order of two segments is harder to tell than whether one follows",
        "Lan et al. 2020, table 5: SOP 86.5, NSP 90.5",
        f"{shares[0][1]} held-out pairs each: SOP {order:.1f} %, NSP {following:.1f} %",
        interval(told),
        verdict(told) if learned else UNLEARNED,
    )


def _slower_per_step(curves):
    """At the first checkpoint masks are behind (BERT, appendix C.1)."""
    return _curve_row(
        curves,
        0,
        "Masked LM converges more slowly than left to right",
        *("left_to_right", "no_nsp"),
        behind=True,
    )


def _ahead_in_the_end(curves):
    return _curve_row(
        curves, -1, "Masked LM is ahead in the end", "left_to_right", "no_nsp"
    )


def _curve_row(curves, place, claim, worse, better, *, behind=False):
    if not {worse, better} <= set(curves):
        return None
    steps = sorted(set(curves[worse]) & set(curves[better]), key=int)
    if not steps:
        return None
    pair = curves[worse][steps[place]], curves[better][steps[place]]
    return _row(
        claim,
        f"{_BERT}, appendix C.1, figure 5",
        f"after {steps[place]} of {steps[-1]} steps",
        {systems.CURVE_TASK: pair[::-1] if behind else pair},
        result=f"{{}}, {'left to right' if behind else 'masked LM'} ahead",
    )
