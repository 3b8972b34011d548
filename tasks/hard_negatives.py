"""Hard negatives of pairs for training, by the model that is about to be trained."""

import dataclasses
import json
import os
from typing import Any

from contract import errors, file_names, remote_files, wording
from data_pipeline import findings
from data_pipeline.embedding import corpora, hard_negatives, search, split
from data_pipeline.tables import text_rows
from loading import model_directory
from modeling import text_encoder
from modeling.checkpoints import checkpoint, sentence_transformers
from tasks.settings import embedding
from training import inference, run_plan

_PAIR = ("anchor", "positive")


def add(
    settings: embedding.EmbeddingSettings,
    texts: split.TextSplit,
    opened: model_directory.ModelDirectory,
    kept: sentence_transformers.SentenceTransformer,
    plan: run_plan.Plan,
) -> tuple[split.TextSplit, dict[str, str]]:
    """Pairs with their negatives, and {name: text} of the file that holds them.

    A run that goes on has the negatives that it began with.

    Raises:
        InputError: the rows are no pairs, there are no weights to compare texts by, or
            the rows are too few.
    """
    count, path = settings.hard_negatives, opened.path
    if texts.kind != corpora.PAIRS:
        raise errors.InputError(
            f"--hard_negatives={count} is for pairs, and the rows of {texts.path} are "
            f"{texts.kind}; leave it out"
        )
    if not path:
        raise errors.InputError(
            f"--hard_negatives={count} compares texts by the model, which has no "
            "weights; set --pretrained"
        )
    pairs = texts.table.texts()
    negatives = _stored(settings, pairs) or _mined(settings, texts, opened, kept, plan)
    choices = [(b, *others) for (_, b), others in zip(pairs, negatives, strict=True)]
    before = kept.usual_prompts()
    with_negatives = split.load(
        "train",
        dataclasses.replace(texts.table, text_b=None, choices=choices),
        opened.tokenizer,
        settings.max_seq_length,
        prompts=(before["query"], before["passage"]),
        show=findings.show,
    )
    names = [*_PAIR, *(f"negative_{number + 1}" for number in range(count))]
    rows = [dict(zip(names, row, strict=True)) for row in with_negatives.table.texts()]
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    return with_negatives, {file_names.HARD_NEGATIVES: "".join(lines)}


def _stored(settings, pairs):
    """The negatives in the file of a run that goes on, if it is of these pairs."""
    path = os.path.join(settings.output_dir, file_names.HARD_NEGATIVES)
    if settings.overwrite_output_dir or not remote_files.exists(path):
        return None
    lines = text_rows.file_rows(path, "jsonl")
    rows = [tuple(row.values()) for _, row in lines if isinstance(row, dict)]
    is_same = [row[:2] for row in rows] == pairs
    has_count = {len(row) for row in rows} == {2 + settings.hard_negatives}
    return [row[2:] for row in rows] if is_same and has_count else None


def _mined(settings, texts, opened, kept, plan):
    with plan.strategy.scope(), checkpoint.drawing_after():
        model: Any = text_encoder.TextEncoder(opened.config, kept.text_vectors)
        model.build()
        report = checkpoint.load(model, opened.path)
    vectors = inference.predictor(plan, model)(texts.examples())["vectors"]
    negatives, by_chance = hard_negatives.mine(
        texts.table.texts(),
        search.normalize(vectors),
        settings.hard_negatives,
        margin=settings.negative_margin,
        seed=settings.seed,
    )
    count = wording.count(len(negatives) * settings.hard_negatives, "text")
    print(f"hard negatives: {count}, {by_chance} of them by chance; {report}")
    return negatives
