"""One run: from a built model and batches to checkpoints and scores.

In: a model of Keras, an objective, batches from any step on, and the plan of a run.
Out: a directory with checkpoints, curves, scores and run.json, from which the run
resumes.
"""
