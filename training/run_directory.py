"""The files of a run beside its checkpoints, and which run a directory belongs to."""

import contextlib
import fnmatch
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from contract import (
    atomic_files,
    errors,
    export_formats,
    file_names,
    json_files,
    locks,
    remote_files,
    wording,
)
from training import checkpoints, facts, run_plan, tensorboard

_EXPORTING = "exporting.json"  # what a command exports, until it ends
# What an evaluation or prediction replaces, as patterns below its directory.
_REPLACED = (
    file_names.EVAL_RESULTS,
    file_names.TEST_RESULTS,
    file_names.TEST_PREDICTIONS,
    file_names.TEST_TABLE,
    file_names.TEST_TEXTS,
    file_names.TEST_VECTORS,
    *file_names.SUBMISSIONS,
    file_names.FEW_LABELS,
    *(f"{name}{file_names.TF_RECORD_ENDING}" for name in ("train", "eval", "predict")),
    file_names.SQUAD_PREDICTIONS,
    file_names.SQUAD_NBEST,
    file_names.SQUAD_NULL_ODDS,
    f"{file_names.TEST_TAGS}.*",
    file_names.REPORT_JSON,
    file_names.REPORT_PAGE,
    file_names.EXPLANATIONS,
    file_names.TO_LABEL,
)
# What a training replaces as well.
_TRAINED = "checkpoint", file_names.ADAPTER_CONFIG, file_names.ADAPTER_WEIGHTS
# All that runs write, and that --overwrite_output_dir removes.
_WRITTEN = (
    f"{file_names.CHECKPOINT_PREFIX}-*",
    *_TRAINED,
    f"*{atomic_files.SUFFIX}*",
    f"*{tensorboard.HPARAMS_SUFFIX}",
    *_REPLACED,
    file_names.LABEL_MAP,
    # Of these a later run may have none.
    file_names.GENERATION_CONFIG,
    file_names.HEAD,
    file_names.RECIPE,
    file_names.LABEL_ERRORS,
    file_names.ADDED_TOKENS,
    file_names.HARD_NEGATIVES,
    _EXPORTING,
    *(f"{split}/events.out.tfevents.*" for split in ("train", "eval")),
    "train/plugins/profile",
    *(f"eval/{name}" for name in tensorboard.PROJECTOR_FILES),
    *(f"{export_formats.folder(name)}/[0-9]*" for name in export_formats.FORMATS),
    file_names.FEATURE_CACHE,  # of earlier versions
    file_names.EVALUATED,
    file_names.RUN,  # last, so that a killed `clear` can go on
)
# Removed where nothing is left in them.
_FOLDERS = (
    "train/plugins",
    "train",
    "eval",
    *map(export_formats.folder, export_formats.FORMATS),
)
# Flags whose value is a directory of weights, a checkpoint, or a file of them.
_WEIGHTS_FLAGS = frozenset({"pretrained", "init_checkpoint", "teacher"})


def resumes(directory: str, identity: Mapping[str, Any], *, overwrite: bool) -> bool:
    """Whether the directory holds checkpoints of the run about to start.

    `identity` is what makes two runs the same: model, data, batch size, seed; {} for an
    evaluation, which goes with any run. Raises ValueError if another run is there,
    naming the difference, or if `directory` is a file.
    """
    remote_files.refuse_patterns(directory, "--output_dir")
    if tf.io.gfile.exists(directory) and not tf.io.gfile.isdir(directory):
        raise errors.InputError(
            f"--output_dir={directory} is a file; name a directory, new or not"
        )
    if overwrite:
        return False
    check_identity(directory, file_names.RUN, identity)
    return bool(checkpoints.all_checkpoints(directory))


def check_identity(directory: str, name: str, identity: Mapping[str, Any]) -> None:
    """Raises ValueError if the record `name`, where there is one, has another."""
    path = os.path.join(directory, name)
    if not tf.io.gfile.exists(path):
        return
    before = _identity(path)
    identity = json.loads(json.dumps(dict(identity)))  # lists for tuples, as in a file
    known = {key: identity[key] for key in identity if key in before}
    if differing := wording.differences(before, known):
        raise errors.InputError(
            f"--output_dir={directory} holds another run: {differing}; "
            "choose another directory, or add --overwrite_output_dir to replace it"
        )


def _identity(path: str) -> dict[str, Any]:
    try:
        with tf.io.gfile.GFile(path) as file:
            return dict(json.loads(file.read())["identity"])
    except (
        *(ValueError, KeyError, TypeError, RecursionError),
        tf.errors.OpError,
    ) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}), so it does not say whose run this is; "
            "choose another directory, or add --overwrite_output_dir to replace it"
        ) from error


def check(plan: run_plan.Plan, files: Mapping[str, str]) -> None:
    """Refuses to replace files that no run wrote, or to remove what the run reads.

    `files` are those of `begin`, of a run that trains; flags have the paths that the
    run reads.
    """
    directory, overwrite = plan.output_dir, plan.overwrite and plan.trains
    if not tf.io.gfile.exists(os.path.join(directory, file_names.RUN)):
        foreign = [name for name in files if _differs(directory, name, files[name])]
        if not _is_ours(directory):
            for pattern in _REPLACED + (_TRAINED if plan.trains else ()):
                paths = remote_files.matching(directory, pattern)
                foreign += map(os.path.basename, paths)
        if overwrite:
            checkpoints_there = checkpoints.all_checkpoints(directory)
            foreign += map(os.path.basename, checkpoints_there[:1])
        if foreign:
            raise errors.InputError(
                f"--output_dir={directory} has another {foreign[0]} and no "
                f"{file_names.RUN}, so no run wrote it; choose another directory"
            )
    if overwrite:
        written = [*_written(directory), *_stale(directory, files)]
        for flag, value in plan.flags.items():
            if isinstance(value, str) and (lost := _lost(flag, value, written)):
                raise errors.InputError(
                    f"--overwrite_output_dir removes {lost}, which --{flag}={value} "
                    "reads; choose another --output_dir"
                )


def _is_ours(directory: str) -> bool:
    """Whether a command wrote in the directory before, also one of the original."""
    marks = file_names.RUN, file_names.EVALUATED, file_names.GRID
    paths = (os.path.join(directory, name) for name in marks)
    return any(map(tf.io.gfile.exists, paths)) or bool(
        checkpoints.all_checkpoints(directory)
    )


def mark(plan: run_plan.Plan) -> None:
    """Leaves a mark of a command that does not train, which `check` finds later."""
    directory = plan.output_dir
    if (plan.evaluates or plan.predicts) and not _is_ours(directory):
        path = os.path.join(directory, file_names.EVALUATED)
        atomic_files.write_text(path, f"{plan.command}\n")


def _differs(directory: str, name: str, text: str) -> bool:
    path = os.path.join(directory, name)
    if not remote_files.exists(path):
        return False
    with remote_files.open_file(path) as file:
        return file.read() != text.encode()


def _lost(flag: str, value: str, written: Sequence[str]) -> str:
    """The first written file that a flag's comma-separated paths and globs name."""
    is_one = flag in _WEIGHTS_FLAGS  # and may be a directory of a grid, with commas
    parts = [value] if is_one else value.split(",")
    for part in map(os.path.abspath, filter(None, parts)):
        for path in written:
            place = os.path.abspath(path)
            if (
                place in (part, f"{part}.index")
                or fnmatch.fnmatchcase(place, part)
                or (is_one and os.path.dirname(place) == part)
            ):
                return path
    return ""


def _written(directory: str) -> list[str]:
    """Paths of what an earlier run wrote; none where no run.json shows a run."""
    if not tf.io.gfile.exists(os.path.join(directory, file_names.RUN)):
        return []
    paths = (
        path
        for pattern in _WRITTEN
        for path in remote_files.matching(directory, pattern)
    )
    return list(dict.fromkeys(paths))


def _stale(directory: str, files: Iterable[str]) -> list[str]:
    """Paths that the run.json of an earlier run names and a run of `files` has not.

    They would say of its weights what is true of others, such as another network.
    """
    names = {os.path.normpath(name) for name in _files(directory)}
    names -= {os.path.normpath(name) for name in files}
    inside = (name for name in names if not os.path.isabs(name) and name[:2] != "..")
    paths = (os.path.join(directory, name) for name in sorted(inside))
    return [path for path in paths if tf.io.gfile.exists(path)]


def _files(directory: str) -> list[str]:
    """The names of `begin`'s files in run.json, as far as it has some."""
    path = os.path.join(directory, file_names.RUN)
    with contextlib.suppress(errors.InputError):
        names = json_files.read_object(path).get("files")
        return [str(name) for name in names] if isinstance(names, list) else []
    return []


def clear(directory: str, files: Iterable[str] = ()) -> None:
    """Removes what an earlier run wrote, and nothing else; `files` stay."""
    folders = [*_FOLDERS]
    for path in _stale(directory, files):
        tf.io.gfile.remove(path)
        folders.append(os.path.relpath(os.path.dirname(path), directory))
    for path in _written(directory):
        remove = tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove
        remove(path)
    for name in folders:
        path = os.path.join(directory, name)
        is_below = name != os.curdir and tf.io.gfile.isdir(path)
        if is_below and not tf.io.gfile.listdir(path):
            tf.io.gfile.rmtree(path)


def held(plan: run_plan.Plan) -> contextlib.AbstractContextManager[None]:
    """Keeps other trainings out of the directory; an evaluation goes on beside one.

    Entering it raises InputError where another process trains there.

    Differs from google-research/bert: there both remove and mix checkpoints.
    """
    directory = plan.output_dir
    if plan.trains and plan.writes:
        return locks.directory(directory, f"--output_dir={directory}")
    return contextlib.nullcontext()


def begin(
    plan: run_plan.Plan,
    *,
    resumes: bool,
    identity: Mapping[str, Any],
    files: Mapping[str, str],
) -> None:
    """Makes the directory and writes run.json and the files that go with the weights.

    A plan to `overwrite` first removes what another run wrote. A run that `resumes`
    keeps its run.json until it trains. `files` {name: text}, such as bert_config.json,
    make the directory a value of --pretrained.
    """
    directory = plan.output_dir
    if plan.overwrite:
        clear(directory, files)
    for name, text in files.items():
        atomic_files.write_text(os.path.join(directory, name), text)
    path = os.path.join(directory, file_names.RUN)
    if not (resumes and tf.io.gfile.exists(path)):
        _write_record(plan, identity, files)


def go_on(plan: run_plan.Plan) -> None:
    """Puts into run.json the flags that a run trains with from here on.

    To the identity it adds what earlier versions did not count.
    """
    path = os.path.join(plan.output_dir, file_names.RUN)
    if plan.writes and tf.io.gfile.exists(path):
        identity = {**plan.identity, **_identity(path)}
        _write_record(plan, identity, _files(plan.output_dir))


def _write_record(
    plan: run_plan.Plan, identity: Mapping[str, Any], files: Iterable[str]
) -> None:
    record = {
        "identity": dict(identity),
        "command": plan.command,
        "files": sorted(files),  # those of `begin`
        "flags": dict(plan.flags),
        "versions": facts.versions(),
        "git_revision": facts.git_revision(),
    }
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    atomic_files.write_text(os.path.join(plan.output_dir, file_names.RUN), text)


def export_once(plan: run_plan.Plan, step: int, export: Callable[[], str]) -> str:
    """Exports; or returns what the same command has exported, if it was killed then."""
    path = os.path.join(plan.output_dir, _EXPORTING)
    versions = remote_files.matching(plan.output_dir, "export*/[0-9]*")
    begun = {"command": plan.command, "step": step, "before": versions}
    earlier = json_files.read_object(path) if tf.io.gfile.exists(path) else {}
    before = earlier.get("before", versions)
    new = set(versions) - set(before)
    if new and earlier == {**begun, "before": before}:
        return min(new)
    atomic_files.write_json(path, begun)
    return export()


def end(plan: run_plan.Plan) -> None:
    """From here on the same command exports anew."""
    atomic_files.remove(os.path.join(plan.output_dir, _EXPORTING))


def write_results(path: str, results: Mapping[str, Any]) -> None:
    """eval_results.txt: sorted lines of `key = value`, as the original writes them."""
    # str, not format: a float32 is printed with the digits it has
    lines = [f"{key} = {results[key]!s}\n" for key in sorted(results)]
    atomic_files.write_text(path, "".join(lines))


def record(
    plan: run_plan.Plan,
    step: int,
    scores: Mapping[str, Any],
    results: Mapping[str, Any],
) -> None:
    """Writes scores to TensorBoard, results to a file; InputError if that fails.

    Weights of an earlier step than the run's last, such as its best, add no points to
    the curves: after a step back TensorBoard drops the points in between.
    """
    if not plan.writes:
        return
    directory = plan.output_dir
    newest = checkpoints.all_checkpoints(directory)[-1:]
    goes_back = any(step < checkpoints.step_of(prefix) for prefix in newest)
    reporter = tensorboard.Reporter(directory, step)
    with contextlib.closing(reporter):
        if not goes_back:
            reporter.write("eval", step, scores)
        write_results(os.path.join(directory, file_names.EVAL_RESULTS), results)


def show(plan: run_plan.Plan, step: int, shown: Mapping[str, Any]) -> None:
    """Writes what Reporter.show takes to TensorBoard; InputError if that fails."""
    reporter = tensorboard.Reporter(plan.output_dir, step)
    with contextlib.closing(reporter):
        reporter.show("eval", step, shown)
