"""GPT and GPT-2: their config, network and the files of their releases."""
