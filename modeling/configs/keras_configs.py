"""What Keras writes of a layer or model so that it can make it again.

Where these modules are imported, `model.save("x.keras")` and `keras.models.load_model`
work for every layer here, and for what users build of them.
"""

import dataclasses

import keras

from modeling.configs import config_files, readings

# Under `PACKAGE>BertClassifier` and so on a .keras file names its class.
PACKAGE = "bert"
# Arguments that are dataclasses, written as dicts, and how these are read.
_READERS = {
    "config": config_files.of_values,
    "reading": lambda values: readings.Reading(**values),
}


def register(kind):
    """Registers a class of a layer or model with Keras, under a name of no other.

    Raises:
        ValueError: another module of ours has a class of that name, whose objects Keras
            would then read as those of this class.
    """
    is_ours = kind.__module__.split(".")[0] == __name__.split(".")[0]
    package = PACKAGE if is_ours else "Custom"  # Keras' own default
    other = keras.saving.get_registered_object(f"{package}>{kind.__name__}")
    if is_ours and other and other.__module__ != kind.__module__:
        raise ValueError(
            f"{kind.__module__} and {other.__module__} both have a class "
            f"{kind.__name__}, and files name it alone; rename one of them"
        )
    return keras.saving.register_keras_serializable(package)(kind)


def refuse_quantization(layer, *_, **__):
    """The method `quantize` of layers whose weights Keras would silently leave alone.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{layer.name}: a {type(layer).__name__} computes in floats alone; export to "
        'LiteRT with 8-bit weights: export_format="litert", '
        'quantization="dynamic_int8" of bert.load(...).export'
    )


class Configured:
    """Made again from the attributes that are named as its arguments.

    The first base of a layer or model, which is thereby registered with Keras. Of the
    arguments those in `_READERS` are written as dicts. The dtype is not written: parts
    follow the policy of the process, so the whole does so as well.
    """

    arguments: tuple[str, ...] = ("config",)
    quantize = refuse_quantization

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        register(cls)

    def get_config(self):
        kept = super().get_config()
        kept.pop("dtype", None)
        values = {name: getattr(self, name) for name in self.arguments}
        for name in values.keys() & _READERS:
            values[name] = dataclasses.asdict(values[name])
        return {**kept, **values}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        values = {
            name: _READERS[name](config[name]) for name in config.keys() & _READERS
        }
        return cls(**{**config, **values})


def whole(ids):
    """Ids as integers: on several devices `fit` tries a model out with their means."""
    is_whole = "int" in keras.backend.standardize_dtype(ids.dtype)
    return ids if is_whole else keras.ops.cast(ids, "int32")
