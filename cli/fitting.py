"""Models that the scripts' own tasks train and score, on rows in memory.

`fit` does what a script does with the same flags: the same steps in the same order, and
so the same weights, checkpoints, curves and report.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import tensorflow as tf

from cli import argument_names, library
from contract import (
    atomic_files,
    errors,
    export_formats,
    file_names,
    outcomes,
    remote_files,
    wording,
)
from data_pipeline import head_classes, label_maps
from data_pipeline.classification import labels as labels_lib
from data_pipeline.classification import sources
from data_pipeline.classification import split as labelled_rows
from data_pipeline.tables import labelled, memory_rows, text_rows
from loading import model_directory
from modeling.checkpoints import checkpoint
from modeling.configs import config_limits
from tasks.settings import fields, fine_tuning
from tasks.settings import tables as table_settings
from tasks.settings.classifier import ClassifierSettings
from tasks.settings.embedding import EmbeddingSettings
from tasks.settings.squad import SquadSettings
from tasks.settings.tagger import TaggerSettings
from training import metrics

Own = TypeVar("Own", bound="FittedModel[Any]")
_Fit = TypeVar("_Fit", bound=Callable[..., Any])
OwnSettings = TypeVar("OwnSettings", bound=fine_tuning.FineTuning)
_LOCK = threading.RLock()  # streams, seeds and options of TensorFlow are of all threads
_ELSEWHERE = {  # arguments of Keras and transformers, by what they are called here
    "batch_size": "train_batch_size",
    "bf16": 'mixed_precision="bfloat16"',
    "class_weight": "class_weights",
    "dev_file": "dev",
    "epochs": "num_train_epochs",
    "eval_dataset": "dev",
    "eval_steps": "evaluate_steps",
    "fp16": 'mixed_precision="float16"',
    "lr": "learning_rate",
    "lr_scheduler_type": "learning_rate_schedule",
    "max_length": "max_seq_length",
    "max_len": "max_seq_length",
    "metric_for_best_model": "best_metric",
    "n_epochs": "num_train_epochs",
    "num_epochs": "num_train_epochs",
    "patience": "early_stopping_patience",
    "per_device_eval_batch_size": "eval_batch_size",
    "per_device_train_batch_size": "train_batch_size",
    "predict_file": "dev",
    "save_steps": "save_checkpoints_steps",
    "train_dataset": "rows",
    "train_file": "rows",
    "validation_data": "dev",
    "validation_split": "dev_share",
    "warmup": "warmup_proportion",
    "warmup_ratio": "warmup_proportion",
    "weight_decay": "weight_decay_rate",
}
_ROWS = "rows", "dev"  # of them `fit` takes no settings
_OF_FILES = "do_lower_case", "check_case", "check_tokenizer"
_COLUMNS = {*fields.rows(table_settings.Columns), "allow_empty_text"}
_OF_LOADED = {*dir(library.Loaded)}
_OF_LOADED |= {field.name for field in dataclasses.fields(library.Loaded)}


@dataclasses.dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of rows, as in eval_results.txt, and what a report shows of them.

    Attributes:
        results: {name: number}.
        rows: texts, gold answers and predictions; None of vectors of texts.
    """

    results: dict[str, Any]
    rows: outcomes.Outcomes | None

    def __repr__(self) -> str:
        lines = (
            f"{k} = {wording.score(self.results[k])}" for k in sorted(self.results)
        )
        return "\n".join(lines) or "no scores, for the rows have no right answers"

    def __getitem__(self, name: str) -> Any:
        return self.results[name]

    @property
    def confusion(self) -> np.ndarray:
        """Counts int [C, C] of one label a row: right, down, and predicted, across."""
        from reports.measures import diagnostics  # slow to import, as scikit-learn is

        each = self._decisions()
        if each.is_multi_label:
            raise errors.InputError("confusion: rows have several labels; see classes")
        count = len(each.class_names)
        return diagnostics.confusion(each.labels, each.predictions, count)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """Name, rows, predicted, precision, recall and f1 of each class."""
        from reports.measures import class_scores

        each = self._decisions()
        named = each.class_names, each.labels, each.predictions
        return class_scores.collect(*named)[0]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Texts, expected, predicted and loss of each wrong row, the worst first."""
        if (rows := self.rows) is None:
            return []
        wrong = np.flatnonzero(~np.asarray(rows.is_correct))
        return [
            {
                "texts": rows.texts[i],
                "expected": rows.expected[i],
                "predicted": rows.predicted[i],
                "loss": float(rows.losses[i]),
            }
            for i in wrong[np.argsort(-np.asarray(rows.losses)[wrong], kind="stable")]
        ]

    def _decisions(self) -> outcomes.Decisions:
        if self.rows is None or self.rows.decisions is None:
            raise errors.InputError("these rows have no classes; see results")
        return self.rows.decisions


def _with_labels_once(fit: _Fit) -> _Fit:
    """A `fit` that refuses labels of rows and names of classes in one call."""

    @functools.wraps(fit)
    def call(self: Any, rows: Any, *labels: Any, **values: Any) -> Any:
        if labels and "labels" in values:
            raise errors.InputError(
                "labels: those of the rows are the second argument; pass names of "
                f"classes to bert.{type(self).__name__.lower()}(directory, labels=...)"
            )
        return fit(self, rows, *labels, **values)

    return call  # type: ignore[return-value]


class FittedModel(Generic[OwnSettings]):
    """A model that the task of a script trains, scores and exports.

    It has the attributes and methods of Loaded, too, once there is a model: after
    `fit`, or at once where the directory has the head, or `labels` are known.

    Args:
        directory: as in `load`; each `fit` begins with its weights.
        labels: names in the order of ids; by default those of the rows.
        max_seq_length: by default as the flag has it or, before a `fit`, as a run had.
        **settings: further settings of the script, of rows and of the model.

    Attributes:
        output_dir: of the last `fit`, with checkpoints, curves and report; or None.
        results: {name: number} of its dev rows.
    """

    settings_class: ClassVar[type[fine_tuning.FineTuning]]
    evaluates: ClassVar[str] = "do_eval"
    dev_file: ClassVar[str] = "dev_file"
    head: ClassVar[str]  # in pretrainers.HEADS
    opens: ClassVar[str | None] = None  # as of model_directory.open_directory
    names: ClassVar[memory_rows.Names] = {}  # of a row that is no dict
    columns: ClassVar[tuple[str, ...]] = ("text", "label")  # of `fit` with labels
    _classes: Any = None  # of the rows that were read
    _kind = ""  # the problem type of labels
    _served: tuple[Any, Any] = (None, None)  # a Loaded and its export.ServedModel
    _fitted: Mapping[str, Any] = types.MappingProxyType({})  # of the last fit

    def __init__(
        self,
        directory: Any,
        *,
        labels: Sequence[str] = (),
        max_seq_length: int | None = None,
        **settings: Any,
    ):
        self.source = remote_files.resolve(directory, "directory")
        self._labels = library.label_names(labels)
        self.output_dir: str | None = None
        self.results: dict[str, Any] = {}
        self._made: library.Loaded | None = None
        self._end: Any = None  # which removes a temporary output_dir
        self._length, self._settings = max_seq_length, settings
        of_files: Any = {name: settings.get(name) for name in _OF_FILES}
        with argument_names.in_python():
            self._opened, self._usual_length = model_directory.open_directory(
                self.source, max_seq_length, self.opens, **of_files
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _OF_LOADED:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.loaded, name)

    def __getstate__(self) -> dict[str, Any]:  # a temporary directory stays here
        kept = {"output_dir": None} if self._end else {}
        return {**self.__dict__, **kept, "_end": None, "_served": (None, None)}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_OF_LOADED})

    def __repr__(self) -> str:
        kind = type(self).__name__
        return repr(self._made) if self._made else f"<{kind} of {self.source}: to fit>"

    @property
    def loaded(self) -> library.Loaded:
        """The model as `load` returns it; InputError before it has a head."""
        if self._made is None:
            self._made = self._open()
        return self._made

    @_with_labels_once
    def fit(
        self: Own,
        rows: Any,
        labels: Any = None,
        *,
        dev: Any = None,
        output_dir: Any = None,
        settings: OwnSettings | None = None,
        **values: Any,
    ) -> Own:
        """Trains from the weights of `directory`, as the script does; returns itself.

        With an `output_dir` a `fit` that was broken off goes on at its last checkpoint.

        Args:
            rows: the path of a table, a DataFrame, a list of dicts or tuples, a Parquet
                file or a data set of Hugging Face; or a list of texts.
            labels: of each text, where rows are texts, or pairs of texts.
            dev: rows to evaluate on, at the end or every `evaluate_steps`; or a tuple
                of texts and labels.
            output_dir: a directory for all that a run writes; by default a temporary
                one, which goes with this object.
            settings: those of the script, as ClassifierSettings(learning_rate=3e-5).
            **values: the same by name, such as learning_rate=3e-5.

        Raises:
            ValueError: rows or settings are wrong.
            KeyboardInterrupt: the run was stopped, and its last step is saved.
        """
        values = self._chosen(settings, values)
        output_dir = output_dir or values.pop("output_dir", None)
        known, program = fields.rows(self.settings_class), self.settings_class.program
        for name, here in _ELSEWHERE.items():
            if name in values and here.partition("=")[0] in (*known, *_ROWS):
                raise errors.InputError(f"{name} is {here} here")
        for name in values.keys() & known.keys():
            if not known[name].rules.in_python:
                raise errors.InputError(
                    f"{name} is no argument here; run {program}.py with it"
                )
        directory = output_dir or tempfile.mkdtemp(prefix="bert-")
        directory = remote_files.resolve(directory, "output_dir")
        remove = functools.partial(shutil.rmtree, directory, ignore_errors=True)
        end = None if output_dir else weakref.finalize(self, remove)
        own, values = values, {"max_seq_length": self._length, **values}
        values |= {"do_train": True, "output_dir": directory}
        if self._labels:
            values["labels"] = self._label_file(directory, self._labels)
        given = {"train_file": (rows, labels)}
        if dev is not None:
            # Two columns, and not two rows.
            has_labels = (
                isinstance(dev, tuple)
                and len(dev) == 2
                and not isinstance(dev[0], str | tuple | Mapping)
            )
            given[self.dev_file] = dev if has_labels else (dev, None)
        values[self.evaluates] = dev is not None or bool(own.get("dev_share"))
        policy = library.keras.config.dtype_policy()
        try:
            with self._prepared(values, given) as (task, plan):
                from training import driver, run_directory

                with run_directory.held(plan):
                    outcome = driver.run_once(task, plan)
                made = self._wrap(task, outcome.model, directory)
        except errors.Stopped:
            raise KeyboardInterrupt(
                f"saved in {directory}; the same fit goes on there"
                if output_dir
                else "nothing is kept; with an output_dir a fit can go on"
            ) from None
        except BaseException:
            if end:
                end()
            raise
        finally:
            library.keras.config.set_dtype_policy(policy)
        if self._end:
            self._end()
        self._made, self._end = made, end
        self.output_dir, self.results = directory, dict(outcome.results)
        self._fitted = {k: own[k] for k in own if not known[k].rules.only_trains}
        return self

    def evaluate(self, rows: Any, labels: Any = None) -> Evaluation:
        """Scores, confusions and errors as the script has them; rows as in `fit`."""
        self.loaded.check_trained("evaluate")
        model = self.loaded.model
        given = {self.dev_file: (rows, labels)}
        with self._task(self.evaluates, given) as (task, settings):
            plan = dataclasses.replace(settings, writes_records=False)
            task, evaluation = task.begin(model, plan)
            scored = evaluation("dev", plan.eval_batch_size)
            return Evaluation(task.results(scored), task.outcomes("dev", scored))

    def report(self, path: Any) -> str:
        """Copies report.html of the last `fit` to a path; returns it."""
        path = remote_files.resolve(path, "path")
        page = os.path.join(self.output_dir or "", file_names.REPORT_PAGE)
        if not (self.output_dir and os.path.exists(page)):
            raise errors.InputError(
                "report: there is none yet; call fit(rows, dev=...)"
            )
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        return shutil.copy(page, path)

    @argument_names.in_errors
    def export(
        self,
        export_dir: Any,
        *,
        export_format="saved_model",
        quantization="none",
        rows: Any = None,
    ) -> str:
        """Writes the next version of an export that takes raw text; its path.

        Formats as of `--export_format` and `--quantization`. By `rows`, as of
        `evaluate`, `static_int8` learns how large activations are.
        """
        self.loaded.check_trained("export")
        export_formats.check(export_format, quantization, rows is not None)
        model = self.loaded.model
        form = {"export_format": export_format, "quantization": quantization}
        given = {} if rows is None else {self.dev_file: (rows, None)}
        is_pair = rows is None and self.loaded.num_texts == 2  # rows show it themselves
        pairs = {"text_b_column": "text_b"} if is_pair else {}
        with self._task("do_export", given, **form, **pairs) as (task, _):
            make, files = functools.partial(task.served, model), task.export_files
            form["calibration"] = task.calibration()
            return library.write_export(model, make, export_dir, files, **form)

    def _predict(self, *texts: Any) -> list[dict[str, Any]]:
        """As `Predictor.predict` answers texts by the export."""
        from serving import answers

        made = self.loaded
        made.check_trained("predict")
        if self._served[0] is not made:
            with self._task("do_export", {}) as (task, _):
                self._served = made, task.served(made.model, ())
        served = self._served[1]
        kind = type(made.model).__name__
        columns = answers.columns(texts, served.stages.text_names, kind)
        if not columns[0]:
            return []
        inputs = map(tf.constant, columns)
        outputs = served.functions["serving_default"](*inputs)
        return answers.rows({k: v.numpy() for k, v in outputs.items()}, ())

    def _open(self) -> library.Loaded:
        """The model before a `fit`."""
        opened, classes = self._opened, self._classes
        with argument_names.in_python():
            stored = opened.stored_head(self.head)
            known = stored and stored.classes and label_maps.kind(stored.classes)
            is_new = self._kind == "regression" != known
            if classes is None and (self._labels or is_new):
                named: Any = head_classes.named(self._labels, self._kind)
                classes = label_maps.follow(
                    stored, named, "labels", trains=True, show=argument_names.show
                )
            if classes is None and stored is None:
                raise errors.InputError(
                    f"{self.source} has no {self.head} yet; call fit, or pass labels"
                )
            built = opened.build_new(classes) if classes else opened.read("auto")
        return library.make_loaded(built, opened, self._usual_length)

    def _wrap(self, task: Any, model: Any, directory: str) -> library.Loaded:
        length = task.settings.max_seq_length
        origin = f"fitted from {self.source}, in {directory}"
        return library.Loaded(model, task.tokenizer, task.classes, length, origin)

    def _label_file(self, directory: str, names: Sequence[str]) -> str:
        path = os.path.join(directory, "rows", "labels.txt")
        atomic_files.write_text(path, "".join(f"{name}\n" for name in names))
        return path

    def _write(self, directory: str, name: str, rows: Any, labels: Any) -> str:
        """The path of rows, which are written there unless they are in a file."""
        rows, names = memory_rows.opened(rows), self.names
        if labels is not None:
            if not self.columns:
                raise errors.InputError("labels: answers are in the rows; leave it out")
            rows = memory_rows.paired(self.columns, rows, labels)
            names = {**names, 2: self.columns}
        elif isinstance(rows, str):
            return rows
        flags = {key.removesuffix("_column"): v for key, v in self._settings.items()}
        text = self._text(name, rows, memory_rows.called(names, flags))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        path = os.path.join(directory, "rows", f"{digest}.jsonl")
        # With the mark of UTF-8, which counts whatever the `encoding` of files is.
        atomic_files.write_text(path, f"\ufeff{text}")
        return path

    def _text(self, name: str, rows: Any, names: memory_rows.Names) -> str:
        return memory_rows.lines(name, rows, names)

    @contextlib.contextmanager
    def _prepared(
        self, values: Mapping[str, Any], given: Mapping[str, tuple[Any, Any]]
    ) -> Iterator[Any]:
        """The task of these settings, and how to do it.

        `given` are rows and labels by the name of a file. ValueErrors name arguments.
        """
        directory = values["output_dir"]
        called = dict(zip(given, ("rows", "dev"), strict=False))
        files = {
            flag: self._write(directory, called[flag], *given[flag]) for flag in given
        }
        own = os.path.join(directory, "rows")
        rows = {
            path: (called[flag], given[flag][0])
            for flag, path in files.items()
            if path.startswith(own)
        }
        values = {"pretrained": self.source, **self._settings, **values, **files}
        values = {name: value for name, value in values.items() if value is not None}
        known = fields.rows(self.settings_class)
        spelled = {name: name + "=True" * (known[name].kind is bool) for name in known}
        spelled |= {f"no{name}": f"{name}=False" for name in known}
        spelled |= dict.fromkeys(("do_eval", "do_predict"), "")  # what `fit` decides
        spelled |= called | {"pretrained": "directory", self.evaluates: "dev=rows"}
        # A notebook shows standard error as if something were wrong.
        is_notebook = "ipykernel" in sys.modules
        shown = sys.stdout if is_notebook else sys.stderr
        with (
            _LOCK,
            contextlib.redirect_stdout(
                argument_names.Stream(sys.stdout, rows, spelled)
            ),
            contextlib.redirect_stderr(argument_names.Stream(shown, rows, spelled)),
            argument_names.in_python(spelled, rows),
        ):
            settings = self.settings_class(**values)
            settings.check()
            settings.check_schemes()
            yield self._prepare(settings)

    def _prepare(self, settings: Any) -> tuple[Any, Any]:
        """The task of these settings, and how to do it."""
        raise NotImplementedError

    def _chosen(self, settings: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that are given, by `settings` or by name."""
        if settings is None:
            return dict(values)
        if not isinstance(settings, self.settings_class):
            raise errors.InputError(
                f"settings: a {type(settings).__name__}; give a "
                f"{self.settings_class.__name__}"
            )
        if both := settings.given & values.keys():
            raise errors.InputError(f"{min(both)} is in settings, too; give it once")
        return {name: getattr(settings, name) for name in settings.given} | dict(values)

    @contextlib.contextmanager
    def _task(
        self, action: str, given: Mapping[str, tuple[Any, Any]], **settings: Any
    ) -> Iterator[Any]:
        """`_prepared` for the model as it is, with its labels."""
        made = self.loaded
        with tempfile.TemporaryDirectory(prefix="bert-") as folder:
            values = {"output_dir": folder, "max_seq_length": made.max_seq_length}
            values |= self._fitted
            if self.output_dir:
                values["output_dir"] = self.output_dir
            elif made.classes and made.classes.names:
                values["labels"] = self._label_file(folder, made.classes.names)
            values |= {**self._of_classes(made.classes), **settings, action: True}
            with self._prepared(values, given) as prepared:
                yield prepared

    def _of_classes(self, classes: Any) -> dict[str, Any]:
        """Flags that describe a head."""
        return {}


class Classifier(FittedModel[ClassifierSettings]):
    """A classifier of texts or pairs of texts, by run_classifier.py.

    Its settings are the flags of tables, such as `text_a_column`, `label_column` and
    `delimiter`, and `problem_type`: classification, multi_label or regression. A list
    as `label_column` names columns of 0 and 1, one for each label.
    """

    settings_class = ClassifierSettings
    head = "classifier"
    names = labelled.UNNAMED

    def _prepare(self, settings: ClassifierSettings) -> tuple[Any, Any]:
        from tasks import classifier  # what it imports takes a second

        return classifier.prepare(settings)

    def __init__(self, directory: Any, **settings: Any):
        known = (*_COLUMNS, "problem_type", "labels", "max_seq_length")
        library.check_keys("classifier", settings, (*known, *_OF_FILES))
        self._kind = settings.get("problem_type") or "classification"
        self._num_texts: int | None = None
        super().__init__(directory, **settings)
        if self._labels and not settings.get("choice_columns"):
            has_marks = isinstance(settings.get("label_column"), list | tuple)
            kind = "multi_label" if has_marks else self._kind
            with argument_names.in_python():
                labels_lib.Labels((*self._labels,), kind)

    def read(self, files: Mapping[str, Any]) -> labelled_rows.LabelledData:
        """Reads and tokenizes rows for Keras' `fit`; their labels are those of `model`.

        Args:
            files: of "train", and "dev" and "test" if wanted, rows as in `fit`.
        """
        library.check_keys("files", files, ("train", "dev", "test"))
        if "train" not in files:
            raise errors.InputError('files has no "train", which the classifier learns')
        source = sources.Source(
            files={name: memory_rows.opened(rows) for name, rows in files.items()},
            layout=self._layout,
            problem_type=self._kind,
            label_spec=self._labels,
        )
        named = {f'files["{name}"]': rows for name, rows in files.items()}
        own = {name: (name, rows) for name, rows in named.items()}
        with argument_names.in_python(rows=own):
            data = labelled_rows.load(
                source,
                files,
                self._opened.tokenizer,
                self._usual_length,
                head=self._opened.stored_head("classifier"),
                default_metrics=metrics.DEFAULTS,
                show=argument_names.show,
            )
            if len(data.encode.text_names) > 1:
                config_file = self._opened.files.config_file
                config_limits.check_segments(self._opened.config, config_file)
        self._num_texts = 2 if data.encode.has_pairs else 1
        if self._made is None or self._made.classes != data.label_set:
            self._classes, self._made, self.output_dir = data.label_set, None, None
            self._fitted = {}
        return data

    def predict(
        self,
        texts: Any,
        seconds: Any = None,
        choices: Any = None,
        *,
        allow_empty_text: bool = False,
    ) -> list[dict[str, Any]]:
        """As `Loaded.predict`; `texts` may be a DataFrame or the like, dicts or a path.

        Of those it reads the columns that `fit` reads; labels are not needed. With
        `allow_empty_text`, here or of the classifier, a text may be empty.
        """
        is_alone = seconds is None and choices is None
        takes_empty = bool(allow_empty_text or self._settings.get("allow_empty_text"))
        if is_alone and (
            isinstance(texts, os.PathLike)
            or (isinstance(texts, str) and text_rows.is_table(texts))
        ):
            # Without labels, only rows of empty cells are left out.
            layout = dataclasses.replace(self._layout, label="")
            path = remote_files.resolve(texts, "texts")
            with argument_names.in_python():
                opened = labelled.open_table(path, layout, labels_required=False)
                table = opened.read(argument_names.show)
            return self.loaded.predict(
                table.text_a, table.text_b, table.choices, allow_empty_text=True
            )
        has_dicts = isinstance(texts, list) and texts and isinstance(texts[0], Mapping)
        is_table = has_dicts or memory_rows.has_columns(texts)
        if is_table and is_alone:
            if not (count := len(texts)):
                return []
            needs = {"labels_required": False}
            with argument_names.in_python(rows={"rows": ("rows", texts)}):
                opened = labelled.open_memory("rows", texts, self._layout, **needs)
                table = opened.read(argument_names.show)
            if left_out := count - len(table.lines):
                raise errors.InputError(
                    f"rows: {left_out} of {count} are left out, and have no answer; "
                    "remove them"
                )
            texts, seconds, choices = table.text_a, table.text_b, table.choices
        return self.loaded.predict(
            texts, seconds, choices, allow_empty_text=takes_empty
        )

    @property
    def _layout(self) -> labelled.Layout:
        given = {n: self._settings[n] for n in _COLUMNS & self._settings.keys()}
        given = {name: value for name, value in given.items() if value is not None}
        return ClassifierSettings(**given).layout()

    def _open(self) -> library.Loaded:
        made = super()._open()
        count = self._num_texts or self._opened.num_texts
        return dataclasses.replace(made, num_texts=count or made.num_texts)

    def _wrap(self, task: Any, model: Any, directory: str) -> library.Loaded:
        made = super()._wrap(task, model, directory)
        is_pair = task.data["train"].table.text_b is not None
        count, threshold = 2 if is_pair else 1, task.settings.multi_label_threshold
        return dataclasses.replace(made, num_texts=count, threshold=threshold)

    def _of_classes(self, classes: Any) -> dict[str, Any]:
        if not isinstance(classes, labels_lib.Labels):
            raise errors.InputError(f"{self.source}: its classes have no names; fit it")
        form = classes.pair_input
        more: dict[str, Any] = {} if form == "joined" else {"pair_input": form}
        if classes.problem_type == "multi_label":
            more["multi_label_threshold"] = self.loaded.threshold
        if classes.windows:
            more |= dataclasses.asdict(classes.windows) | {"long_texts": "windows"}
        is_choice = classes.problem_type == "choice"
        return more if is_choice else {**more, "problem_type": classes.problem_type}


class Tagger(FittedModel[TaggerSettings]):
    """A tagger of words, by run_tagger.py.

    Rows are dicts {"words": [...], "tags": [...]}, pairs of such lists, or files.
    """

    settings_class = TaggerSettings
    head = "tagger"
    names = {1: ("words",), 2: ("words", "tags")}  # noqa: RUF012
    columns = "words", "tags"

    def _prepare(self, settings: TaggerSettings) -> tuple[Any, Any]:
        from tasks import tagger  # what it imports takes a second

        return tagger.prepare(settings)

    def predict(self, texts: Any) -> list[dict[str, Any]]:
        """Words, tags and probabilities of each text; see Predictor.predict."""
        return self._predict(texts)


class Reader(FittedModel[SquadSettings]):
    """A reader that answers questions by spans of contexts, by run_squad.py.

    Rows are dicts {context, question, answers: {text: [], answer_start: []}}, the
    object of a SQuAD file, or its path.
    """

    settings_class = SquadSettings
    head = "span"
    columns = ()
    evaluates, dev_file = "do_predict", "predict_file"

    def _prepare(self, settings: SquadSettings) -> tuple[Any, Any]:
        from tasks import squad  # what it imports takes a second

        return squad.prepare(settings)

    def predict(self, questions: Any, contexts: Any) -> list[dict[str, Any]]:
        """The answer to each question by its context; see Predictor.predict."""
        return self._predict(questions, contexts)

    def _open(self) -> library.Loaded:
        built = self._opened.read("auto")
        if built.head != self.head:
            raise errors.InputError(f"{self.source} has no head of answers; call fit")
        return library.make_loaded(built, self._opened, self._usual_length)

    def _text(self, name: str, rows: Any, names: memory_rows.Names) -> str:
        if isinstance(rows, Mapping):
            return json.dumps(rows)
        each = memory_rows.named(name, rows, names)
        with_ids = ({"id": str(line), **row} for line, row in each)
        return memory_rows.lines(name, with_ids, names)


class Embedder(FittedModel[EmbeddingSettings]):
    """A model of vectors of texts, by run_embedding.py.

    Rows are pairs of texts that belong together, triples of two texts and a score, or
    dicts by column; or texts, and a label of each.
    """

    settings_class = EmbeddingSettings
    head = "text_encoder"
    opens = "auto"
    names = {2: ("text_a", "text_b"), 3: ("text_a", "text_b", "label")}  # noqa: RUF012

    def _prepare(self, settings: EmbeddingSettings) -> tuple[Any, Any]:
        from tasks import embedding  # what it imports takes a second

        return embedding.prepare(settings)

    def _open(self) -> library.Loaded:
        """As the directory has it or, of a network alone, with the script's vectors."""
        if self._opened.modules:
            built = self._opened.read("auto")
            return library.make_loaded(built, self._opened, self._usual_length)
        with tempfile.TemporaryDirectory(prefix="bert-") as folder:
            values = {"do_export": True, "output_dir": folder}
            values["max_seq_length"] = self._length
            with self._prepared(values, {}) as (task, plan):
                model, path = task.make_model(), plan.init_checkpoint
                with checkpoint.drawing_after():
                    model.build()
                    origin, _ = task.load_weights(
                        model, path, trains=False, resumes=False
                    )
                print(f"weights: {origin}")
                return self._wrap(task, model, path)

    def _wrap(self, task: Any, model: Any, directory: str) -> library.Loaded:
        made = super()._wrap(task, model, directory)
        return dataclasses.replace(made, modules=task.modules)


classifier = Classifier
tagger = Tagger
reader = Reader
embedder = Embedder
