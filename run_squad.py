r"""Fine-tunes BERT on questions about texts, answers such questions and scores answers.

Takes every flag of google-research/bert's run_squad.py, for SQuAD 1.1 and 2.0: see
docs/squad.md.

    python run_squad.py --pretrained=models/minilm --do_train --do_predict \
        --train_file=train.json --predict_file=dev.json --output_dir=output/squad
"""

import functools
import os

from absl import flags

from cli import command_line, fine_tuning_flags, model_flags, squad_flags

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=384)
    squad_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(
        define_flags, fine_tuning_flags.check_run, squad_flags.check_files
    )

from absl import logging

from cli import run_flags
from contract import file_names
from data_pipeline.squad import choice as answer_choice
from data_pipeline.squad import files as squad_files
from data_pipeline.squad import graph, scores
from data_pipeline.squad import split as question_rows
from data_pipeline.text import opening, wordpiece
from modeling import kernels_tf, losses, models
from modeling.checkpoints import checkpoint, pretrained
from modeling.features import head_config
from reports import pictures, run_report
from serving import formats, windowed
from training import fine_tuning, run_directory
from training.results import run_facts


def prepare():
    """The task and its settings; a ValueError says what is wrong with the input."""
    if FLAGS.verbose_logging:
        logging.set_verbosity(logging.DEBUG)
    strategy = run_flags.set_up()
    squad_flags.check_files()
    files = model_flags.files(pretrained.locate)
    tokenizer = opening.open_for_tasks(files, checks_case=FLAGS.check_case)
    opening.check_exports(tokenizer, FLAGS.do_export)
    config = pretrained.open_config(files, tokenizer.vocab_size, FLAGS.max_seq_length)
    reading = run_flags.reading(head_config.choose, files)
    has_pieces = isinstance(tokenizer, wordpiece.BertTokenizer)
    squad_flags.check_network(config, tokenizer, reading, has_pieces)
    choice = answer_choice.Settings(**squad_flags.answer_settings(has_pieces))
    splits = fine_tuning_flags.wanted_splits()
    data = {}
    if "train" in splits:
        data["train"] = read_train(tokenizer)
    if "dev" in splits or "test" in splits:  # one file serves both
        data["predict"] = read_predict(tokenizer)
    names = scores.score_names(data["predict"], choice) if "dev" in splits else ()
    settings = run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(data["train"].questions) if "train" in data else 0,
        score_names=names,
    )
    pad_to = settings.pad_to
    return make_task(config, tokenizer, data, choice, pad_to, reading), settings


def read_train(tokenizer):
    """The questions of --train_file, in the original's order, as windows."""
    questions = squad_files.read_for_training(
        FLAGS.train_file,
        multiple_answers=FLAGS.multiple_answers,
        version_2_with_negative=FLAGS.version_2_with_negative,
    )
    return cut("train", squad_files.shuffled(questions), tokenizer)


def read_predict(tokenizer):
    """The questions of --predict_file as windows."""
    questions = squad_files.read_for_prediction(
        FLAGS.predict_file, version_2_with_negative=FLAGS.version_2_with_negative
    )
    return cut("predict", questions, tokenizer)


def cut(name, questions, tokenizer):
    """The windows of questions."""
    return question_rows.load(name, questions, tokenizer, **squad_flags.limits())


def make_task(config, tokenizer, data, choice, pad_to, reading):
    """The fine_tuning.Task of answering questions."""
    splits = {"train": data["train"].examples()} if "train" in data else {}
    if "predict" in data:
        splits["dev"] = splits["test"] = data["predict"].examples()

    def score(_, logits, __):
        return scores.decide(data["predict"], logits, tokenizer, choice, pad_to)

    def examine(split, scored):
        return scores.outcomes(split, data["predict"], scored)

    def write_records(output_dir):
        for questions in data.values():
            question_rows.write_records(output_dir, questions, FLAGS.max_seq_length)

    return fine_tuning.Task(
        splits=splits,
        model=functools.partial(
            models.BertSpanPredictor,
            config,
            reading=reading,
            recompute=FLAGS.recompute,
        ),
        load_weights=model_flags.weights_loader(pretrained.load_weights),
        store=checkpoint.store,
        objective=losses.span(),
        score=score,
        examine=examine,
        pictures=pictures.summaries,
        report=run_facts.hook(
            *(run_report, "question-answering"),
            lambda: {split: questions.summary() for split, questions in data.items()},
        ),
        predict=predict,
        export=functools.partial(export_model, tokenizer, choice),
        reopen=formats.network_opener(
            FLAGS.export_format, head_config.name_lstms(config, reading)
        ),
        write_records=write_records,
        files=pretrained.files(config, tokenizer) | reading.files(),
        identity={"reading": reading.chosen()},
    )


def predict(scored, settings, global_step):
    """Writes predictions.json and the files beside it; returns scores, if any."""
    if settings.writes:
        answer_choice.write(settings.output_dir, scored.answers)
        path = os.path.join(settings.output_dir, file_names.SQUAD_PREDICTIONS)
        print(f"predictions: {path}")
    if not scored.scores:
        print(f"{FLAGS.predict_file} has no right answers, so nothing is scored")
        return {}
    results = {**scored.scores, "global_step": global_step}
    run_directory.record(settings, global_step, scored.scores, results)
    return results


def export_model(tokenizer, choice, model, output_dir):
    """Writes output_dir/export/<n>: question and context in, answer out."""
    with kernels_tf.joined_projections(model) as variables:
        module = windowed.QuestionAnswerer(
            graph.encoder(tokenizer, **squad_flags.limits()),
            functools.partial(model, training=False),
            graph.chooser(choice),
            variables,
            (None, *tokenizer.token_shape),
            model.config,
        )
        chosen = fine_tuning_flags.export_settings()
        return formats.save(module, output_dir, {}, **chosen)


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
