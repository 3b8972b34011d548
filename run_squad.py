r"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py: see docs/squad.md.

    python run_squad.py --pretrained=DIR --do_train --do_predict \
        --train_file=train.json --predict_file=dev.json --output_dir=output/squad
"""

import functools

from absl import flags

from cli import command_line, fine_tuning_flags, squad_flags

FLAGS = flags.FLAGS


def define_flags():
    actions = ("do_train", "do_predict", "do_export")
    fine_tuning_flags.define(*actions, max_seq_length=384)
    squad_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    checks = fine_tuning_flags.check_run, squad_flags.check_files
    command_line.parse(define_flags, *checks)

from cli import networks, run_flags
from contract import file_names
from data_pipeline.squad import choice as answer_choice
from data_pipeline.squad import files as squad_files
from data_pipeline.squad import graph, scores, windows
from data_pipeline.text import opening, wordpiece
from modeling import losses, models
from modeling.checkpoints import pretrained
from serving import formats, windowed
from training import run_directory


def prepare():
    """The task and its settings; ValueError for wrong input."""
    squad_flags.set_verbosity()
    strategy = run_flags.set_up()
    squad_flags.check_files()
    files, tokenizer, config = networks.open_for_task(FLAGS.max_seq_length)
    pretrained.check_segments(config, files.config_file)
    opening.check_exports(tokenizer, FLAGS.do_export)
    reading = run_flags.reading(files)
    has_pieces = isinstance(tokenizer, wordpiece.BertTokenizer)
    squad_flags.check_network(config, tokenizer, reading, has_pieces)
    choice = answer_choice.Settings(**squad_flags.answer_settings(has_pieces))
    splits = fine_tuning_flags.wanted_splits()
    # One file serves dev and test.
    names = {"train" if split == "train" else "predict": None for split in splits}
    data = {
        name: windows.load(name, read(name), tokenizer, **squad_flags.limits())
        for name in names
    }
    names = scores.score_names(data["predict"], choice) if "dev" in splits else ()
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(data["train"].questions) if "train" in data else 0,
        score_names=names,
    )
    task = make_task(config, tokenizer, data, choice, settings.pad_to, reading)
    return task, settings


def read(name):
    """The questions of a file; those to train on in the original's order."""
    reading = squad_flags.reading()
    if name == "predict":
        return squad_files.read_for_prediction(FLAGS.predict_file, **reading)
    multiple = FLAGS.multiple_answers or ("first" if squad_flags.is_chinese() else "")
    questions = squad_files.read_for_training(
        FLAGS.train_file, multiple_answers=multiple, **reading
    )
    return squad_files.shuffled(questions)


def make_task(config, tokenizer, data, choice, pad_to, reading):
    """The driver.FineTuningTask of answering questions."""
    splits = {"train": data["train"].examples()} if "train" in data else {}
    if "predict" in data:
        splits["dev"] = splits["test"] = data["predict"].examples()

    def score(_, logits, __):
        return scores.decide(data["predict"], logits, tokenizer, choice, pad_to)

    def write_records(output_dir):
        for questions in data.values():
            windows.write_records(output_dir, questions, FLAGS.max_seq_length)

    formats.check(FLAGS.export_format, config, reading)
    return run_flags.make_task(
        "question-answering",
        lambda: {split: questions.summary() for split, questions in data.items()},
        splits=splits,
        model=functools.partial(
            models.BertSpanPredictor, config, reading=reading, recompute=FLAGS.recompute
        ),
        objective=losses.span(),
        score=score,
        examine=lambda split, scored: scores.outcomes(split, data["predict"], scored),
        predict=predict,
        export=functools.partial(export_model, tokenizer, choice),
        reopen=formats.open_network,
        write_records=write_records,
        files=pretrained.files(config, tokenizer) | reading.files(),
        identity={"reading": reading.chosen()},
    )


def predict(scored, settings, global_step):
    """Writes predictions.json and the files beside it; returns scores, if any."""
    if settings.writes:
        is_submitted = FLAGS.task_name == "cmrc2018"
        submission = file_names.CMRC_SUBMISSION if is_submitted else ""
        answer_choice.write(settings.output_dir, scored.answers, submission)
        print(f"predictions: {settings.output_dir}/{file_names.SQUAD_PREDICTIONS}")
    if not scored.scores:
        print(f"{FLAGS.predict_file} has no right answers, so nothing is scored")
        return {}
    results = {**scored.scores, "global_step": global_step}
    run_directory.record(settings, global_step, scored.scores, results)
    return results


def export_model(tokenizer, choice, model, output_dir):
    """Writes output_dir/export/<n>: question and context in, answer out."""

    def make(variables):
        return windowed.QuestionAnswerer(
            graph.encoder(tokenizer, **squad_flags.limits()),
            functools.partial(model, training=False),
            graph.chooser(choice),
            variables,
            (None, *tokenizer.token_shape),
            model.config,
        )

    return run_flags.export(model, make, output_dir)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
