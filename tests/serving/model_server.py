"""A stand-in for the binary of TensorFlow Serving, on loopback, for tests.

Answers PredictionService by gRPC and its REST paths from loaded SavedModels, and joins
requests as batching_parameters.txt says.
"""

import collections
import contextlib
import dataclasses
import threading
import time
from concurrent import futures

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from contract import tf_serving
from serving.protocol import http_server, rest, servables

TIMEOUT_SECONDS = 60  # of whatever could wait for ever
_HANDLERS = 32  # threads that wait for a batch, each with a request


@dataclasses.dataclass(frozen=True)
class Batching:
    """As TensorFlow Serving's batching guide defines them; sizes are rows."""

    max_batch_size: int
    batch_timeout_micros: int
    num_batch_threads: int
    max_enqueued_batches: int

    @classmethod
    def parse(cls, text):
        """Reads a batching_parameters.txt, of which only these fields are known."""
        names = [field.name for field in dataclasses.fields(cls)]
        tokens = text_format.Tokenizer(text.splitlines(), skip_comments=True)
        values = {}
        while not tokens.AtEnd():
            name = tokens.ConsumeIdentifier()
            assert name in names, f"no such parameter: {name}"
            tokens.Consume("{")
            assert tokens.ConsumeIdentifier() == "value"
            tokens.Consume(":")
            values[name] = tokens.ConsumeInteger()
            tokens.Consume("}")
        return cls(**values)


@dataclasses.dataclass
class _Batch:
    opened: float
    tasks: list = dataclasses.field(default_factory=list)  # (arrays, size, future)

    @property
    def size(self):
        return sum(size for _, size, _ in self.tasks)


class Batcher:
    """Joins calls of a function along their first axis.

    Args:
        call: name of a signature, {name: array} -> {name: array}.

    Attributes:
        sizes: tasks and rows of each batch that was run.
    """

    def __init__(self, call, batching):
        self._call = call
        self._batching = batching
        self._queues = collections.defaultdict(collections.deque)  # by signature
        self._changed = threading.Condition()
        self._is_open = True
        self.sizes = []
        self._threads = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(batching.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def __call__(self, name, arrays):
        """The answer to one request; raises what its batch raised."""
        sizes = {array.shape[0] for array in arrays.values()}
        if len(sizes) != 1:
            raise servables.invalid(
                "Batching session Run() input tensors must have equal 0th-dimension "
                "size"
            )
        future = futures.Future()
        self._enqueue(name, (arrays, sizes.pop(), future))
        return future.result(TIMEOUT_SECONDS)

    def _enqueue(self, name, task):
        limit = self._batching.max_batch_size
        if task[1] > limit:
            raise servables.invalid(
                f"Task size {task[1]} is larger than maximum input batch size {limit}"
            )
        with self._changed:
            queue = self._queues[name]
            if not queue or queue[-1].size + task[1] > limit:
                if len(queue) >= self._batching.max_enqueued_batches:
                    raise tf.errors.UnavailableError(
                        *(None, None),
                        "The batch scheduling queue to which this task was submitted "
                        "is full",
                    )
                queue.append(_Batch(time.monotonic()))
            queue[-1].tasks.append(task)
            self._changed.notify_all()

    def close(self):
        """Ends the threads, when what is queued is answered."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()

    def _work(self):
        while found := self._next():
            self._run(*found)

    def _next(self):
        """The next batch that is full or has waited; None at the end."""
        with self._changed:
            while True:
                now, waits = time.monotonic(), [TIMEOUT_SECONDS]
                for name, queue in self._queues.items():
                    if not queue:
                        continue
                    wait = self._wait(queue, now)
                    if wait <= 0:
                        return name, queue.popleft()
                    waits.append(wait)
                if not self._is_open:
                    return None
                self._changed.wait(min(waits))

    def _wait(self, queue, now):
        is_full = len(queue) > 1 or queue[0].size >= self._batching.max_batch_size
        if is_full or not self._is_open:
            return 0
        return queue[0].opened + self._batching.batch_timeout_micros / 1e6 - now

    def _run(self, name, batch):
        self.sizes.append((len(batch.tasks), batch.size))
        try:
            inputs = [arrays for arrays, _, _ in batch.tasks]
            outputs = self._call(name, _joined(inputs))
            bounds = np.cumsum([size for _, size, _ in batch.tasks])
            for key, output in outputs.items():
                if output.ndim == 0 or len(output) != bounds[-1]:
                    raise tf.errors.FailedPreconditionError(
                        *(None, None),
                        f"Batched output tensor {key}'s 0th dimension does not equal "
                        "the sum of the 0th dimension sizes of the input tensors",
                    )
            parts = {k: np.split(v, bounds[:-1]) for k, v in outputs.items()}
            for i, (_, _, future) in enumerate(batch.tasks):
                future.set_result({key: part[i] for key, part in parts.items()})
        except Exception as error:  # of the whole batch, as the server does it
            for _, _, future in batch.tasks:
                future.set_exception(error)


def _joined(inputs):
    joined = {}
    for key in inputs[0]:
        arrays = [arrays[key] for arrays in inputs]
        if len({array.shape[1:] for array in arrays}) > 1:
            raise tf.errors.FailedPreconditionError(
                *(None, None),
                f"Tensors with name '{key}' from different tasks have different shapes "
                "and padding is turned off.",
            )
        joined[key] = np.concatenate(arrays)
    return joined


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata over a model; the rest is UNIMPLEMENTED."""

    def __init__(self, model):
        self._model = model

    def _version(self, spec):
        if not spec.name:
            raise servables.invalid("Missing ModelSpec")
        has_version = spec.HasField("version")
        number = spec.version.value if has_version else None
        version = self._model.version(spec.name, number)
        return version, number if has_version else max(self._model.versions)

    def Predict(self, request, context):
        with _as_status(context):
            version, number = self._version(request.model_spec)
            name = request.model_spec.signature_name or tf_serving.DEFAULT_SIGNATURE
            arrays = {key: _array(value) for key, value in request.inputs.items()}
            outputs = version.predict(name, arrays)
            wanted = set(request.output_filter) or set(outputs)
            if wanted - set(outputs):
                raise servables.invalid(
                    f"output tensor alias not found in signature: {wanted}"
                )
            response = predict_pb2.PredictResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = number
            response.model_spec.signature_name = name
            for key in wanted:
                response.outputs[key].CopyFrom(tf.make_tensor_proto(outputs[key]))
            return response

    def GetModelMetadata(self, request, context):
        with _as_status(context):
            version, number = self._version(request.model_spec)
            if list(request.metadata_field) != ["signature_def"]:
                raise servables.invalid(
                    f"Metadata field {list(request.metadata_field)} is not supported"
                )
            found = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in version.signatures.items():
                found.signature_def[name].CopyFrom(signature)
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = number
            response.metadata["signature_def"].Pack(found)
            return response


@contextlib.contextmanager
def _as_status(context):
    """Ends a call with the code of an error of TensorFlow, which are those of gRPC."""
    try:
        yield
    except tf.errors.OpError as error:
        codes = {code.value[0]: code for code in grpc.StatusCode}
        context.abort(codes[error.error_code], error.message)


def _array(proto):
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError) as error:
        raise servables.invalid(f"Cannot parse tensor from proto: {error}") from error


@dataclasses.dataclass(frozen=True)
class Server:
    """Addresses, HOST:PORT, and by number what batches its versions had."""

    grpc: str
    rest: str
    batchers: dict


@contextlib.contextmanager
def serving(name, given, batching=None):
    """Serves versions, {number: servables.Version}, on free ports of loopback.

    Args:
        batching: Batching; None runs each request by itself.
    """
    versions, batchers = dict(given), {}
    for number, version in given.items():
        if batching:
            batchers[number] = Batcher(version.call, batching)
            versions[number] = servables.Version(version.signatures, batchers[number])
    model = servables.Model(name, versions)
    pool = futures.ThreadPoolExecutor(_HANDLERS)
    # Refuses to share a port with another server, which gRPC does not by itself.
    server = grpc.server(pool, options=(("grpc.so_reuseport", 0),))
    servicer = Servicer(model)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        servicer, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with _rest_server(model) as rest_address:
        try:
            yield Server(f"127.0.0.1:{port}", rest_address, batchers)
        finally:
            server.stop(grace=None).wait(TIMEOUT_SECONDS)
            for batcher in batchers.values():
                batcher.close()
            pool.shutdown()


class _RestServer(http_server.Server):
    """Without its limit of requests at a time: to be joined they have to meet."""

    def answer(self, method, path, body=b""):
        return rest.answer(self.model, method, path, body)


@contextlib.contextmanager
def _rest_server(model):
    with _RestServer(model, "127.0.0.1", 0) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(TIMEOUT_SECONDS)
