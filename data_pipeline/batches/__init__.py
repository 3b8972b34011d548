"""Ids to batches of features.

In: ids of one or two texts a row. Out: [CLS] A [SEP] B [SEP] without padding, in an
order that a resumed run finds again, padded batch by batch; or the same as TFRecords.
"""
