"""What was noticed of rows, printed as commands do, for tests of readers."""

from data_pipeline import findings
from data_pipeline.classification import label_checks


def shown(read):
    """Prints what is noticed of a table or the like, and returns it."""
    findings.show(read.noticed)
    return read


def look(source, splits):
    """The number of faults of a look at the splits, which is printed."""
    found = label_checks.look(source, splits)
    findings.show(found)
    faults = [each.text for each in found if each.kind == findings.FAULT]
    print("".join(f"fault: {fault}\n" for fault in faults), end="")
    return len(faults)
