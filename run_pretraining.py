r"""Pretrains BERT on masked words and next sentences, a network left to right, or ELMo.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

from absl import flags

from cli import (
    command_line,
    device_flags,
    model_flags,
    pretraining_flags,
    training_flags,
)

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_export")


def define_flags():
    model_flags.define(max_seq_length=128)
    training_flags.define()
    training_flags.define_actions(*ACTIONS)
    training_flags.define_report()
    device_flags.define()
    pretraining_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, pretraining_flags.check)


from cli import networks, objectives, run_flags
from contract import errors
from data_pipeline.text import opening
from modeling.checkpoints import pretrained
from training import driver


def prepare():
    """The settings, and the task of --objective."""
    pretraining_flags.check()
    strategy = run_flags.set_up()
    files = networks.find_files()
    tokenizer, vocab_size = None, None
    if files.vocab_file or FLAGS.do_export:
        tokenizer = opening.open_tokenizer(files)
        vocab_size = tokenizer.vocab_size
    config = pretrained.open_config(
        files, vocab_size, FLAGS.max_seq_length, takes_encoder_decoder=True
    )
    pretraining_flags.check_network(config, files.config_file)
    task = objectives.TASKS[FLAGS.objective](config, tokenizer, files)
    settings = run_flags.run_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=task.config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
        adagrad_settings=pretraining_flags.adagrad_settings(task.config),
    )
    return task, driver.Settings(
        run=settings,
        evaluates=FLAGS.do_eval,
        exports=FLAGS.do_export,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps or None,
        reports=FLAGS.write_report,
        default_flags=command_line.defaults(),
    )


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        task, settings = prepare()
        explain = task.records.explain if task.records else lambda error: None
        with errors.named(explain):
            driver.run_task(task, settings)
        print(f"output: {FLAGS.output_dir}")


if __name__ == "__main__":
    command_line.run(main)
