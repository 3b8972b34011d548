"""Raw text to pretraining records: create_pretraining_data.py.

In: a corpus and a vocabulary. Out: TFRecord files, the same whatever the number of
processes, on this machine or Apache Beam, continued where a killed job stopped.
"""
