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
    trains the head alone. ELMo is pretrained by Adagrad with its paper's rate.
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
    """Makes the command lines of a comparison.

    Args:
        configs: {shape: path}.
    """

    settings: Settings
    corpus: preparation.Corpus
    configs: Mapping[str, str]

    def pretrained(self, network: str) -> str:
        """The directory of a pretraining."""
        return os.path.join(self.settings.directory, "pretrained", network)

    def pretraining(
        self,
        network: systems.Network,
        steps: int,
        *,
        evaluations: int = EVALUATIONS,
    ) -> stages.Stage:
        """Trains a network for so many steps, a multiple of EVALUATIONS."""
        directory = self.pretrained(network.name)
        is_elmo = network.shape == "elmo"
        vocab_file = self.corpus.words_file if is_elmo else self.corpus.vocab_file
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
            *network.flags.split(),
        ]
        if is_elmo:
            flags += [
                f"--train_batch_size={_STREAMS}",
                f"--eval_batch_size={_STREAMS}",
                f"--unroll_steps={_UNROLLED}",
            ]
        else:
            flags += [
                f"--train_batch_size={self.settings.train_batch_size}",
                f"--eval_batch_size={self.settings.train_batch_size}",
                f"--max_seq_length={self.settings.max_seq_length}",
                f"--learning_rate={self.settings.learning_rate}",
                f"--num_warmup_steps={steps // 10}",
            ]
        if network.shape == "bert":
            most = round(_MASKED_SHARE * self.settings.max_seq_length)
            flags.append(f"--max_predictions_per_seq={most}")
        return stages.Stage(
            f"pretrain {network.title}",
            directory,
            ("run_pretraining.py", *flags),
        )

    def encoder_of_pair(self) -> stages.Stage:
        """Writes the encoder of the denoising pair as a BERT."""
        pair = self.pretrained("denoising")
        directory = self.start("denoising")
        return stages.Stage(
            "encoder of the denoising pair",
            f"{directory}.stage",
            (
                "convert_checkpoint.py",
                f"--input={pair}",
                "--to=google",
                "--head=none",
                f"--output_dir={directory}",
                "--overwrite",
            ),
        )

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

        Args:
            checkpoint_step: of the pretraining, where it is not the last one.
        """
        directory = os.path.join(
            self.settings.directory, "tasks", system.name, task.name
        )
        if checkpoint_step is not None:
            step = str(checkpoint_step)
            directory = os.path.join(
                self.settings.directory, "curves", system.name, step
            )
        rate = self.settings.task_learning_rate
        if system.is_frozen:
            rate = self.settings.feature_learning_rate
        flags = [
            *task.data_flags(self.settings.data_dir),
            *task.flags,
            "--do_train",
            f"--train_batch_size={TASK_BATCH}",
            f"--max_seq_length={task.max_seq_length}",
            f"--num_train_epochs={self.settings.num_train_epochs:g}",
            f"--learning_rate={rate}",
            f"--seeds={','.join(map(str, self.settings.seeds))}",
            "--log_steps=5",
            "--keep_checkpoint_max=1",
            *system.flags.split(),
            *(system.classifier_flags.split() if task.is_classification else ()),
            f"--output_dir={directory}",
        ]
        if "--head=bilstm" in system.flags:
            flags.append(f"--bilstm_units={self.settings.bert.hidden_size}")
        if system.network is None:
            flags += [
                f"--bert_config_file={self.configs['bert']}",
                f"--vocab_file={self.corpus.vocab_file}",
            ]
        else:
            start = self.start(system.network)
            flags.append(f"--pretrained={start}")
            if checkpoint_step is not None:
                path = os.path.join(start, f"model.ckpt-{checkpoint_step}")
                flags.append(f"--init_checkpoint={path}")
        return stages.Stage(
            f"{system.title}: {task.title}",
            directory,
            (task.script, *flags),
            keeps_weights=False,
        )
