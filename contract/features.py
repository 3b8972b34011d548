"""Names and dtypes of features, as in the original's TFRecords: its shards load."""

from typing import Any, NamedTuple

import numpy as np

INPUT_IDS = "input_ids"
INPUT_MASK = "input_mask"
SEGMENT_IDS = "segment_ids"
LABEL_IDS = "label_ids"
UNIQUE_IDS = "unique_ids"
START_POSITIONS = "start_positions"
END_POSITIONS = "end_positions"
IS_IMPOSSIBLE = "is_impossible"
IS_REAL_EXAMPLE = "is_real_example"
# Distillation: the teacher's logits, and 1.0 where the row has a gold label, else 0.0.
TEACHER_LOGITS = "teacher_logits"
IS_LABELLED = "is_labelled"
# Outputs of a frozen network, float32 [B, S, K, W]: K states of each token or, with
# S = 1, of each text. A model whose features have them runs no network.
LAYER_STATES = "layer_states"
# Sequences that share rows: where each token of R rows is from, int32 [R, S], and
# where each sequence begins, int32 [B]; as in modeling/packed_rows.py.
PACKED_SOURCES = "packed_sources"
PACKED_STARTS = "packed_starts"
# Vectors of texts: int32 [B, G], equal where texts are.
TEXT_IDS = "text_ids"
# A teacher's vectors of the same texts, float32 [B, G, W].
TEACHER_VECTORS = "teacher_vectors"
MASKED_LM_POSITIONS = "masked_lm_positions"
MASKED_LM_IDS = "masked_lm_ids"
MASKED_LM_WEIGHTS = "masked_lm_weights"
# Of N masked tokens, laid end to end: their places in the flattened [B, P], int32 [N].
MASKED_LM_PLACES = "masked_lm_places"
NEXT_SENTENCE_LABELS = "next_sentence_labels"
# What a generator's tokens are drawn by, float32 [B, P] from 0 to below 1.
GENERATOR_DRAWS = "generator_draws"
# The biLM of ELMo. Distinct words of the batch, once: [U, 50] characters, or [U] ids
# + 1, with zeros to the end.
DISTINCT_WORDS = "distinct_words"
# Places of the words that are read in DISTINCT_WORDS, [B, T]; and the rows of the
# vocabulary that follow them, [B, T].
BILM_FEATURES = (
    "forward_words",
    "backward_words",
    "forward_targets",
    "backward_targets",
)
SAMPLING_SEED = "sampling_seed"  # [B, 2], equal rows
# A decoder, [B, T] each: the start token and the target but for its last token; 1
# where `labels` counts; the target with its end token, padded with 0.
DECODER_INPUT_IDS = "decoder_input_ids"
DECODER_MASK = "decoder_mask"
LABELS = "labels"


class DecoderTokens(NamedTuple):
    """Special ids of a decoder, as config.json calls them."""

    start: int  # decoder_start_token_id: read before the first token
    end: int  # eos_token_id: the last token of every target
    padding: int = 0  # pad_token_id: fills targets up

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "DecoderTokens":
        """[CLS], [SEP] and 0, for networks whose config has none."""
        return cls(tokenizer.start_id, tokenizer.end_id)


# Inputs of every encoder: int32 [B, S].
ENCODER_INPUTS = (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)
# Further inputs of an encoder-decoder, and its targets.
DECODER_INPUTS = (DECODER_INPUT_IDS, DECODER_MASK, LABELS)
INTEGER = np.int32
# The label id of a token that has no label.
IGNORED = -1
# The problem types of label_map.json with one right class of several: a softmax.
ONE_OF_SEVERAL = ("classification", "choice")
