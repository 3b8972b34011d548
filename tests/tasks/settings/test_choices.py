"""Choices and defaults that are written twice: importing the code takes seconds."""

import dataclasses

import pytest

from data_pipeline.classification import labels
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import denoising_batches, masking, metadata
from data_pipeline.pretraining.creation import sentence_pairs
from data_pipeline.squad import choice
from data_pipeline.tagging import files, schemes
from data_pipeline.vocabularies import learn_wordpiece
from modeling import pretrainers
from modeling.checkpoints import conversion
from modeling.features import head_config, layer_choices, vectors
from tasks.settings import fields, head
from tests import tiny

CHOICES = {
    "convert_checkpoint": {
        "to": conversion.FORMATS,
        "head": ("auto", *pretrainers.HEADS),
    },
    "create_pretraining_data": {
        "masking": (*masking.GROUP_LENGTHS, metadata.UNMASKED),
        "sentence_task": sentence_pairs.SENTENCE_TASKS,
        "objective": (metadata.MASKED_LM, metadata.LEFT_TO_RIGHT),
        "document_end": (metadata.BLANK_LINE, metadata.FILE),
    },
    "extract_features": {
        "combine": (vectors.SEPARATE, *layer_choices.COMBINATIONS),
        "output_format": vector_files.FORMATS,
    },
    "run_classifier": {
        # The columns or the task of a choice say that it is one.
        "problem_type": [kind for kind in labels.PROBLEM_TYPES if kind != "choice"],
        "layer_mix": (*layer_choices.COMBINATIONS, head_config.LEARNED),
        "head": head_config.HEADS,
    },
    "run_pretraining": {
        "masking": masking.GROUP_LENGTHS,
        "corruption": denoising_batches.NOISE_DENSITY,
    },
    "run_squad": {"answer_aligner": choice.ALIGNERS},
    "run_embedding": {"pooling": vectors.TEXT_POOLINGS},
    "run_tagger": {
        "file_format": ("auto", *files.FORMATS),
        "tag_scheme": ("auto", *schemes.SCHEMES),
    },
}


@pytest.mark.parametrize(
    ("program", "name"), [(p, name) for p, names in CHOICES.items() for name in names]
)
def test_choices_are_those_of_the_code(program, name):
    row = fields.rows(tiny.settings_class(program))[name]
    assert list(row.rules.choices) == list(CHOICES[program][name])


def test_defaults_are_those_of_the_code():
    defaults = tiny.flag_defaults("run_tagger")
    original = {name: defaults[name] for name in fields.rows(head.HeadChoice)}
    others = {"joins_pairs": False, "pooling": "", "is_normalized": False}
    assert {**original, **others} == dataclasses.asdict(head_config.ORIGINAL)
    for program in ("create_pretraining_data", "run_pretraining"):
        shares = tiny.flag_defaults(program)["mask_proportions"]
        assert shares == masking.PROPORTIONS == (0.8, 0.1, 0.1)
    default = tiny.flag_defaults("build_vocab")["num_unused_tokens"]
    assert default == learn_wordpiece.UNUSED_BEFORE_UNK
