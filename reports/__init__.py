"""Reports of a run: pictures, pages, a model card, two runs side by side.

In: Outcomes of labelled rows, and the files of a run's directory. Out: pictures for
TensorBoard, report.html, a model card, a comparison.
"""
