"""What is compared: networks by how they are pretrained, and how tasks use them.

Figure 3 and tables 1, 5, 7 and 8 of BERT's paper (Devlin et al., 2019), section 3.3 of
T5's (Raffel et al., 2020), and section 4.6 of ALBERT's (Lan et al., 2020).
"""

from typing import NamedTuple

FEATURE_TASK = "wnut17"  # entities, as in table 7
CURVE_TASK = "sst2"
VARIANT_TASKS = ("sst2", "rte", "wnut17")


class Network(NamedTuple):
    """One pretraining."""

    name: str
    title: str
    shape: str  # a name of shapes.SHAPES
    corpus: str  # a name of preparation.CORPORA
    flags: tuple[str, ...]  # of run_pretraining.py, beside those of all


class System(NamedTuple):
    """A row of the comparison: a network, and how tasks use it."""

    name: str
    title: str
    network: str | None  # a Network's name; None: random weights of BERT's shape
    flags: tuple[str, ...] = ()  # of every task
    classifier_flags: tuple[str, ...] = ()  # of run_classifier.py alone
    tasks: tuple[str, ...] | None = None  # None: all

    @property
    def is_frozen(self) -> bool:
        """Whether tasks take features from the network, and leave it as it is."""
        return "--freeze_encoder" in self.flags


# As GPT was trained: Adam with its decay, rates along a cosine.
_GPT = ("--optimizer=gpt_adam", "--learning_rate_schedule=gpt_cosine")
_LEFT_TO_RIGHT = "--objective=left_to_right"
NETWORKS = {
    network.name: network
    for network in (
        Network("bert", "masked LM and NSP", "bert", "next", ()),
        Network("no_nsp", "masked LM", "bert", "stretches", ()),
        Network(
            *("left_to_right", "BERT from left to right", "left_to_right", "stretches"),
            flags=(_LEFT_TO_RIGHT,),
        ),
        Network("gpt", "GPT", "gpt", "stretches", (_LEFT_TO_RIGHT, *_GPT)),
        Network("elmo", "ELMo", "elmo", "texts", ("--objective=bidirectional_lm",)),
        Network(
            *("denoising", "denoising", "encoder_decoder", "stretches"),
            flags=("--objective=denoising", "--corruption=random_spans"),
        ),
        Network("order", "masked LM and SOP", "bert", "order", ()),
        Network(
            *("whole_word", "whole words and NSP", "bert", "next"),
            flags=("--masking=whole_word",),
        ),
        Network(
            *("masks_alone", "100 % [MASK] and NSP", "bert", "next"),
            flags=("--mask_proportions=1,0,0",),
        ),
    )
}
# Networks with masks, for --max_predictions_per_seq.
MASKED_SHAPE = "bert"

_BILSTM = ("--head=bilstm", "--bilstm_layers=1")
_FEATURES = ("--freeze_encoder", "--feature_cache=none", *_BILSTM)
_LEARNED = ("--layer_mix=learned",)
SYSTEMS = {
    system.name: system
    for system in (
        System("random", "BERT, not pretrained", None),
        System("bert", "BERT", "bert"),
        System("no_nsp", "BERT without NSP", "no_nsp"),
        System("left_to_right", "left to right, without NSP", "left_to_right"),
        System(
            *("left_to_right_bilstm", "left to right, with a BiLSTM on top"),
            network="left_to_right",
            flags=_BILSTM,
        ),
        System(
            *("gpt", "GPT", "gpt"),
            flags=("--optimizer=gpt_adam", "--learning_rate_schedule=gpt_linear"),
            classifier_flags=("--lm_loss_weight=0.5",),
        ),
        System("elmo", "ELMo, features", "elmo", (*_FEATURES, *_LEARNED)),
        System("bert_features", "BERT, features", "bert", (*_FEATURES, *_LEARNED)),
        System("denoising", "encoder of a denoising pair", "denoising"),
        System("order", "BERT with SOP", "order", tasks=VARIANT_TASKS),
        System(
            *("whole_word", "BERT, whole words masked", "whole_word"),
            tasks=VARIANT_TASKS,
        ),
        System(
            *("masks_alone", "BERT, 100 % [MASK]", "masks_alone"), tasks=VARIANT_TASKS
        ),
        System(
            *("masks_alone_features", "the same, features", "masks_alone"),
            flags=(*_FEATURES, *_LEARNED),
            tasks=(FEATURE_TASK,),
        ),
    )
}
# Table 7's choices, beside `bert_features`: values of --layer_mix. Those of four layers
# are left out where there are fewer.
LAYER_CHOICES = {
    "embedding": "embeddings",
    "second_to_last": "second-to-last layer",
    "last": "last layer",
    "sum_last_4": "sum of the last four layers",
    "concat_last_4": "last four layers, end to end",
    "sum_all": "sum of all layers",
    "learned": "learned sum of all layers",
}
# The two whose tasks are scored along the pretraining, as in figure 5.
CURVE_SYSTEMS = ("no_nsp", "left_to_right")


def layer_systems(num_layers: int) -> list[System]:
    """`bert_features` with each other choice of so many layers."""
    return [
        System(
            *(f"layers_{choice}", title, "bert"),
            flags=(*_FEATURES, f"--layer_mix={choice}"),
            tasks=(FEATURE_TASK,),
        )
        for choice, title in LAYER_CHOICES.items()
        if choice != "learned" and (num_layers >= 4 or not choice.endswith("_4"))
    ]
