"""Tests of serving/protocol/server_config.py: files with which a server starts."""

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from serving.protocol import server_config


@pytest.mark.parametrize("name", ["messages", 'a "quoted" \\ name', "schön"])
def test_server_reads_what_is_written(tmp_path, name):
    server_config.write(str(tmp_path / name / "export") + "/")
    folder = tmp_path / name / "config"
    found = text_format.Parse(
        (folder / "models.config").read_text("utf-8"),
        model_server_config_pb2.ModelServerConfig(),
    )
    (config,) = found.model_config_list.config
    assert config.name == name
    assert config.base_path == f"/models/{name}"
    assert config.model_platform == "tensorflow"
    batching = (folder / "batching_parameters.txt").read_text("utf-8")
    lines = [line for line in batching.splitlines() if not line.startswith("#")]
    assert lines == [
        "max_batch_size { value: 32 }",
        "batch_timeout_micros { value: 2000 }",
        "num_batch_threads { value: 2 }",
        "max_enqueued_batches { value: 100 }",
    ]
