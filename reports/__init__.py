"""What a person looks at after a run: pictures, the report, two runs side by side.

In: what a model made of labelled rows, and the files of a run's directory. Out:
pictures for TensorBoard, report.html, a model card, a comparison. Needs no TensorFlow.
"""
