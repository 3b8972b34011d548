"""Plans of runs that train, from the settings of a command."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from absl import logging

from contract import errors, export_formats, file_names, remote_files
from data_pipeline import label_maps
from data_pipeline.batches import packing
from loading import model_directory
from modeling import kernels_tf
from modeling.checkpoints import adapters
from modeling.features import head_config
from serving import export as export_lib
from serving import formats
from tasks import device_setup
from tasks.settings import fields, fine_tuning, training
from training import (
    checkpoints,
    driver,
    feature_cache,
    grid,
    layer_rates,
    lora,
    run,
    run_directory,
    run_plan,
    schedule,
)
from training.distribution import devices
from training.optimizers import choices

Own = TypeVar("Own", bound=fine_tuning.FineTuning)
_MOST_EXAMPLES = 2**31 - 1  # of all epochs together


def timetable(
    settings: fine_tuning.FineTuning, num_examples: int, metrics: Sequence[str]
) -> run_plan.Timetable:
    """The timetable of a run over labelled rows; the most important metric is first.

    Raises InputError if the examples make no step, or too many, or --best_metric is not
    a metric.
    """
    num_train_steps = schedule.count_steps(
        num_examples, settings.train_batch_size, settings.num_train_epochs
    )
    best_metric = settings.best_metric or next(iter(metrics), "")
    errors.refuse(
        (
            num_train_steps == 0,
            f"{num_examples} training examples make no step of --train_batch_size="
            f"{settings.train_batch_size}; lower the batch size or train longer",
        ),
        (
            num_train_steps * settings.train_batch_size > _MOST_EXAMPLES,
            f"--num_train_epochs={settings.num_train_epochs} of {num_examples} "
            f"training rows are more than {_MOST_EXAMPLES:,}, whose order is held; "
            "lower it",
        ),
        (
            metrics and best_metric not in metrics,
            f"--best_metric={best_metric} is none of the scores of this task: "
            f"{', '.join(metrics)}",
        ),
    )
    return timetable_of_steps(
        settings,
        num_train_steps,
        num_train_steps * settings.warmup_proportion,
        best_metric,
        settings.early_stopping_patience,
    )


def timetable_of_steps(
    settings: training.Training,
    num_train_steps: int,
    num_warmup_steps: float,
    best_metric: str = "",
    patience: int = 0,
) -> run_plan.Timetable:
    """The timetable of a run with a known number of steps."""
    rate = schedule.SCHEDULES[settings.learning_rate_schedule](
        settings.learning_rate, num_train_steps, num_warmup_steps
    )
    return run_plan.Timetable(
        num_train_steps=num_train_steps,
        learning_rate=rate,
        save_steps=settings.save_checkpoints_steps,
        log_steps=settings.steps_between_logs(num_train_steps),
        max_steps_per_call=settings.iterations_per_loop,
        evaluate_steps=settings.evaluate_steps,
        best_metric=best_metric,
        patience=patience,
        profile_steps=settings.steps_to_profile(num_train_steps),
    )


def make_plan(
    settings: training.Training,
    strategy: Any,
    *,
    config: Mapping[str, Any],
    init_checkpoint: str,
    optimizer_settings: Mapping[str, float] | None = None,
    **others: Any,
) -> run_plan.Plan:
    """The plan of any run; `config` is that of the network.

    `optimizer_settings` are those that the task decides for its usual optimizer;
    `others` are of the Plan.
    """
    optimizer = choices.kind(settings.optimizer)
    return run_plan.Plan(
        output_dir=str(settings.output_dir),
        seed=settings.seed,
        strategy=strategy,
        init_checkpoint=init_checkpoint,
        overwrite=settings.overwrite_output_dir,
        trains=settings.do_train,
        exports=settings.do_export,
        reports=settings.write_report,
        jit_compile=device_setup.compiles(settings, strategy),
        dtype_policy=settings.dtype_policy,
        optimizer=optimizer,
        optimizer_arguments=optimizer.arguments(settings, optimizer_settings or {}),
        batch_size=settings.train_batch_size,
        micro_batches=settings.gradient_accumulation_steps,
        scales_loss=settings.mixed_precision == "float16",
        packs_sequences=settings.packs_sequences,
        max_to_keep=settings.keep_checkpoint_max,
        eval_batch_size=settings.eval_batch_size,
        identity={
            "config": dict(config),
            **settings.that_change(fields.WEIGHTS),
            **(checkpoints.identity(init_checkpoint) if settings.do_train else {}),
        },
        flags=settings.values(),
        default_flags=settings.defaults(),
        command=settings.command(),
        describe=settings.describe,
        **others,
    )


def _layer_rates(
    settings: fine_tuning.FineTuning, config: Any, num_examples: int, has_head: bool
) -> layer_rates.LayerRates | None:
    decay, epochs = settings.layerwise_lr_decay, settings.unfreeze_epochs
    if decay == 1 and not epochs:
        return None
    flag = settings.typed("unfreeze_epochs" if decay == 1 else "layerwise_lr_decay")
    errors.refuse(
        (
            settings.trains_head_alone,
            f"{flag} trains layers below a head, which --freeze_encoder does not; "
            "leave it out",
        ),
        (
            config.spec.inputs is None,
            f"{flag} trains layers below a head, and those of a network of "
            f"{config.kind} have no order; leave it out",
        ),
    )
    # Until embeddings are trained, too.
    needed = (config.num_blocks + has_head) * epochs
    if settings.do_train and needed >= settings.num_train_epochs:
        logging.warning(
            "--unfreeze_epochs=%g: lower layers are never trained in %g epochs; all "
            "layers need more than %g",
            epochs,
            settings.num_train_epochs,
            needed,
        )
    steps = num_examples / settings.train_batch_size * epochs
    return layer_rates.LayerRates(config.spec.depth, decay, steps)


def _lora(settings: fine_tuning.FineTuning, config: Any) -> lora.Lora | None:
    if not settings.lora_rank:
        return None
    errors.refuse(
        (
            settings.trains_head_alone,
            f"{settings.typed('lora_rank')} trains layers below a head, which "
            "--freeze_encoder does not; leave it out",
        ),
        (
            not settings.lora_alpha,
            f"{settings.typed('lora_alpha')} changes no kernel; give such as 8",
        ),
    )
    base = settings.pretrained or settings.init_checkpoint or ""
    made = lora.Lora(
        settings.lora_rank, settings.lora_alpha, settings.lora_targets, base
    )
    adapters.find_targets(config, made.targets)
    width, typed = config.hidden_size, settings.typed("lora_rank")
    errors.refuse(
        (
            settings.lora_rank > width,
            f"{typed} exceeds the width of layers, {width}, above which two matrices "
            "are not narrower than the kernel; give such as 8",
        ),
        (
            settings.do_train and not base,
            f"{typed} leaves the weights below heads as they are, and there are none; "
            "give --pretrained",
        ),
    )
    if base and remote_files.exists(os.path.join(base, file_names.ADAPTER_CONFIG)):
        logging.warning(
            "%s has an adapter, and that of this run is for the weights with it; so "
            "that PEFT can open the new one, write them first: convert_checkpoint.py "
            "--input=%s --to=hugging_face --output_dir=DIR, and --pretrained=DIR",
            *(base, base),
        )
    return made


def set_up(settings: training.Training) -> Any:
    """Checks what needs the devices, or raises InputError; returns their strategy."""
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = device_setup.set_up(settings)
    if settings.do_train:
        for values in settings.combinations() or [{}]:
            device_setup.check_batch_size(settings.with_values(**values), strategy)
    return strategy


def fine_tuning_plan(
    settings: fine_tuning.FineTuning,
    strategy: Any,
    opened: model_directory.ModelDirectory,
    *,
    num_examples: int,
    score_names: Sequence[str],
    has_head: bool = True,
) -> run_plan.Plan:
    """The plan of fine-tuning; score_names begin with the main one.

    `has_head` is whether the network has trained layers above its own.
    """
    static = settings.has_static_shapes
    kind = settings.kept_states
    cache = feature_cache.FeatureCache(kind) if kind else None

    def one_run(values: Mapping[str, Any]) -> run_plan.Plan:
        own = settings.with_values(**values)
        return make_plan(
            own,
            strategy,
            config=opened.config.to_dict(),
            init_checkpoint=opened.files.init_checkpoint,
            timetable=timetable(own, num_examples, score_names)
            if own.do_train
            else None,
            layers=_layer_rates(own, opened.config, num_examples, has_head),
            lora=_lora(own, opened.config),
            evaluates=own.evaluates,
            predicts=own.do_predict,
            group_by_length=own.group_by_length and not static,
            pad_to=next(iter(own.lengths.values())) if static else None,
            predict_batch_size=own.predict_batch_size,
            feature_cache=cache,
            rewrites_graphs=devices.rewrites_steps(strategy)
            or own.gradient_accumulation_steps > 1,
            # An export alone reads rows for its scales, if any.
            writes_records=own.do_train or own.evaluates or own.do_predict,
        )

    combinations = grid.combine(settings.combinations(), one_run)
    return dataclasses.replace(
        one_run(combinations[0].values if combinations else {}),
        seeds=settings.seed_numbers,
        combinations=combinations,
    )


def first_weights(
    settings: training.Training, files: model_directory.ModelFiles
) -> str:
    """Where the weights are that a run begins with: its own, or of --pretrained."""
    directory = str(settings.output_dir)
    if combinations := settings.combinations():
        directory = grid.directory_of(combinations[0], directory)
    if several := settings.seed_numbers:
        directory = grid.seed_directory(several[0], directory)
    is_new = settings.do_train and settings.overwrite_output_dir
    has_own = not is_new and checkpoints.all_checkpoints(directory)
    return directory if has_own else files.init_checkpoint


def first_head(
    settings: training.Training, opened: model_directory.ModelDirectory, head: str
) -> label_maps.Head | None:
    """The classifier or tagger that the run begins with."""
    weights = first_weights(settings, opened.files)
    goes_on = weights != opened.path
    return opened.with_weights(weights).stored_head(head, goes_on=goes_on)


def num_texts(
    settings: training.Training, opened: model_directory.ModelDirectory
) -> int | None:
    """How many texts the weights that the run begins with take; None: unknown."""
    return opened.with_weights(first_weights(settings, opened.files)).num_texts


def reading(
    settings: Any, files: model_directory.ModelFiles, num_texts: int = 1
) -> head_config.HeadConfig:
    """The layers and the head of the run, as in head_config.choose."""
    return head_config.choose(
        settings.head_values(),
        first_weights(settings, files),
        trains=settings.do_train,
        num_texts=num_texts,
    )


def export(
    settings: training.Exports,
    model: Any,
    make: Callable[[Iterable[Any]], export_lib.ServedModel],
    output_dir: str,
    files: Mapping[str, str] | None = None,
    *,
    export_format: str = export_formats.SAVED_MODEL,
    quantization: str = "none",
    calibration: packing.Packed | None = None,
) -> str:
    """Writes output_dir/export/<n>, or export_litert/<n>, export_onnx/<n>.

    `make` maps the model's variables, which are joined meanwhile, to what is served;
    other arguments are as in `formats.save`.
    """
    with kernels_tf.joined_projections(model) as variables:
        return formats.save(
            make(variables),
            output_dir,
            files or {},
            model=model,
            export_format=export_format,
            quantization=quantization,
            calibration=calibration,
            server_config=settings.export_server_config,
        )


def fine_tune(
    prepare: Callable[[Own], tuple[grid.Task, run_plan.Plan]],
    settings: Own,
) -> None:
    """Does the task that `prepare` makes, which reads and checks all input."""
    task, plan = prepare(with_lengths(settings))
    does: Callable[..., Any] = driver.run_once
    if plan.combinations:
        does = grid.run_grid
    elif plan.seeds:
        does = grid.run_with_seeds
    lost = run.lost_workers_named(plan.strategy)
    with run_directory.held(plan), lost:
        does(task, plan)


def with_lengths(settings: Own) -> Own:
    """Texts are cut as they were for the weights, where no setting is given for it."""
    path = settings.pretrained
    for name, length in settings.lengths.items():
        if path and not settings.do_train and name not in settings.given:
            trained = model_directory.read_run(path).flags.get(name)
            if trained not in (None, length):
                settings = settings.with_values(**{name: trained})
                print(f"{name}: {trained}, as {path} was trained")
    return settings
