"""Compares TensorFlow Serving, run by docker, with run_predictor.py:

python -m tests.serving.tf_serving

The public image runs as in examples/serving/tensorflow_serving.yaml, on free ports.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import grpc
import numpy as np
import tensorflow as tf
import yaml
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "examples" / "serving" / "tensorflow_serving.yaml"
TEXTS = ("Where is my parcel?", "Love the shoes!", "Straße 東京 \U0001f600 " * 20)
ROUNDING = 1e-5  # of float32, between releases and processors
SECONDS = 240  # until a version is loaded, or a label moved
REFUSED = (  # path, inputs, status, as in docs/serving.md; max_batch_size is 32
    ("m:predict", TEXTS, "404"),
    ("messages/versions/7:predict", TEXTS, "404"),
    ("messages/labels/other:predict", TEXTS, "400"),
    ("messages:predict", {"other": TEXTS}, "400"),
    ("messages:predict", TEXTS * 11, "400"),
)


def output(*command: str) -> str:
    pipe = subprocess.PIPE
    done = subprocess.run(command, check=True, stdout=pipe, timeout=600, cwd=ROOT)
    return done.stdout.decode().strip()


def predictions(version_dir: pathlib.Path) -> list[list[float]]:
    command = ("run_predictor.py", "--json", f"--export_dir={version_dir}")
    lines = output(sys.executable, *command, *TEXTS)
    rows = [json.loads(line) for line in lines.splitlines()]
    for row in rows:
        assert row["probabilities"][row["label"]] == max(row["probabilities"].values())
    return [list(row["probabilities"].values()) for row in rows]


def request(url: str, inputs: object = None) -> tuple[str, str]:
    """Status and text of an answer; the status is 000 while nothing listens."""
    body = [] if inputs is None else ["--data", json.dumps({"inputs": inputs})]
    command = ["curl", "-s", "--noproxy", "*", "-m60", "-w", "\n%{http_code}", *body]
    done = subprocess.run([*command, url], stdout=subprocess.PIPE, check=False)
    text, _, status = done.stdout.decode().rpartition("\n")
    return status, text


def grpc_predictions(address: str, version: str) -> np.ndarray:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "messages"
    request.model_spec.version.value = int(version)
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(TEXTS))
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = stub.Predict(request, timeout=SECONDS).outputs
    return tf.make_ndarray(outputs["probabilities"])


@contextlib.contextmanager
def running(image, arguments, models, config):
    """Addresses for REST and gRPC of a container, which ends with the context."""
    options = f"""--user=1000:1000 --read-only --tmpfs=/tmp --cap-drop=ALL
        --security-opt=no-new-privileges --publish=127.0.0.1::8500
        --publish=127.0.0.1::8501 --volume={config}:/config:ro
        --volume={models}:/models/messages:ro"""
    run = ("docker", "run", "--detach", *options.split(), image, *arguments)
    container = output(*run)
    try:
        yield [output("docker", "port", container, port) for port in ("8501", "8500")]
    except BaseException:
        print(output("docker", "logs", container), flush=True)
        raise
    finally:
        output("docker", "rm", "--force", container)


def check(folder: pathlib.Path, pretrained: str = "models/minilm") -> None:
    models, config, expected = folder / "models", folder / "config", {}
    for directory in (models, config):
        directory.mkdir()
    for version in ("1", "2"):  # and as many epochs
        run = f"run_classifier.py --do_train --do_export --num_train_epochs={version}"
        run += " --train_file=sample_data/messages/train.tsv --max_seq_length=32"
        run += f" --pretrained={pretrained} --output_dir={folder / version}"
        output(sys.executable, *run.split())
        (folder / version / "export" / "1").rename(models / version)
        expected[version] = predictions(models / version)
    assert not np.allclose(expected["1"], expected["2"], atol=100 * ROUNDING)

    documents = {d["kind"]: d for d in yaml.safe_load_all(MANIFEST.read_text("utf-8"))}
    for name, text in (files := documents["ConfigMap"]["data"]).items():
        (config / name).write_text(text)
    (pod,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    with running(pod["image"], pod["args"], models, config) as (http, grpc_address):
        url = f"http://{http}/v1/models"

        def wait_for(name, version):
            end = time.monotonic() + SECONDS
            while True:
                code, text = request(f"{url}/messages/{name}:predict", TEXTS)
                actual = json.loads(text)["outputs"] if code == "200" else {}
                actual = actual.get("probabilities", np.inf)
                if np.abs(np.subtract(actual, expected[version])).max() <= ROUNDING:
                    return
                assert time.monotonic() < end, f"{name} is not version {version}"
                time.sleep(0.5)

        for version in ("1", "2"):
            wait_for(f"versions/{version}", version)
            actual = grpc_predictions(grpc_address, version)
            off = np.abs(np.subtract(actual, expected[version])).max()
            assert off <= ROUNDING, f"gRPC: {actual}, not {expected[version]}"
            print(f"version {version} by gRPC: {off:.1e}", flush=True)
        wait_for("labels/canary", "2")
        for stable in ("1", "2", "1"):  # to the canary, and back
            old, new = '"stable" value: 1', f'"stable" value: {stable}'
            (config / "new").write_text(files["models.config"].replace(old, new))
            (config / "new").rename(config / "models.config")
            wait_for("labels/stable", stable)
        for path, inputs, status in REFUSED:
            assert (code := request(f"{url}/{path}", inputs)[0]) == status, (path, code)
        _, metrics = request(f"http://{http}/monitoring/prometheus/metrics")
        assert ':request_count{model_name="messages"' in metrics, f"no count: {metrics}"
    print("TensorFlow Serving predicts as run_predictor.py does")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(pathlib.Path(temporary), *sys.argv[1:])
