"""The record of a run, report.json, and the pages and texts drawn from it.

In: Outcomes of labelled rows, facts of a run, and its event files. Out: report.json,
report.html, README.md; with intervals of the scores.
"""
