"""The systems: networks by their pretraining, and how tasks use them.

Figure 3 and tables 1, 5, 7 and 8 of BERT's paper (Devlin et al., 2019), section 3.3 of
T5's (Raffel et al., 2020), and section 4.6 of ALBERT's (Lan et al., 2020).
"""

from typing import NamedTuple

FEATURE_TASK = "wnut17"  # entities, as in table 7
CURVE_TASK = "sst2"
VARIANT_TASKS = ("sst2", "rte", "wnut17")
# The two systems whose task is scored along the pretraining, as in figure 5.
CURVE_SYSTEMS = ("no_nsp", "left_to_right")


class Network(NamedTuple):
    """One pretraining."""

    name: str
    title: str
    shape: str  # a key of shapes.equal_sized
    corpus: str  # of preparation.CORPORA or "texts"
    flags: str = ""  # of run_pretraining.py, beside those of all


class System(NamedTuple):
    """A row of the comparison: a network, and how tasks use it."""

    name: str
    title: str
    network: str | None  # a Network's name; None: random weights of BERT's shape
    flags: str = ""  # of every task
    classifier_flags: str = ""  # of run_classifier.py alone
    tasks: tuple[str, ...] | None = None  # None: all

    @property
    def is_frozen(self) -> bool:
        """Whether tasks take features from the network and leave it unchanged."""
        return "--freeze_encoder" in self.flags

    @property
    def kind(self) -> tuple[str, ...]:
        """Systems of one kind take as long for a step of a task."""
        shape = NETWORKS[self.network].shape if self.network else "bert"
        mixes = [f for f in self.flags.split() if not f.startswith("--layer_mix")]
        return shape, *mixes, self.classifier_flags


# GPT was trained with its own Adam and rates along a cosine.
_LEFT_TO_RIGHT = "--objective=left_to_right"
_GPT = f"{_LEFT_TO_RIGHT} --optimizer=gpt_adam --learning_rate_schedule=gpt_cosine"
_DENOISING = "--objective=denoising --corruption=random_spans"
_WHOLE_WORD, _MASKS_ALONE = "--masking=whole_word", "--mask_proportions=1,0,0"
_NETWORKS = (
    Network("bert", "masked LM and NSP", "bert", "next"),
    Network("no_nsp", "masked LM", "bert", "stretches"),
    Network(
        name="left_to_right",
        title="BERT from left to right",
        shape="left_to_right",
        corpus="stretches",
        flags=_LEFT_TO_RIGHT,
    ),
    Network("gpt", "GPT", "gpt", "stretches", _GPT),
    Network("elmo", "ELMo", "elmo", "texts", "--objective=bidirectional_lm"),
    Network("denoising", "denoising", "encoder_decoder", "stretches", _DENOISING),
    Network("order", "masked LM and SOP", "bert", "order"),
    Network("whole_word", "whole words and NSP", "bert", "next", _WHOLE_WORD),
    Network("masks_alone", "100 % [MASK] and NSP", "bert", "next", _MASKS_ALONE),
)
NETWORKS = {network.name: network for network in _NETWORKS}

_BILSTM = "--head=bilstm --bilstm_layers=1"
_FROZEN = f"--freeze_encoder --feature_cache=none {_BILSTM}"
_FEATURES = f"{_FROZEN} --layer_mix=learned"
_SYSTEMS = (
    System("random", "BERT, not pretrained", None),
    System("bert", "BERT", "bert"),
    System("no_nsp", "BERT without NSP", "no_nsp"),
    System("left_to_right", "left to right, without NSP", "left_to_right"),
    System(
        name="left_to_right_bilstm",
        title="left to right, with a BiLSTM on top",
        network="left_to_right",
        flags=_BILSTM,
    ),
    System(
        name="gpt",
        title="GPT",
        network="gpt",
        flags="--optimizer=gpt_adam --learning_rate_schedule=gpt_linear",
        classifier_flags="--lm_loss_weight=0.5",
    ),
    System("elmo", "ELMo, features", "elmo", _FEATURES),
    System("bert_features", "BERT, features", "bert", _FEATURES),
    System("denoising", "encoder of a denoising pair", "denoising"),
    System("order", "BERT with SOP", "order", tasks=VARIANT_TASKS),
    System("whole_word", "BERT, whole words masked", "whole_word", tasks=VARIANT_TASKS),
    System("masks_alone", "BERT, 100 % [MASK]", "masks_alone", tasks=VARIANT_TASKS),
    System(
        name="masks_alone_features",
        title="the same, features",
        network="masks_alone",
        flags=_FEATURES,
        tasks=(FEATURE_TASK,),
    ),
)
SYSTEMS = {system.name: system for system in _SYSTEMS}
# Table 7's choices: values of --layer_mix; "learned" is `bert_features`. Those of four
# layers are left out where there are fewer.
LAYER_CHOICES = {
    "embedding": "embeddings",
    "second_to_last": "second-to-last layer",
    "last": "last layer",
    "sum_last_4": "sum of the last four layers",
    "concat_last_4": "last four layers, end to end",
    "sum_all": "sum of all layers",
    "learned": "learned sum of all layers",
}


def layer_systems(num_layers: int) -> list[System]:
    """`bert_features` with each other choice of layers."""
    return [
        System(
            name=f"layers_{choice}",
            title=title,
            network="bert",
            flags=f"{_FROZEN} --layer_mix={choice}",
            tasks=(FEATURE_TASK,),
        )
        for choice, title in LAYER_CHOICES.items()
        if choice != "learned" and (num_layers >= 4 or not choice.endswith("_4"))
    ]
