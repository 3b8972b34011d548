"""The clients in docs/serving.md, with a server of its own and the real gRPC stubs."""

import contextlib
import io
import pathlib
import re

import numpy as np
import pytest

from serving import predictor
from serving.protocol import servables
from serving.server import app
from tests.serving import prediction_service
from tests.serving import test_export as exports
from tests.serving.server import running

pytestmark = pytest.mark.slow

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "serving.md"
TEXTS = ["Where is my parcel?", "Love the shoes!"]
ROUNDING = 1e-5  # of float32; the probabilities are printed with 8 digits


def block(package):
    """The code of the page that imports a package first."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    (code,) = [code for code in blocks if code.startswith(f"import {package}\n")]
    return code


def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "page", "exec"), {"__name__": "page"})
    return out.getvalue()


@pytest.fixture(scope="module")
def version_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "export"
    exports.make("classification", 1, folder)
    return str(folder / "1")


@pytest.fixture(scope="module")
def model(version_dir):
    return servables.Model("messages", {1: servables.open_version(version_dir)})


@pytest.fixture(scope="module")
def expected(version_dir):
    return predictor.Predictor(version_dir).predict(TEXTS)


def test_request_over_rest_has_the_labels_and_needs_the_key(model, expected):
    code = block("requests")
    with running.running(model, access=app.Access(key="KEY")) as server:
        code = code.replace("http://localhost:8501", server.address)
        assert printed(code) == f"{[row['label'] for row in expected]}\n"
        with pytest.raises(OSError, match="401 Client Error"):
            printed(code.replace("Bearer KEY", "Bearer other"))


def test_request_over_grpc_has_the_probabilities(model, expected):
    with prediction_service.serving(model) as address:
        text = printed(block("grpc").replace("localhost:8500", address))
    actual = np.array(text.translate({ord(c): " " for c in "[]"}).split(), float)
    wanted = [list(row["probabilities"].values()) for row in expected]
    np.testing.assert_allclose(actual.reshape(2, -1), wanted, atol=ROUNDING)
