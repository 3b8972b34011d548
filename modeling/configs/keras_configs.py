"""Layers and models that Keras saves and loads.

Where these modules are imported, `model.save("x.keras")` and `keras.models.load_model`
work for every layer here, and for models that users build from them.
"""

import dataclasses

import keras

from contract import errors
from contract import features as feature_names
from modeling import kernels_tf
from modeling.features import head_config, text_vectors

# Under `PACKAGE>BertClassifier` and so on a .keras file names its class.
PACKAGE = "bert"


def _read_config(values):
    """The config of any network, of its dict."""
    from modeling.configs import config_files  # whose networks have layers

    return config_files.from_values(values)


# Arguments that are dataclasses, written as dicts, and how these are read.
_READERS = {
    "config": _read_config,
    "reading": head_config.from_values,
    "text_vectors": text_vectors.TextVectors.from_values,
}


def register(kind):
    """Registers a class of a layer or model with Keras, ours under `PACKAGE`."""
    is_ours = kind.__module__.split(".")[0] == __name__.split(".")[0]
    package = PACKAGE if is_ours else "Custom"  # Keras' own default
    return keras.saving.register_keras_serializable(package)(kind)


def refuse_quantization(layer, *_, **__):
    """Always raises, as `quantize` of layers that Keras would silently leave alone."""
    raise errors.InputError(
        f"{layer.name}: a {type(layer).__name__} computes in floats alone; use "
        'bert.load(...).export with export_format="litert", quantization="dynamic_int8"'
    )


class Configured:
    """Saves and loads a layer or model by the attributes that are its `arguments`.

    It is the first base of each, and registers it with Keras. The arguments in
    `_READERS` are written as dicts. A `dtype` is for all parts, and is written. Without
    one they follow the policy of the process, as a loaded model does. A layer without a
    `build` of its own has the attributes `parts`, which read what it reads.
    """

    arguments: tuple[str, ...] = ("config",)
    parts: tuple[str, ...] = ()
    only_dtype: str | None = None  # under every policy
    quantize = refuse_quantization

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        register(cls)

    def __init__(self, *, dtype=None, **kwargs):
        if self.only_dtype and dtype not in (None, self.only_dtype):
            raise errors.InputError(
                f"dtype={dtype}: a {type(self).__name__} computes in {self.only_dtype} "
                "under every policy; leave dtype out"
            )
        super().__init__(dtype=self.only_dtype or dtype, **kwargs)
        if self.variable_dtype != "float32":
            raise errors.InputError(
                f"dtype={self.dtype_policy.name}: variables are float32 here; choose "
                "float32, mixed_bfloat16 or mixed_float16"
            )
        # For parts: None where they follow the policy of the process.
        self.given_dtype = dtype and self.dtype_policy

    def build(self, input_shape, *_):
        for name in self.parts:
            getattr(self, name).build(input_shape)

    def compute_output_spec(self, *args, **kwargs):
        """Returns the outputs of a call of KerasTensors, as such, with their dtypes."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        kept = super().get_config()
        if self.only_dtype or not self.given_dtype:
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


def specs(shapes):
    """{name: shape} of features as symbolic int32 tensors of these names."""
    return {
        name: keras.Input(batch_shape=shape, dtype="int32", name=name)
        for name, shape in shapes.items()
    }


class ConfiguredModel(Configured):
    """A model whose inputs are a dict of features; for Keras' `export`."""

    def features_spec(self):
        """{name: keras.Input} of a call; int32 of any length."""
        return specs(self.config.spec.input_shapes(self.config))

    def export(self, filepath, format="tf_saved_model", **kwargs):
        """Exports as Keras does; layer_outputs become layer_outputs_0 and so on."""
        features, outputs = self.features_spec(), {}
        for name, value in self(features).items():
            is_list = isinstance(value, list | tuple)
            each = {f"{name}_{j}": x for j, x in enumerate(value)} if is_list else {}
            outputs |= each or {name: value}
        keras.Model(features, outputs).export(filepath, format, **kwargs)

    def save(self, filepath, *args, **kwargs):
        """Saves as Keras does; InputError for HDF5, which keeps no class of ours."""
        if str(filepath).endswith((".h5", ".hdf5", ".hdf")):
            raise errors.InputError(f"{filepath}: save a model under a name in .keras")
        super().save(filepath, *args, **kwargs)

    def compute_output_shape(self, input_shape):
        """Returns {output: shape} for {feature: shape}."""
        outputs = self.compute_output_spec(specs(input_shape))
        return keras.tree.map_structure(lambda x: x.shape, outputs)


FRESH = "fresh"


class NetworkLayer(Configured, keras.layers.Layer):
    """A network of a config, which draws dropout seeds in `fit`.

    A call has a `seed`: two integers, or None for no dropout. Without the argument, as
    in a functional model, a network that trains draws one, as Keras' layers do.
    """

    arguments = ("config", "recompute")

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(autocast=False, **kwargs)  # tables and states stay float32
        self.config = config
        self.recompute = recompute
        # A method, which Keras does not look into: the seed is in no file of weights.
        self._next_seed = keras.random.SeedGenerator(seed=0, name="fit_seed").next

    def fresh_seed(self, training):
        """The seed of a call that has none, whose argument `seed` is FRESH."""
        return kernels_tf.make_seed(self._next_seed()) if training else None

    def compute_output_shape(self, *shapes, input_shape=None):
        """Returns the outputs' shapes for those of the features, in their order.

        Keras' `summary` gives the shape of the ids alone, by name; it prints "?" where
        other inputs have another.
        """
        if not shapes:
            spec = self.config.spec
            if spec.reads_characters or spec.has_decoder:
                raise NotImplementedError
            shapes = (input_shape,) * len(feature_names.ENCODER_INPUTS)
        features = [keras.KerasTensor(shape, "int32") for shape in shapes]
        outputs = self.compute_output_spec(*features)
        return keras.tree.map_structure(lambda x: x.shape, outputs)
