"""One pretraining: whatever is predicted, on records in an order without epochs.

In: a task, with its model, objective and records, and typed settings. Out: a run in its
directory, scores of held-out records, an export and a report.
"""
