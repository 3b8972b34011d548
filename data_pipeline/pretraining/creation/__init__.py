"""Raw text to pretraining records, on this machine or Apache Beam, restartable."""
