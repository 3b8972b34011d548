"""Lines for spreadsheets."""

import pytest

from data_pipeline.tables import spreadsheets


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C'!A0", "-x", "@SUM(A1)", "\t=1"])
def test_what_begins_as_a_formula_is_a_text(text):
    assert spreadsheets.guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["a=1", " -x", "-1", "+4.5", "", "'=1"])
def test_other_texts_and_numbers_stay(text):
    assert spreadsheets.guarded(text) == text


def test_semicolons_of_the_input_bring_decimal_commas():
    rows = {}
    for delimiter in (";", ",", "\t", None):
        writer = spreadsheets.Writer(delimiter)
        rows[delimiter] = writer.line(["a;b", 'c"d', writer.number(0.25)])
    assert rows[";"] == '"a;b";"c""d";0,25\r\n'
    assert rows[","] == rows["\t"] == rows[None] == 'a;b,"c""d",0.25\r\n'
