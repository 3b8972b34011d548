"""Settings of pretraining: how records are made, for how long they are trained on."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from contract import errors
from tasks.settings import fields, mask_shares, model, training
from tasks.settings import vectors as vector_settings

BIDIRECTIONAL_LM, DENOISING = "bidirectional_lm", "denoising"
REPLACED = "replaced_tokens"
_MOST_EVALUATED = 1 << 16  # records of a batch that may be more than there are
_OF_MASKS = {"objective": ("masked_lm", REPLACED)}
_OF_STREAMS = {"objective": BIDIRECTIONAL_LM}
_OF_NOISE = {"objective": DENOISING}
_OF_EXPORTS = {"do_export": True}
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings(
    vector_settings.VectorChoice,
    training.PackSequences,
    training.Evaluates,
    model.MaxSeqLength,
    training.Training,
):
    """Which records, for how many steps, and how unmasked records are masked."""

    program: ClassVar[str] = "run_pretraining"

    objective: str = fields.data(
        "masked_lm",
        "Training objective. masked_lm: masked words and the second sentence, as "
        "in BERT. left_to_right: each token from the tokens before it, as in GPT. "
        "bidirectional_lm: each word from the words before it and, separately, "
        "from the words after it, as in ELMo. denoising: the parts of a text that "
        "noise has removed, as in T5 and BART. replaced_tokens: which tokens a "
        "generator has put in the place of masked ones, as in ELECTRA.",
        choices=["masked_lm", "left_to_right", BIDIRECTIONAL_LM, DENOISING, REPLACED],
    )
    num_train_steps: int = fields.training(
        100000,
        "Total number of training steps, counted from step 0.",
        least=1,
        changes=fields.NOTHING,
    )
    num_warmup_steps: int = fields.training(10000, "Number of warmup steps.", least=0)
    max_eval_steps: int = fields.evaluation(
        100,
        "Number of batches per evaluation; 0 for all records.",
        least=0,
        changes=fields.NOTHING,
    )
    top_k: int = fields.output(
        5,
        "Number of tokens that fill_mask returns for each [MASK].",
        least=1,
        changes=fields.ANSWERS,
        only_with=_OF_EXPORTS,
    )
    combine: str = fields.again(
        vector_settings.VectorChoice, "combine", "none", only_with=_OF_EXPORTS
    )
    layer_weights: Sequence[str] = fields.again(
        vector_settings.VectorChoice, "layer_weights", (), only_with=_OF_EXPORTS
    )
    normalize: bool = fields.again(
        vector_settings.VectorChoice, "normalize", False, only_with=_OF_EXPORTS
    )
    layers: Sequence[str] = fields.again(
        vector_settings.VectorChoice, "layers", ("-1",), only_with=_OF_EXPORTS
    )
    pooling: str = fields.again(
        vector_settings.VectorChoice, "pooling", "mean", only_with=_OF_EXPORTS
    )
    input_file: str | None = fields.data(
        None,
        "Comma-separated record files or globs. For --objective=bidirectional_lm: "
        "text files with one tokenised sentence per line.",
        path=True,
        changes=fields.NOTHING,
        on_workers=True,
    )
    eval_input_file: str | None = fields.data(
        None,
        "Record files or globs for evaluation; the default is --input_file.",
        path=True,
        changes=fields.NOTHING,
        on_workers=True,
    )
    max_predictions_per_seq: int = fields.data(
        20,
        "Maximum number of masked tokens per sequence; it must match the records if "
        "they are masked already.",
        least=1,
        only_with=_OF_MASKS,
    )
    masking: str = fields.data(
        "word_piece",
        "Unit of masking, for records that are not masked yet.",
        choices=["word_piece", "whole_word", "span", "ngram"],
        only_with=_OF_MASKS,
    )
    masked_lm_prob: float = fields.data(
        0.15,
        "Share of the tokens to mask, for records that are not masked yet.",
        least=0,
        most=1,
        only_with=_OF_MASKS,
    )
    mask_proportions: tuple[float, ...] = mask_shares.field(
        "Data",
        "tokens to mask (in records that are not masked yet)",
        only_with=_OF_MASKS,
    )
    unroll_steps: int | None = fields.data(
        None,
        "With --objective=bidirectional_lm: number of words of each sentence stream "
        "in a batch. By default the value in options.json, or else 20.",
        least=1,
        only_with=_OF_STREAMS,
    )
    sample_softmax: bool | None = fields.data(
        None,
        "With --objective=bidirectional_lm: compare each word with a sample of the "
        "other words during training. By default the value in options.json, or else "
        "true.",
        only_with=_OF_STREAMS,
    )
    num_negative_samples: int | None = fields.data(
        None,
        "Number of words in the sample of --sample_softmax. By default the value in "
        "options.json, or else 8192.",
        least=1,
        only_with=_OF_STREAMS,
    )
    corruption: str = fields.data(
        "random_spans",
        "Treatment of noise with --objective=denoising. random_spans: one sentinel for "
        "each span, as in T5. infilling: one mask for each span, as in BART.",
        choices=["random_spans", "infilling"],
        only_with=_OF_NOISE,
    )
    noise_density: float | None = fields.data(
        None,
        "Share of the tokens of a text that are noise. By default 0.15, or 0.3 with "
        "--corruption=infilling.",
        least=0,
        most=1,
        only_with=_OF_NOISE,
    )
    mean_noise_span_length: float | None = fields.data(
        None,
        "Mean length of the noise spans in tokens. By default 3.",
        least=1,
        most=100,
        only_with=_OF_NOISE,
    )
    generator_size: float = fields.data(
        0.25,
        "Width of the generator of --objective=replaced_tokens, as a share of the "
        "discriminator's.",
        least=0,
        most=1,
        only_with={"objective": REPLACED},
    )
    discriminator_loss_weight: float = fields.data(
        50.0,
        "Weight of the discriminator's loss with --objective=replaced_tokens.",
        least=0,
        only_with={"objective": REPLACED},
    )

    def __post_init__(self) -> None:
        """An ELMo is trained with the original's values of what is not given."""
        super().__post_init__()
        if self.objective == BIDIRECTIONAL_LM:
            self._set({n: v for n, v in _OF_ELMO.items() if n not in self.given})

    def defaults(self) -> dict[str, Any]:
        """{name: value} of a run with this objective alone."""
        others = _OF_ELMO if self.objective == BIDIRECTIONAL_LM else {}
        return super().defaults() | others

    def check_eval_batch_size(self, num_records: int) -> None:
        """Refuses a batch, which is filled, that is more than all records."""
        size = self.eval_batch_size
        errors.refuse(
            (
                self.do_eval and size > max(num_records, _MOST_EVALUATED),
                f"--eval_batch_size={size} exceeds the {num_records} records to "
                "evaluate on; lower it",
            )
        )

    def check_network(self, config: Any, config_file: str) -> None:
        """Refuses an objective that is none of those of the network."""
        fitting = config.spec.objectives
        errors.refuse(
            (
                self.objective not in fitting,
                f"--objective={self.objective} is not for {config.kind}, which "
                f"{config_file} describes; set --objective={fitting[0]}",
            ),
            (
                self.packs_sequences and (self.is_tpu or self.jit_compile == "true"),
                "--pack_sequences makes batches of records whose shapes vary, for "
                "which neither a TPU nor --jit_compile=true is made; leave one of them "
                "out",
            ),
        )
        self.check_packing(config)

    def streams_config(self, config: Any, vocab_size: int) -> Any:
        """An ElmoConfig with these streams, and a softmax of `vocab_size` words.

        Raises:
            ValueError: they contradict one another, or the vocabulary is another one's.
        """
        names = {"unroll_steps", "sample_softmax", "num_negative_samples"}
        changes = {name: getattr(self, name) for name in names & self.given}
        if config.vocab_size not in (0, vocab_size):
            raise errors.InputError(
                f"--vocab_file has {vocab_size} words, but --bert_config_file has "
                f"n_tokens_vocab={config.vocab_size}; give the two files of one "
                "network, or correct the number"
            )
        config = dataclasses.replace(config, vocab_size=vocab_size, **changes)
        if not config.sample_softmax and "num_negative_samples" in changes:
            raise errors.InputError(
                f"{self.typed('num_negative_samples')} is for a sampled softmax, "
                "which this network has not; leave it out, or add --sample_softmax"
            )
        if config.sample_softmax and config.num_negative_samples >= vocab_size:
            raise errors.InputError(
                f"a sample of {config.num_negative_samples} words "
                "(--num_negative_samples, or n_negative_samples_batch of "
                f"options.json) of the {vocab_size} in the vocabulary is all of them; "
                "lower it, or set --nosample_softmax"
            )
        return config

    def optimizer_settings(self, config: Any) -> dict[str, float]:
        """Settings of Adagrad on streams, those of bilm-tf; else none."""
        if self.objective != BIDIRECTIONAL_LM:
            return {}
        clip_norm = config.extra.get("all_clip_norm_val", _CLIP_NORM)
        return {"clip_norm": clip_norm, "gradient_factor": float(config.unroll_steps)}

    def record_files(self) -> dict[str, str]:
        """{name: value} of the files of records; refused if there are none.

        Without training, what is held out is enough.
        """
        read = self.input_file or ("" if self.do_train else self.eval_input_file)
        if not read:
            raise errors.InputError(
                "--input_file is missing; name one or more files of records"
            )
        held_out = self.eval_input_file
        return {"input_file": read} | (
            {"eval_input_file": held_out} if held_out else {}
        )

    def check(self) -> None:
        """Refuses what this run cannot do."""
        super().check()
        objective = self.objective
        errors.refuse(
            (
                objective == BIDIRECTIONAL_LM and "max_seq_length" in self.given,
                f"{self.typed('max_seq_length')} is for records, but "
                f"--objective={objective} reads streams of sentences; set "
                "--unroll_steps",
            ),
            (
                self.do_export and objective in _NOT_EXPORTED,
                "--do_export of run_pretraining.py writes vectors and masked words, "
                f"which --objective={objective} has not; use "
                f"{_NOT_EXPORTED.get(objective)}",
            ),
        )
        self.check_files("input_file", "eval_input_file")

    def masking_rule(self) -> dict[str, Any]:
        """How unmasked records are masked, as masking.Rule takes it."""
        return {
            "kind": self.masking,
            "masked_lm_prob": self.masked_lm_prob,
            "max_predictions_per_seq": self.max_predictions_per_seq,
            "proportions": self.mask_proportions,
        }

    def masking_identity(self, masks: Any) -> dict[str, Any]:
        """Settings of masking that must match to resume a run; none if not `masks`."""
        return {
            "max_predictions_per_seq": self.max_predictions_per_seq,
            "masking": self.masking if masks else "",
            "masked_lm_prob": self.masked_lm_prob if masks else 0.0,
            # A list, as run.json gives it back.
            "mask_proportions": list(self.mask_proportions) if masks else [],
        }

    def noise_rule(self) -> dict[str, Any]:
        """How texts are corrupted, as denoising_batches.rule takes it."""
        names = ("corruption", "noise_density", "mean_noise_span_length")
        return {name: getattr(self, name) for name in names}

    @property
    def wants_masks(self) -> bool:
        """Whether something is given that unmasked records alone need."""
        return bool({"masking", "masked_lm_prob", "mask_proportions"} & self.given)
