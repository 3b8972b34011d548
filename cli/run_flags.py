"""Settings of runs that train, from the flags."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import flags as absl_flags
from absl import logging

from cli import (
    command_line,
    device_flags,
    device_setup,
    feature_flags,
    fine_tuning_flags,
    model_flags,
    training_flags,
)
from contract import errors, export_formats
from data_pipeline import label_maps
from modeling import kernels_tf
from modeling.checkpoints import pretrained
from modeling.features import head_config
from serving import export as export_lib
from serving import formats
from training import (
    adagrad,
    checkpoints,
    driver,
    feature_cache,
    grid,
    layer_rates,
    loop,
    model_directory,
    optimizers,
    run,
    run_directory,
    run_settings,
    schedule,
)

FLAGS = absl_flags.FLAGS
_OPTIMIZERS = {
    "adam": optimizers.BertAdam,
    "lamb": optimizers.BertLamb,
    "gpt_adam": optimizers.GptAdam,
    "adagrad": adagrad.Adagrad,
}
_MOST_EXAMPLES = 2**31 - 1  # of all epochs together


def plan(num_examples: int, metrics: Sequence[str]) -> loop.Plan:
    """The plan of a run over labelled rows, with the most important metric first.

    Raises ValueError if the examples make no step, or too many, or --best_metric is not
    a metric.
    """
    num_train_steps = schedule.count_steps(
        num_examples, FLAGS.train_batch_size, FLAGS.num_train_epochs
    )
    best_metric = FLAGS.best_metric or next(iter(metrics), "")
    command_line.refuse(
        (
            num_train_steps == 0,
            f"{num_examples} training examples make no step of --train_batch_size="
            f"{FLAGS.train_batch_size}; lower the batch size or train longer",
        ),
        (
            num_train_steps * FLAGS.train_batch_size > _MOST_EXAMPLES,
            f"--num_train_epochs={FLAGS.num_train_epochs} of {num_examples} training "
            f"rows are more than {_MOST_EXAMPLES:,}, whose order is held; lower it",
        ),
        (
            metrics and best_metric not in metrics,
            f"--best_metric={best_metric} is none of the scores of this task: "
            f"{', '.join(metrics)}",
        ),
    )
    return plan_of_steps(
        num_train_steps,
        num_train_steps * FLAGS.warmup_proportion,
        best_metric,
        FLAGS.early_stopping_patience,
    )


def plan_of_steps(
    num_train_steps: int,
    num_warmup_steps: float,
    best_metric: str = "",
    patience: int = 0,
) -> loop.Plan:
    """The plan of a run with a known number of steps."""
    rate = schedule.SCHEDULES[FLAGS.learning_rate_schedule](
        FLAGS.learning_rate, num_train_steps, num_warmup_steps
    )
    return loop.Plan(
        num_train_steps=num_train_steps,
        learning_rate=rate,
        save_steps=FLAGS.save_checkpoints_steps,
        log_steps=training_flags.log_steps(num_train_steps),
        max_steps_per_call=FLAGS.iterations_per_loop,
        evaluate_steps=FLAGS.evaluate_steps,
        best_metric=best_metric,
        patience=patience,
        profile_steps=training_flags.profile_steps(num_train_steps),
    )


def pretraining_plan() -> loop.Plan:
    """The plan of pretraining; the last checkpoint counts, as in the original."""
    if FLAGS.do_train and FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
        logging.warning(
            "--num_warmup_steps=%d is not less than --num_train_steps=%d, so the rate "
            "never reaches --learning_rate=%s; a tenth of the steps is usual",
            FLAGS.num_warmup_steps,
            FLAGS.num_train_steps,
            FLAGS.learning_rate,
        )
    return plan_of_steps(FLAGS.num_train_steps, FLAGS.num_warmup_steps)


def make_settings(
    strategy: Any,
    plan: loop.Plan | None,
    *,
    config: Mapping[str, Any],
    init_checkpoint: str,
    adagrad_settings: Mapping[str, float] | None = None,
    **others: Any,
) -> run_settings.Settings:
    """Settings of any run; `config` is that of the network.

    `adagrad_settings` are settings of that optimizer which the task decides.
    """
    return run_settings.Settings(
        output_dir=FLAGS.output_dir,
        init_checkpoint=init_checkpoint,
        seed=FLAGS.seed,
        trains=FLAGS.do_train,
        overwrite=FLAGS.overwrite_output_dir,
        plan=plan,
        strategy=strategy,
        jit_compile=device_setup.compiles(strategy),
        dtype_policy=device_flags.dtype_policy(),
        optimizer=functools.partial(
            _OPTIMIZERS[FLAGS.optimizer], **_optimizer_settings(adagrad_settings or {})
        ),
        batch_size=FLAGS.train_batch_size,
        micro_batches=FLAGS.gradient_accumulation_steps,
        scales_loss=FLAGS.mixed_precision == "float16",
        packs_sequences=training_flags.packs_sequences(),
        max_to_keep=FLAGS.keep_checkpoint_max,
        identity={
            "config": dict(config),
            **training_flags.weight_flags(),
            **(checkpoints.identity(init_checkpoint) if FLAGS.do_train else {}),
        },
        flags=command_line.values(),
        command=command_line.command(),
        describe=device_flags.describe,
        **others,
    )


def _optimizer_settings(adagrad_settings: Mapping[str, float]) -> dict[str, Any]:
    name, flag = FLAGS.optimizer, FLAGS["adam_bias_correction"]
    decay = FLAGS["weight_decay_rate"]
    command_line.refuse(
        (
            name == "adagrad" and flag.value,
            f"{flag.serialize()} is for --optimizer=adam, but it is adagrad, which has "
            "no moments; leave one of them out",
        ),
        (
            name == "adagrad" and decay.value != decay.default,
            f"{decay.serialize()}: --optimizer=adagrad has no weight decay; leave one "
            "of them out",
        ),
        (
            name == "gpt_adam" and flag.present and not flag.value,
            f"{flag.serialize()} contradicts --optimizer=gpt_adam, which always "
            "corrects the bias; leave one of them out",
        ),
    )
    if name == "adagrad":
        return dict(adagrad_settings)
    corrects = flag.value or name == "gpt_adam"
    return {"bias_correction": corrects, "weight_decay_rate": decay.value}


def _layer_rates(
    config: Any, num_examples: int, has_head: bool
) -> layer_rates.LayerRates | None:
    decay, epochs = FLAGS.layerwise_lr_decay, FLAGS.unfreeze_epochs
    if decay == 1 and not epochs:
        return None
    flag = FLAGS["unfreeze_epochs" if decay == 1 else "layerwise_lr_decay"].serialize()
    is_frozen = "freeze_encoder" in FLAGS and FLAGS.freeze_encoder
    command_line.refuse(
        (
            is_frozen or config.network == "encoder_decoder",
            f"{flag} trains layers below a head, which an encoder-decoder and "
            "--freeze_encoder do not; leave it out",
        )
    )
    # Until embeddings are trained, too.
    needed = (config.num_blocks + has_head) * epochs
    if FLAGS.do_train and needed >= FLAGS.num_train_epochs:
        logging.warning(
            "--unfreeze_epochs=%g: lower layers are never trained in %g epochs; all "
            "layers need more than %g",
            epochs,
            FLAGS.num_train_epochs,
            needed,
        )
    steps = num_examples / FLAGS.train_batch_size * epochs
    return layer_rates.LayerRates(decay, steps)


def set_up() -> Any:
    """Checks what needs no data, or raises ValueError; returns the strategy."""
    training_flags.check_seeds("seed", [FLAGS.seed])
    combinations: list[dict[str, Any]] = [{}]
    if "seeds" in FLAGS:
        fine_tuning_flags.check_run()
        combinations = fine_tuning_flags.grid() or combinations
    strategy = device_setup.set_up()
    for values in combinations if FLAGS.do_train else ():
        with command_line.changed(values):
            device_setup.check_batch_size(strategy)
    return strategy


def fine_tuning_settings(
    strategy: Any,
    opened: model_directory.ModelDirectory,
    *,
    num_examples: int,
    score_names: Sequence[str],
    has_head: bool = True,
) -> driver.Settings:
    """Settings of fine-tuning; score_names begin with the main one.

    `has_head` is whether the network has trained layers above its own.
    """
    static = device_flags.has_static_shapes()

    def one_run(values: Mapping[str, Any]) -> run_settings.Settings:
        with command_line.changed(values):
            return make_settings(
                strategy,
                plan(num_examples, score_names) if FLAGS.do_train else None,
                config=opened.config.to_dict(),
                init_checkpoint=opened.files.init_checkpoint,
                layers=_layer_rates(opened.config, num_examples, has_head),
            )

    combinations = grid.combine(fine_tuning_flags.grid(), one_run)
    return driver.Settings(
        run=one_run(combinations[0].values if combinations else {}),
        seeds=fine_tuning_flags.seeds(),
        combinations=combinations,
        evaluates="do_eval" in FLAGS and FLAGS.do_eval,
        predicts=FLAGS.do_predict,
        exports=FLAGS.do_export,
        group_by_length=FLAGS.group_by_length and not static,
        pad_to=next(iter(model_flags.lengths().values())) if static else None,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.predict_batch_size,
        reports=FLAGS.write_report,
        default_flags=command_line.defaults(),
        feature_cache=_feature_cache(),
    )


def _feature_cache() -> feature_cache.FeatureCache | None:
    if "feature_cache" not in FLAGS or FLAGS.feature_cache == "none":
        return None
    return feature_cache.FeatureCache(FLAGS.feature_cache)


def first_weights(files: pretrained.ModelFiles) -> str:
    """Where the weights are that a run begins with: its own, or of --pretrained."""
    directory = FLAGS.output_dir
    if "seeds" in FLAGS:
        if combinations := fine_tuning_flags.grid():
            directory = grid.directory_of(combinations[0], directory)
        if several := fine_tuning_flags.seeds():
            directory = grid.seed_directory(several[0], directory)
    is_new = FLAGS.do_train and FLAGS.overwrite_output_dir
    has_own = not is_new and checkpoints.all_checkpoints(directory)
    return directory if has_own else files.init_checkpoint


def find_head(
    opened: model_directory.ModelDirectory, head: str
) -> label_maps.Head | None:
    """The classifier or tagger that the run begins with."""
    weights = first_weights(opened.files)
    goes_on = weights != opened.path
    return opened.with_weights(weights).find_head(head, goes_on=goes_on)


def num_texts(opened: model_directory.ModelDirectory) -> int | None:
    """How many texts the weights that the run begins with take; None: unknown."""
    return opened.with_weights(first_weights(opened.files)).num_texts


def reading(files: pretrained.ModelFiles, num_texts: int = 1) -> head_config.HeadConfig:
    """The layers and the head of the run, as in head_config.choose."""
    return head_config.choose(
        feature_flags.present(),
        first_weights(files),
        trains=FLAGS.do_train,
        num_texts=num_texts,
    )


def export(
    model: Any,
    make: Callable[[Iterable[Any]], export_lib.ServedModel],
    output_dir: str,
    files: Mapping[str, str] | None = None,
) -> str:
    """Writes output_dir/export/<n>, or export_litert/<n>, export_onnx/<n>.

    `make` maps the model's variables, which are joined meanwhile, to what is served;
    `files` are as in `formats.save`.
    """
    has_formats = "export_format" in FLAGS
    with kernels_tf.joined_projections(model) as variables:
        return formats.save(
            make(variables),
            output_dir,
            files or {},
            model=model,
            export_format=FLAGS.export_format
            if has_formats
            else export_formats.SAVED_MODEL,
            quantization=FLAGS.quantization if has_formats else "none",
            server_config=FLAGS.export_server_config,
        )


def fine_tune(prepare: Callable[[], tuple[driver.FineTuningTask, Any]]) -> None:
    """The `main` of a script whose `prepare` reads and checks all input."""
    command_line.quiet_libraries()
    with errors.explained():
        if FLAGS.pretrained and not FLAGS.do_train:
            _take_lengths()
        task, settings = prepare()
        does: Callable[..., Any] = driver.run_once
        if settings.combinations:
            does = grid.run_grid
        elif settings.seeds:
            does = grid.run_with_seeds
        lost = run.lost_workers_named(settings.run.strategy)
        with run_directory.held(settings.run), lost:
            does(task, settings)


def _take_lengths() -> None:
    """Texts are cut as they were for the weights, where no flag sets the length."""
    for name in model_flags.LENGTHS:
        if name in FLAGS and not FLAGS[name].present:
            length = model_directory.trained_with(FLAGS.pretrained, name)
            if length not in (None, FLAGS[name].value):
                FLAGS[name].value = length
                print(f"{name}: {length}, as {FLAGS.pretrained} was trained")
