"""Scores of sentences, and which of two a network finds likelier."""

import functools
import json
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from contract import atomic_files, errors, wording
from data_pipeline.generation import minimal_pairs, sentence_scores
from data_pipeline.tables import file_patterns, text_rows
from modeling.checkpoints import checkpoint, conversion
from modeling.generation import scoring
from tasks import device_setup, networks
from tasks.settings.sentence_scores import SentenceScoresSettings
from terminal import progress


def run(settings: SentenceScoresSettings) -> None:
    """What score_sentences.py does."""
    device_setup.check_gpu(settings)
    files = file_patterns.find(
        settings.input_file, flag="input_file", wanted="files of sentences"
    )
    path = settings.output_file
    for file in files:
        file_patterns.refuse_overwriting(path, input_file=file)
    pairs, texts = [], []
    if settings.pairs != "none":
        pairs = minimal_pairs.read(files, settings.pairs)
        texts = [(text, each.place) for each in pairs for text in (each.good, each.bad)]
    else:
        texts = read(files)
    if path:
        atomic_files.check_writable(path)
    opened = networks.open_for_task(settings, for_tasks=False)
    scorer = make_scorer(settings, opened)
    cut = scorer.cut(texts)
    track = functools.partial(progress.track, name="scoring: sentence")
    values = scorer(cut, open_network(settings, opened), track)
    totals = sentence_scores.totals(values, settings.mean).tolist()
    if pairs:
        scores = zip(totals[::2], totals[1::2], strict=True)
        both = list(zip(pairs, scores, strict=True))
        _print_accuracies(pairs, both)
        lines = _of_pairs(both)
    else:
        print(f"num_sentences = {len(texts)}")
        print(f"mean_score = {np.mean(totals)}")
        spelled = map(opened.tokenizer.ids_to_tokens, cut)
        lines = _of_texts(texts, spelled, values, totals)
    if path:
        atomic_files.write({path: lines})
        print(f"scores: {path}")


def read(files: Sequence[str]) -> list[tuple[str, str]]:
    """(sentence, place) of all files; blank lines are no sentences."""
    texts = [
        (text, place)
        for path in files
        for text, place in text_rows.texts(path, ("text",))
        if text.strip()
    ]
    if not texts:
        raise errors.InputError(
            f"{wording.listing(files)}: no sentence; give one a line"
        )
    return texts


def make_scorer(
    settings: SentenceScoresSettings, opened: Any
) -> sentence_scores.Scorer:
    """How the network of a directory reads sentences."""
    config, path = opened.config, opened.files.config_file
    is_causal = config.is_left_to_right
    if not is_causal and "masked_lm" not in config.spec.objectives:
        raise errors.InputError(
            f"{path}: a {config.kind} predicts no tokens of a sentence; give a network "
            "that fills masks, or a GPT"
        )
    return sentence_scores.Scorer(
        opened.tokenizer,
        config.max_position_embeddings,
        is_causal,
        settings.masking,
        settings.batch_size,
    )


def open_network(
    settings: SentenceScoresSettings, opened: Any
) -> sentence_scores.Score:
    """The network with its weights, as a function of a batch."""
    keras.config.set_dtype_policy(settings.dtype_policy)
    is_causal = opened.config.is_left_to_right
    head = "language_model" if is_causal else "pretraining"
    try:
        opened.find_head(head)
    except errors.InputError as error:
        raise errors.InputError(
            f"{opened.path}: has no head that predicts tokens; give a network as it "
            "was pretrained"
        ) from error
    built = opened.build(head)
    missing = built.report.missing
    random = conversion.copy_needed(built.model, missing)
    if needed := [name for name in random if name in missing]:
        lacks = checkpoint.lacks(built.report.source, needed)
        raise errors.InputError(f"{lacks}; give one that was pretrained")
    print(f"weights: {built.report}")
    return scoring.make_token_scorer(built.model)


def _of_texts(texts, spelled, values, totals):
    """A line for each sentence."""
    rows = zip(texts, spelled, values, totals, strict=True)
    for (text, place), tokens, scores, total in rows:
        row = {"text": text, "place": place, "score": total}
        row["tokens"] = tokens[len(tokens) - len(scores) :]
        row["score_of_each_token"] = [round(float(value), 6) for value in scores]
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _print_accuracies(pairs, both):
    results = [(pair.paradigm, good > bad) for pair, (good, bad) in both]
    table = minimal_pairs.accuracies(results)
    rows = [["paradigm", "pairs", "accuracy"]]
    rows += [[name, str(n), wording.score(share)] for name, (share, n) in table.items()]
    print("\n".join(wording.columns(rows)))
    print(f"num_pairs = {len(pairs)}")
    print(f"accuracy = {np.mean([is_right for _, is_right in results])}")


def _of_pairs(both):
    """A line for each pair."""
    for pair, (good, bad) in both:
        row = {"paradigm": pair.paradigm, "place": pair.place}
        row |= {"sentence_good": pair.good, "sentence_bad": pair.bad}
        row |= {"score_good": good, "score_bad": bad, "is_right": good > bad}
        yield json.dumps(row, ensure_ascii=False) + "\n"
