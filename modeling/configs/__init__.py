"""The shapes of networks: their configs, as files have them and as Keras writes them.

In: bert_config.json, config.json and the like. Out: a checked, frozen dataclass.
"""
