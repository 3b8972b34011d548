"""The command lines of a comparison: every pretraining, and every task of a system."""

import dataclasses
import os
from collections.abc import Mapping

from experiments import preparation, stages, systems, tasks
from modeling.configs import config as config_lib

# ELMo's batches are streams, and a step reads so many words of each.
_STREAMS, _UNROLLED = 32, 20
TASK_BATCH = 8
_MASKED_SHARE = 0.15
# Parts of a pretraining after which it is evaluated, and checkpoints are kept.
EVALUATIONS, CHECKPOINTS = 8, 4
_LOGGED = 40  # points of a curve
EVALUATED_BATCHES = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The flags of experiments/compare.py, checked.

    Learning rates are those of BERT's Adam, in pretraining, in tasks, and where a task
    trains the head alone. Adagrad pretrains ELMo with the rate of its paper.
    """

    directory: str
    data_dir: str
    bert: config_lib.BertConfig
    systems: list[str]
    tasks: list[str]
    seeds: tuple[int, ...]
    steps: int
    num_train_epochs: float
    vocab_size: int
    train_batch_size: int
    max_seq_length: int
    learning_rate: float
    task_learning_rate: float
    feature_learning_rate: float
    layers: bool
    curves: bool
    jobs: int
    threads: int


@dataclasses.dataclass(frozen=True)
class Commands:
    """Makes the command lines of a comparison; `configs` are {shape: path}."""

    settings: Settings
    corpus: preparation.Corpus
    configs: Mapping[str, str]

    def pretrained(self, network: str) -> str:
        """The directory of a pretraining."""
        return os.path.join(self.settings.directory, "pretrained", network)

    def pretraining(
        self, network: systems.Network, steps: int, *, evaluations: int = EVALUATIONS
    ) -> stages.Stage:
        """Trains a network for so many steps, a multiple of EVALUATIONS."""
        settings, directory = self.settings, self.pretrained(network.name)
        is_elmo = network.shape == "elmo"
        vocab_file = self.corpus.words_file if is_elmo else self.corpus.vocab_file
        batch = _STREAMS if is_elmo else settings.train_batch_size
        flags = [
            f"--bert_config_file={self.configs[network.shape]}",
            f"--vocab_file={vocab_file}",
            f"--input_file={self.corpus.path(network.corpus, 'train')}",
            f"--eval_input_file={self.corpus.path(network.corpus, 'held_out')}",
            "--do_train",
            "--do_eval",
            f"--max_eval_steps={EVALUATED_BATCHES}",
            f"--num_train_steps={steps}",
            f"--evaluate_steps={steps // evaluations}",
            f"--save_checkpoints_steps={steps // CHECKPOINTS}",
            f"--log_steps={max(1, steps // _LOGGED)}",
            f"--output_dir={directory}",
            f"--train_batch_size={batch}",
            f"--eval_batch_size={batch}",
            *network.flags.split(),
        ]
        if is_elmo:
            flags.append(f"--unroll_steps={_UNROLLED}")
        else:
            flags += [
                f"--max_seq_length={settings.max_seq_length}",
                f"--learning_rate={settings.learning_rate}",
                f"--num_warmup_steps={steps // 10}",
            ]
        if network.shape == "bert":
            most = round(_MASKED_SHARE * settings.max_seq_length)
            flags.append(f"--max_predictions_per_seq={most}")
        command = "run_pretraining.py", *flags
        return stages.Stage(f"pretrain {network.title}", directory, command)

    def encoder_of_pair(self) -> stages.Stage:
        """Writes the encoder of the denoising pair as a BERT."""
        directory = self.start("denoising")
        command = (
            "convert_checkpoint.py",
            f"--input={self.pretrained('denoising')}",
            "--to=google",
            "--head=none",
            f"--output_dir={directory}",
            "--overwrite",
        )
        title = "encoder of the denoising pair"
        return stages.Stage(title, f"{directory}.stage", command)

    def start(self, network: str) -> str:
        """The directory that tasks open for a pretrained network."""
        directory = self.pretrained(network)
        return f"{directory}-encoder" if network == "denoising" else directory

    def task(
        self,
        system: systems.System,
        task: tasks.Task,
        *,
        checkpoint_step: int | None = None,
    ) -> stages.Stage:
        """Trains a system for a task, once with each seed, and scores its dev split.

        It starts from the last checkpoint of the pretraining, or from that of
        `checkpoint_step`.
        """
        settings = self.settings
        parts = "tasks", system.name, task.name
        if checkpoint_step is not None:
            parts = "curves", system.name, str(checkpoint_step)
        directory = os.path.join(settings.directory, *parts)
        rate = settings.task_learning_rate
        if system.is_frozen:
            rate = settings.feature_learning_rate
        flags = [
            *task.data_flags(settings.data_dir),
            *task.flags,
            "--do_train",
            f"--train_batch_size={TASK_BATCH}",
            f"--max_seq_length={task.max_seq_length}",
            f"--num_train_epochs={settings.num_train_epochs:g}",
            f"--learning_rate={rate}",
            f"--seeds={','.join(map(str, settings.seeds))}",
            "--log_steps=5",
            "--keep_checkpoint_max=1",
            *system.flags.split(),
            *(system.classifier_flags.split() if task.is_classification else ()),
            f"--output_dir={directory}",
        ]
        if "--head=bilstm" in system.flags:
            flags.append(f"--bilstm_units={settings.bert.hidden_size}")
        if system.network is None:
            flags.append(f"--bert_config_file={self.configs['bert']}")
            flags.append(f"--vocab_file={self.corpus.vocab_file}")
        else:
            start = self.start(system.network)
            flags.append(f"--pretrained={start}")
            if checkpoint_step is not None:
                path = os.path.join(start, f"model.ckpt-{checkpoint_step}")
                flags.append(f"--init_checkpoint={path}")
        title, command = f"{system.title}: {task.title}", (task.script, *flags)
        return stages.Stage(title, directory, command, keeps_weights=False)
