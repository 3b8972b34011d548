"""Text to the features that a model reads, and its outputs back to text.

In: files of text, tables, questions, tagged words or records, and a vocabulary. Out: a
tf.data.Dataset of features, scores, and files of predictions. One subpackage a task,
over four that all tasks share: text, tables, batches, vocabularies.
"""
