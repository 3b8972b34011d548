"""Labelled texts: tables and published tasks to labels and predictions."""
