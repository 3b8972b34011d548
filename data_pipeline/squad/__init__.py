"""Questions about contexts, SQuAD 1.1 and 2.0.

In: SQuAD JSON. Out: windows of contexts with the places of answers; after the model the
text of answers, predictions.json and its neighbours, official scores; and both
directions as graphs for the export.
"""
