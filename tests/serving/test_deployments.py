"""The files of examples/serving/ agree with the servers, and with one another."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from serving import export
from tests import tiny
from tests.serving.server import running, test_tasks

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "serving"


def load(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


NAMES = ("tensorflow_serving", "predictor")
KINDS = {name: {d["kind"]: d for d in load(f"{name}.yaml")} for name in NAMES}
SPECS = {k: v["Deployment"]["spec"]["template"]["spec"] for k, v in KINDS.items()}
PODS = {name: spec["containers"][0] for name, spec in SPECS.items()}
COMPOSE = load("compose.yaml")[0]["services"]
HEALTH = ["/health/ready", "/health/live"]
IMAGE = (FOLDER / "Dockerfile").read_text("utf-8")
OURS = [PODS["predictor"]["args"], COMPOSE["predictor"]["command"]]
COMMAND = json.loads(re.search(r"^CMD (.*)", IMAGE, re.M | re.S)[1].replace("\\\n", ""))
BUILT = ROOT / "Dockerfile", FOLDER / "Dockerfile", FOLDER / "predictor.yaml"
BUILT += (ROOT / "docs" / "serving.md",)
(SCRAPE,) = load("prometheus.yml")
(ALERTS,) = load("alerts.yml")


def value(arguments, flag):
    (text,) = [a.partition("=")[2] for a in arguments if a.startswith(f"{flag}=")]
    return text


def keys(node, place=""):
    items = enumerate(node) if isinstance(node, list) else ()
    items = node.items() if isinstance(node, dict) else items
    return {place}.union(*(keys(child, f"{place}.{key}") for key, child in items))


@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_has_these_fields(name, tmp_path):
    # Without a cluster, too, kubectl drops fields that it does not know.
    for kind, change in (("Deployment", "env A=1"), ("Service", "selector app=b")):
        wrong = KINDS[name][kind] | {"spec": KINDS[name][kind]["spec"] | {"replica": 2}}
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(wrong))
        command = f"kubectl set {change} --local -f a.yaml -o yaml"
        read = subprocess.check_output(command.split(), cwd=tmp_path, timeout=60)
        assert keys(wrong) - keys(yaml.safe_load(read)) == {".spec.replica"}


@pytest.mark.parametrize(
    ("name", "image", "ports", "paths"),
    [
        (NAMES[0], "tensorflow/serving:2.20.0", [8500, 8501], ["/v1/models/messages"]),
        (NAMES[1], "bert-serve", [8501], HEALTH),
    ],
)
def test_pod_agrees_with_its_server(name, image, ports, paths):
    pod, service = PODS[name], KINDS[name]["Service"]["spec"]["ports"]
    assert pod["image"] == COMPOSE[name]["image"] == image
    assert [port["containerPort"] for port in pod["ports"]] == ports
    assert [port["name"] for port in pod["ports"]] == [p["targetPort"] for p in service]
    assert [port["port"] for port in service] == ports
    assert pod["startupProbe"]["httpGet"] == pod["readinessProbe"]["httpGet"]
    probes = (pod["readinessProbe"], pod["livenessProbe"])
    assert [p["httpGet"]["path"] for p in probes if "httpGet" in p] == paths
    assert SPECS[name]["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["readOnlyRootFilesystem"]
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE[name]["ports"])


def test_servers_have_time_to_answer():
    limit_ms = value(PODS[NAMES[0]]["args"], "--rest_api_timeout_in_ms")
    _, pause = PODS[NAMES[1]]["lifecycle"]["preStop"]["exec"]["command"]
    in_pod, in_compose = (int(value(words, "--drain_seconds")) for words in OURS)
    grace = [SPECS[name]["terminationGracePeriodSeconds"] for name in NAMES]
    assert grace[0] > int(limit_ms) / 1000 and grace[1] > int(pause) + in_pod
    assert int(COMPOSE[NAMES[1]]["stop_grace_period"].rstrip("s")) > in_compose


@pytest.mark.parametrize("words", [*OURS, COMMAND], ids=["pod", "compose", "image"])
def test_flags_are_those_of_the_predictor(words):
    program, *arguments = words
    settings = tiny.settings_of("run_predictor", *arguments)
    assert (program, settings.port) == ("bert-serve", 8501)
    assert len(arguments) == len(settings.given)  # and no texts
    assert value(words, "--allowed_hosts") == "*"  # and each request needs the key
    assert "${BERT_API_KEY:?" in COMPOSE["predictor"]["environment"]["BERT_API_KEY"]
    assert "BERT_API_KEY" in [entry["name"] for entry in PODS["predictor"]["env"]]


def test_image_has_the_export_of_a_run():
    lines = [line for line in IMAGE.splitlines() if not line.startswith(("#", " "))]
    directory = value(COMMAND, "--export_dir")
    assert lines[:2] == [
        f"FROM {COMPOSE['predictor']['image']}",
        f"COPY export {directory}",
    ]
    assert len(lines) == 3 and COMMAND[0] == "bert-serve"


STAGES = {
    lines.split("\n")[0].split(" AS ")[1]: lines
    for lines in re.split(
        r"^FROM ", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.M
    )[1:]
}


def test_image_of_servers_has_what_a_server_needs():
    extras = {
        name: re.findall(r'"\$1\[(.*?)\]"', text) for name, text in STAGES.items()
    }
    assert extras == {
        "build": [],
        "serve": ["serve,onnx"],
        "train": ["chinese,hub,seq2seq"],
    }
    assert [*STAGES][-1] == "train" and STAGES["train"].startswith("serve AS")
    assert COMPOSE["predictor"]["build"] == {"context": "../..", "target": "serve"}
    for text in [*STAGES.values()][1:]:
        assert re.findall(r"^USER (.*)", text, re.M)[-1] == "bert"
    builds = "docker build -t bert-serve --target=serve ."
    assert all(builds in path.read_text("utf-8") for path in BUILT)


def test_image_of_servers_is_healthy_where_predictions_are_answered():
    check = re.search(r"^HEALTHCHECK .*? CMD (\[.*?\])$", STAGES["serve"], re.M | re.S)
    words = json.loads(check[1].replace("\\\n", ""))
    assert words == COMPOSE["predictor"]["healthcheck"]["test"][1:]
    assert f":{value(COMMAND, '--port')}/" in words[-1]
    assert "HEALTHCHECK NONE" in STAGES["train"] and "\nHEALTHCHECK" not in IMAGE

    def is_healthy():
        code = words[-1].replace("127.0.0.1:8501", "{}:{}".format(*server.place))
        return not subprocess.run(
            [sys.executable, "-c", code], stderr=subprocess.DEVNULL
        ).returncode

    with running.running() as server:
        assert is_healthy()
        server.service.state = "loading"
        assert not is_healthy()


def test_scrape_finds_the_pods_and_sends_the_key_of_metrics():
    (job,) = SCRAPE["scrape_configs"]
    (names,) = job["dns_sd_configs"]
    services = [d for d in load("predictor.yaml") if d["kind"] == "Service"]
    (headless,) = [s for s in services if s["spec"].get("clusterIP") == "None"]
    assert names["names"] == [headless["metadata"]["name"]]
    assert names["port"] == headless["spec"]["ports"][0]["port"]
    assert job["authorization"] == {"credentials_file": "metrics-key"}
    assert "BERT_METRICS_KEY" in [entry["name"] for entry in PODS["predictor"]["env"]]
    assert SCRAPE["rule_files"] == ["alerts.yml"]


def unknown_metrics(expression, text):
    names = set(re.findall(r"\bbert_\w+", expression))
    return {name for name in names if not re.search(rf"^{name}[{{ ]", text, re.M)}


def test_alerts_read_metrics_that_there_are():
    model = running.echo(
        test_tasks.by_size, signatures={"serving_default": test_tasks.LABELLED}
    )
    with running.running(model._replace(labels=test_tasks.NAMES)) as server:
        server.predict("a")
        text = server.request("/metrics")[2]
    (group,) = ALERTS["groups"]
    (job,) = SCRAPE["scrape_configs"]
    rules = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    for name, expression in rules.items():
        assert unknown_metrics(expression, text) == set(), name
        assert "bert_" in expression or f'job="{job["job_name"]}"' in expression
    assert unknown_metrics("rate(bert_request_total[5m])", text) == {
        "bert_request_total"
    }
    assert 'absent(up{job="predictor"})' in rules["PredictorDown"]  # all pods are gone
    labels = {label for e in rules.values() for label in re.findall(r'(\w+)[=!]~?"', e)}
    assert labels == {"job", "code", "path"}
    assert 'bert_requests_total{code="200",path="predict"}' in text


@pytest.mark.skipif(not shutil.which("promtool"), reason="there is no promtool")
def test_prometheus_reads_its_files(tmp_path):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "metrics-key").write_text("key")
    for kind, name in (("config", "prometheus.yml"), ("rules", "alerts.yml")):
        subprocess.check_call(["promtool", "check", kind, str(tmp_path / name)])


def test_configuration_is_that_of_exports_with_labels(tmp_path):
    export.write_server_config(str(tmp_path / "messages" / "export"))
    written = tmp_path / "messages" / "config"
    files = KINDS["tensorflow_serving"]["ConfigMap"]["data"]
    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((written / "models.config").read_text(), config)
    (model,) = config.model_config_list.config
    model.version_labels.update({"stable": 1, "canary": 2})
    model.model_version_policy.specific.versions.extend([1, 2])
    assert text_format.Parse(files["models.config"], type(config)()) == config
    batching = (written / "batching_parameters.txt").read_text()
    assert batching.endswith(f"\n{files['batching_parameters.txt']}")
