"""Findings of rows: their text, what is printed of them, and what ends a run."""

import pytest

from contract import errors
from data_pipeline import findings

NOTE = findings.Finding("t.csv", "2 labels: a 1, b 1")
WARNING = findings.warning("t.csv:3", "text '=1+1' is a formula", "save its value")
FAULTS = [findings.fault("t.csv:4", "is blank", "remove it"), findings.fault("", "odd")]


def test_notes_and_warnings_are_printed_and_faults_raised(capsys):
    found = [FAULTS[0], NOTE, WARNING, FAULTS[1]]
    findings.hide(found)
    assert capsys.readouterr().out == ""
    findings.show(found)
    assert capsys.readouterr().out == (
        "t.csv: 2 labels: a 1, b 1\n"
        "warning: t.csv:3: text '=1+1' is a formula; save its value\n"
    )
    with pytest.raises(errors.InputError) as raised:
        findings.refuse(found)
    assert str(raised.value) == "t.csv:4: is blank; remove it;\nodd"
    findings.refuse([NOTE, WARNING])  # nothing to refuse


def test_a_report_has_the_warnings_alone():
    found = [NOTE, WARNING, *FAULTS]
    assert findings.warnings(found) == (WARNING.text,)
    changed = [each.as_warning() for each in found]
    assert [each.kind for each in changed] == ["note", *["warning"] * 3]
    assert [each.text for each in changed] == [each.text for each in found]
