"""Settings of records: the original's defaults, and how records are made."""

from tests import tiny

ORIGINAL = {
    **dict.fromkeys(("input_file", "output_file", "vocab_file")),
    **{"do_lower_case": True, "do_whole_word_mask": False, "max_seq_length": 128},
    **{"max_predictions_per_seq": 20, "random_seed": 12345, "dupe_factor": 10},
    **{"masked_lm_prob": 0.15, "short_seq_prob": 0.1},
}


def test_flags_of_the_original_have_their_defaults():
    defaults = tiny.flag_defaults("create_pretraining_data")
    assert {name: defaults[name] for name in ORIGINAL} == ORIGINAL
    for name, default in ORIGINAL.items():
        assert type(defaults[name]) is type(default)
