"""GPT and GPT-2: their config and network."""
