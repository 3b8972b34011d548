"""Flags of pretraining: how records are made, for how long they are trained on."""

import dataclasses
from typing import Any

from absl import flags

from cli import command_line, device_flags, model_flags, training_flags
from contract import errors

FLAGS = flags.FLAGS
BIDIRECTIONAL_LM, DENOISING = "bidirectional_lm", "denoising"
REPLACED = "replaced_tokens"
_MOST_EVALUATED = 1 << 16  # records of a batch that may be more than there are
_OF_STREAMS = ("unroll_steps", "sample_softmax", "num_negative_samples")
_OF_MASKS = ("masking", "masked_lm_prob", "mask_proportions")
_OF_NOISE = ("corruption", "noise_density", "mean_noise_span_length")
_OF_GENERATOR = ("generator_size", "discriminator_loss_weight")
# By kind or network, the usual one first.
_OBJECTIVES = {
    "ELECTRA": (REPLACED, "masked_lm"),
    "bert": ("masked_lm", "left_to_right"),
    "gpt": ("left_to_right",),
    "elmo": (BIDIRECTIONAL_LM,),
    "encoder_decoder": (DENOISING,),
}
# Flags that some objectives alone read.
_READ_BY = {
    ("masked_lm", REPLACED): (*_OF_MASKS, "max_predictions_per_seq", "top_k"),
    (BIDIRECTIONAL_LM,): _OF_STREAMS,
    (DENOISING,): _OF_NOISE,
    (REPLACED,): _OF_GENERATOR,
}
# Scripts that export the models which this one does not.
_NOT_EXPORTED = {
    "left_to_right": "run_generation.py --do_export",
    BIDIRECTIONAL_LM: "extract_features.py",
    DENOISING: "run_seq2seq.py --do_export",
}
# How bilm-tf trains: batch and rate as its example has them, and no warm-up.
_OF_ELMO = {
    "optimizer": "adagrad",
    "learning_rate": 0.2,
    "learning_rate_schedule": "gpt_constant",
    "num_warmup_steps": 0,
    "train_batch_size": 128,
}
_CLIP_NORM = 10.0


def define() -> None:
    """Which records, for how many steps, and how unmasked records are masked."""
    integer = flags.DEFINE_integer
    with command_line.heading("Data"):
        flags.DEFINE_enum(
            "objective",
            "masked_lm",
            ["masked_lm", "left_to_right", BIDIRECTIONAL_LM, DENOISING, REPLACED],
            "Training objective. masked_lm: masked words and the second sentence, as "
            "in BERT. left_to_right: each token from the tokens before it, as in GPT. "
            "bidirectional_lm: each word from the words before it and, separately, "
            "from the words after it, as in ELMo. denoising: the parts of a text that "
            "noise has removed, as in T5 and BART. replaced_tokens: which tokens a "
            "generator has put in the place of masked ones, as in ELECTRA.",
        )
        _define_records()
        _define_streams()
        _define_noise()
        _define_generator()
    with command_line.heading("Training"):
        integer(
            "num_train_steps",
            100000,
            "Total number of training steps, counted from step 0.",
            1,
        )
        integer("num_warmup_steps", 10000, "Number of warmup steps.", 0)
    training_flags.define_packing()
    with command_line.heading("Evaluation and checkpoints"):
        integer(
            "max_eval_steps",
            100,
            "Number of batches per evaluation; 0 for all records.",
            0,
        )
    with command_line.heading("Output"):
        integer(
            "top_k", 5, "Number of tokens that fill_mask returns for each [MASK].", 1
        )
    model_flags.define_vectors(layers="-1", pooling="mean")


def _define_records() -> None:
    string = flags.DEFINE_string
    string(
        "input_file",
        None,
        "Comma-separated record files or globs. For --objective=bidirectional_lm: "
        "text files with one tokenised sentence per line.",
    )
    string(
        "eval_input_file",
        None,
        "Record files or globs for evaluation; the default is --input_file.",
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Maximum number of masked tokens per sequence; it must match the records if "
        "they are masked already.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "masking",
        "word_piece",
        ["word_piece", "whole_word", "span", "ngram"],
        "Unit of masking, for records that are not masked yet.",
    )
    command_line.define_float(
        "masked_lm_prob",
        0.15,
        "Share of the tokens to mask, for records that are not masked yet.",
        lower_bound=0,
        upper_bound=1,
    )
    define_proportions("tokens to mask (in records that are not masked yet)")


def define_proportions(tokens: str) -> None:
    """Shares of the tokens that are masked, replaced and kept."""
    command_line.define_shares(
        "mask_proportions",
        "0.8,0.1,0.1",
        f"Shares of the {tokens} that become [MASK], become any token of the "
        "vocabulary, and stay unchanged; they add up to 1.",
    )


def _define_streams() -> None:
    """Their defaults are those of options.json."""
    flags.DEFINE_integer(
        "unroll_steps",
        None,
        "With --objective=bidirectional_lm: number of words of each sentence stream "
        "in a batch. By default the value in options.json, or else 20.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "sample_softmax",
        None,
        "With --objective=bidirectional_lm: compare each word with a sample of the "
        "other words during training. By default the value in options.json, or else "
        "true.",
    )
    flags.DEFINE_integer(
        "num_negative_samples",
        None,
        "Number of words in the sample of --sample_softmax. By default the value in "
        "options.json, or else 8192.",
        lower_bound=1,
    )


def _define_noise() -> None:
    """Each by default as in the paper that the corruption comes from."""
    flags.DEFINE_enum(
        "corruption",
        "random_spans",
        ["random_spans", "infilling"],
        "Treatment of noise with --objective=denoising. random_spans: one sentinel for "
        "each span, as in T5. infilling: one mask for each span, as in BART.",
    )
    command_line.define_float(
        "noise_density",
        None,
        "Share of the tokens of a text that are noise. By default 0.15, or 0.3 with "
        "--corruption=infilling.",
        lower_bound=0,
        upper_bound=1,
    )
    command_line.define_float(
        "mean_noise_span_length",
        None,
        "Mean length of the noise spans in tokens. By default 3.",
        lower_bound=1,
        upper_bound=100,
    )


def _define_generator() -> None:
    """Their defaults are those of google-research/electra."""
    command_line.define_float(
        "generator_size",
        0.25,
        "Width of the generator of --objective=replaced_tokens, as a share of the "
        "discriminator's.",
        lower_bound=0,
        upper_bound=1,
    )
    command_line.define_float(
        "discriminator_loss_weight",
        50.0,
        "Weight of the discriminator's loss with --objective=replaced_tokens.",
        lower_bound=0,
    )


def check_eval_batch_size(num_records: int) -> None:
    """Raises ValueError where a batch, which is filled, is more than all records."""
    size = FLAGS.eval_batch_size
    command_line.refuse(
        (
            FLAGS.do_eval and size > max(num_records, _MOST_EVALUATED),
            f"--eval_batch_size={size} exceeds the {num_records} records to evaluate "
            "on; lower it",
        )
    )


def check_network(config: Any, config_file: str) -> None:
    """Raises ValueError if the objective is not one of those of the network."""
    fitting = _OBJECTIVES.get(config.kind) or _OBJECTIVES[config.network]
    command_line.refuse(
        (
            FLAGS.objective not in fitting,
            f"--objective={FLAGS.objective} is not for {config.kind}, which "
            f"{config_file} describes; set --objective={fitting[0]}",
        ),
        (
            training_flags.packs_sequences()
            and (device_flags.is_tpu() or FLAGS.jit_compile == "true"),
            "--pack_sequences makes batches of records whose shapes vary, for which "
            "neither a TPU nor --jit_compile=true is made; leave one of them out",
        ),
    )
    training_flags.check_packing(config.network)


def set_defaults() -> None:
    """Sets defaults to those of the original of the objective."""
    if FLAGS.objective == BIDIRECTIONAL_LM:
        for name, value in _OF_ELMO.items():
            FLAGS.set_default(name, value)


def streams_config(config: Any, vocab_size: int) -> Any:
    """An ElmoConfig with the flags of streams, and a softmax of `vocab_size` words.

    Raises:
        ValueError: they contradict one another, or the vocabulary is another one's.
    """
    changes = {n: FLAGS[n].value for n in _OF_STREAMS if FLAGS[n].present}
    if config.vocab_size not in (0, vocab_size):
        raise errors.InputError(
            f"--vocab_file has {vocab_size} words, but --bert_config_file has "
            f"n_tokens_vocab={config.vocab_size}; give the two files of one network, "
            "or correct the number"
        )
    config = dataclasses.replace(config, vocab_size=vocab_size, **changes)
    if not config.sample_softmax and "num_negative_samples" in changes:
        raise errors.InputError(
            f"{FLAGS['num_negative_samples'].serialize()} is for a sampled softmax, "
            "which this network has not; leave it out, or add --sample_softmax"
        )
    if config.sample_softmax and config.num_negative_samples >= vocab_size:
        raise errors.InputError(
            f"a sample of {config.num_negative_samples} words (--num_negative_samples, "
            f"or n_negative_samples_batch of options.json) of the {vocab_size} in the "
            "vocabulary is all of them; lower it, or set --nosample_softmax"
        )
    return config


def adagrad_settings(config: Any) -> dict[str, float]:
    """Settings of Adagrad on streams, those of bilm-tf; none for other objectives."""
    if FLAGS.objective != BIDIRECTIONAL_LM:
        return {}
    clip_norm = config.extra.get("all_clip_norm_val", _CLIP_NORM)
    return {"clip_norm": clip_norm, "gradient_factor": float(config.unroll_steps)}


def files() -> dict[str, str]:
    """{flag: value} of the records; ValueError if there are none, or --seed < 0.

    Without training, what is held out is enough.
    """
    read = FLAGS.input_file or ("" if FLAGS.do_train else FLAGS.eval_input_file)
    if not read:
        raise errors.InputError(
            "--input_file is missing; name one or more files of records"
        )
    return {
        "input_file": read,
        **({"eval_input_file": FLAGS.eval_input_file} if FLAGS.eval_input_file else {}),
    }


def check() -> None:
    """Sets defaults of the objective; raises ValueError for what this run cannot do."""
    set_defaults()
    training_flags.check_actions()
    device_flags.strategy_kind()
    check_objective()
    model_flags.check()
    command_line.check_files("input_file", "eval_input_file")


def check_objective() -> None:
    """Raises ValueError if a flag is set that this run would not read."""
    objective = FLAGS.objective
    command_line.refuse(
        *(
            (
                objective not in readers and FLAGS[name].present,
                f"{FLAGS[name].serialize()} is for --objective={readers[0]}; leave it "
                "out",
            )
            for readers, names in _READ_BY.items()
            for name in names
        ),
        (
            objective == BIDIRECTIONAL_LM and FLAGS["max_seq_length"].present,
            f"{FLAGS['max_seq_length'].serialize()} is for records, but "
            f"--objective={objective} reads streams of sentences; set --unroll_steps",
        ),
        (
            FLAGS.do_export and objective in _NOT_EXPORTED,
            "--do_export of run_pretraining.py writes vectors and masked words, which "
            f"--objective={objective} has not; use {_NOT_EXPORTED.get(objective)}",
        ),
        *(
            (
                FLAGS[name].present and not FLAGS.do_export,
                f"{FLAGS[name].serialize()} is for --do_export; add it",
            )
            for name in ("top_k", *model_flags.VECTOR_FLAGS)
        ),
    )


def masking_rule() -> dict[str, Any]:
    """How unmasked records are masked, as masking.Rule takes it."""
    return {
        "kind": FLAGS.masking,
        "masked_lm_prob": FLAGS.masked_lm_prob,
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "proportions": FLAGS.mask_proportions,
    }


def masking_identity(masks: Any) -> dict[str, Any]:
    """Settings of masking that must match to resume a run; none if not `masks`."""
    return {
        "max_predictions_per_seq": FLAGS.max_predictions_per_seq,
        "masking": FLAGS.masking if masks else "",
        "masked_lm_prob": FLAGS.masked_lm_prob if masks else 0.0,
        # A list, as run.json gives it back.
        "mask_proportions": list(FLAGS.mask_proportions) if masks else [],
    }


def noise_rule() -> dict[str, Any]:
    """How texts are corrupted, as data_pipeline's denoising_batches.rule takes it."""
    return {name: FLAGS[name].value for name in _OF_NOISE}


def masks_are_asked_for() -> bool:
    """Returns True where a flag is set that unmasked records alone need."""
    return any(FLAGS[name].present for name in _OF_MASKS)
