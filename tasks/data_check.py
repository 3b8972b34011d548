"""A look at the rows of all files, without training: --check_data."""

from contract import errors, wording
from data_pipeline import findings
from data_pipeline.classification import label_checks
from tasks.settings import tables
from tasks.settings.classifier import ClassifierSettings


def run(settings: ClassifierSettings) -> None:
    """Prints all that is odd in the rows, and raises InputError if one is a fault."""
    splits = [s for s in tables.SPLITS if getattr(settings, f"{s}_file")]
    if settings.has_named_task:
        splits = ["train", "dev"]
    if settings.dev_share:
        splits[1:1] = ["dev"]
    noticed = label_checks.look(settings.source(), splits)
    findings.show(noticed)
    faults = [each.text for each in noticed if each.kind == findings.FAULT]
    for fault in faults:
        print(f"fault: {fault}")
    if faults:
        raise errors.InputError(f"--check_data: {wording.count(len(faults), 'fault')}")
    print("--check_data: no fault")
