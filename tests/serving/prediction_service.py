"""PredictionService of TensorFlow Serving's stubs over loaded models, for tests."""

import contextlib
from concurrent import futures

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from contract import tf_serving


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model):
        self._model = model

    def _version(self, spec):
        number = spec.version.value if spec.HasField("version") else None
        return self._model.version(spec.name, number)

    def Predict(self, request, context):
        with _as_status(context):
            version = self._version(request.model_spec)
            name = request.model_spec.signature_name or tf_serving.DEFAULT_SIGNATURE
            inputs = {key: tf.make_ndarray(v) for key, v in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for key, value in version.predict(name, inputs).items():
                response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
            return response

    def GetModelMetadata(self, request, context):
        with _as_status(context):
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, value in self._version(request.model_spec).signatures.items():
                signatures.signature_def[name].CopyFrom(value)
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.metadata["signature_def"].Pack(signatures)
            return response


@contextlib.contextmanager
def _as_status(context):
    """Ends a call with the code of an error of TensorFlow, which are those of gRPC."""
    try:
        yield
    except tf.errors.OpError as error:
        codes = {code.value[0]: code for code in grpc.StatusCode}
        context.abort(codes[error.error_code], error.message)


@contextlib.contextmanager
def serving(model):
    """Serves a servables.Model at a free port of loopback; yields HOST:PORT."""
    # Refuses to share a port with another server, which gRPC does not by itself.
    options = (("grpc.so_reuseport", 0),)
    server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Servicer(model), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait(60)
