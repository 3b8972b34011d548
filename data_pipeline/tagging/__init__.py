"""A tag for each word: entities, slots, parts of speech.

In: CoNLL columns, seq.in with seq.out, or JSONL. Out: windows of sentences with tag
ids; after the model tags spelled by the scheme, scores of spans, files of predictions;
and both directions as graphs for the export.
"""
