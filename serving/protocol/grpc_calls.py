"""Calls of a model server by gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from contract import errors, tf_serving
from serving.protocol import rest_calls

_METADATA_FIELD = "signature_def"
# Vectors of many texts are longer than the 4 MB that gRPC takes by default.
_OPTIONS = (("grpc.max_receive_message_length", -1),)


class Calls:
    """As `rest_calls.Calls`, over the other protocol."""

    def __init__(
        self, address: str, model: str, version: int, timeout_seconds: float
    ) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._spec = model_pb2.ModelSpec(name=model)
        if version:
            self._spec.version.value = version
        channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def signatures(self) -> dict[str, Any]:
        """{name: SignatureDef as JSON} of the model."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=[_METADATA_FIELD]
        )
        answer = self._call(self._stub.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        answer.metadata[_METADATA_FIELD].Unpack(signatures)
        as_json = json_format.MessageToDict(
            signatures, preserving_proto_field_name=True
        )
        return as_json[_METADATA_FIELD]

    def predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """The outputs by name, as arrays."""
        request = predict_pb2.PredictRequest(model_spec=self._spec)
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            encoded = [value.encode() for value in values]
            request.inputs[name].CopyFrom(tf.make_tensor_proto(encoded, tf.string))
        outputs = self._call(self._stub.Predict, request).outputs
        return {name: tf.make_ndarray(value) for name, value in outputs.items()}

    def _call(self, method, request):
        try:
            return method(request, timeout=self._timeout_seconds)
        except grpc.RpcError as error:
            raise errors.InputError(self._message(error)) from error

    def _message(self, error: grpc.RpcError) -> str:
        code, details = error.code(), rest_calls.one_line(error.details() or "")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return rest_calls.too_late(self._address, self._timeout_seconds)
        if code == grpc.StatusCode.UNAVAILABLE:
            return rest_calls.no_server(
                self._address, details, "gRPC", tf_serving.GRPC_PORT
            )
        return f"{self._address}: {details} ({code.name})"
