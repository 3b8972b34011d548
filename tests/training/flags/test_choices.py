"""The choices of flags are those of the code, which flags may not import.

Importing it takes seconds, and --help waits for nothing.
"""

import dataclasses

import pytest
from absl import flags

from cli import feature_flags, pretraining_flags, run_flags
from data_pipeline.classification import labels
from data_pipeline.extraction import attention
from data_pipeline.extraction import vectors as vector_files
from data_pipeline.pretraining import masking, metadata
from data_pipeline.pretraining.creation import sentence_pairs
from data_pipeline.pretraining.denoising import corruptions
from data_pipeline.squad import choice
from data_pipeline.tables import text_rows
from data_pipeline.tagging import files, schemes
from data_pipeline.vocabularies import learn_wordpiece
from modeling import pretrainers
from modeling.checkpoints import conversion
from modeling.features import head_config, layer_choices, vectors
from tests import tiny
from training.optimization import schedule

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
        "pooling": vectors.POOLINGS,
        "output_format": (*vector_files.FORMATS, *attention.PICTURES),
    },
    "run_classifier": {
        # A choice is told by its columns or its task.
        "problem_type": [kind for kind in labels.PROBLEM_TYPES if kind != "choice"],
        "optimizer": run_flags._OPTIMIZERS,
        "learning_rate_schedule": schedule.SCHEDULES,
        "layer_mix": (*layer_choices.COMBINATIONS, head_config.LEARNED),
        "head": head_config.HEADS,
    },
    "run_pretraining": {
        "masking": masking.GROUP_LENGTHS,
        "objective": (
            *(metadata.MASKED_LM, metadata.LEFT_TO_RIGHT),
            *(pretraining_flags.BIDIRECTIONAL_LM, pretraining_flags.DENOISING),
        ),
        "corruption": corruptions.CORRUPTIONS,
    },
    "run_seq2seq": {"file_format": ("auto", *text_rows.FORMATS)},
    "run_squad": {"answer_aligner": choice.ALIGNERS},
    "run_tagger": {
        "file_format": ("auto", *files.FORMATS),
        "tag_scheme": ("auto", *schemes.SCHEMES),
    },
}


@pytest.mark.parametrize("script", CHOICES)
def test_choices_are_those_of_the_code(script):
    with tiny.flags_of(script):
        found = {
            name: list(flags.FLAGS[name].parser.enum_values) for name in CHOICES[script]
        }
    assert found == {name: list(known) for name, known in CHOICES[script].items()}


def test_defaults_read_a_network_as_the_original_does():
    with tiny.flags_of("run_tagger"):
        found = {name: flags.FLAGS[name].default for name in feature_flags.NAMES}
    assert {**found, "joins_pairs": False} == dataclasses.asdict(head_config.ORIGINAL)


@pytest.mark.parametrize("script", ["create_pretraining_data", "run_pretraining"])
def test_masks_have_the_original_proportions_by_default(script):
    with tiny.flags_of(script):
        found = flags.FLAGS["mask_proportions"].default
    assert found == masking.PROPORTIONS == (0.8, 0.1, 0.1)


def test_unused_entries_are_as_many_as_in_released_vocabularies():
    with tiny.flags_of("build_vocab"):
        default = flags.FLAGS["num_unused_tokens"].default
    assert default == learn_wordpiece.UNUSED_BEFORE_UNK
