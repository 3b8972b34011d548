"""ELMo: its config, network, LSTMs, characters, files, names and objective."""
