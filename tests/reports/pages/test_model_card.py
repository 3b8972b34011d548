"""README.md as the hub reads it, and whose it is."""

import pytest
import yaml

from reports import run_report
from reports.pages import model_card, record
from tests.reports import example_runs


def written(directory):
    run_report.write(example_runs.rows(), str(directory), **example_runs.facts())
    return directory / "README.md"


def test_hub_accepts_the_metadata(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(written(tmp_path / "mine"))
    data = card.data
    assert (data.pipeline_tag, data.library_name) == ("text-classification", "keras")
    assert data.license is None and data.model_name == "mine"
    (accuracy,) = [e for e in data.eval_results if e.metric_type == "accuracy"]
    assert (accuracy.metric_value, accuracy.dataset_split) == (0.8, "dev")


def test_metadata_is_yaml_whatever_the_names(tmp_path):
    run = record.build(
        example_runs.rows(), directory=str(tmp_path / "a: #b"), **example_runs.facts()
    )
    run["data"]["dev"] = {**run["data"]["train"], "path": "x/né: [dev].tsv"}
    text = model_card.make_text(run)
    actual = yaml.safe_load(text.split("---\n")[1])
    (model,) = actual["model-index"]
    assert model["name"] == "a: #b"
    assert model["results"][0]["dataset"]["name"] == "né: [dev].tsv"


def test_names_are_no_html_or_markdown(tmp_path):
    evil = '"><script>alert(5)</script>'
    run = record.build(
        example_runs.rows(), directory=str(tmp_path / "out"), **example_runs.facts()
    )
    usual = model_card.make_text(run)
    run["name"] = f"out{evil}"
    run["evaluation"]["classes"][0]["name"] = f"a|b{evil}[x](javascript:1)"
    run["data"]["train"]["path"] = f"x/`{evil}`|.tsv"
    run["training_command"] = f"python run.py '--a=\n```\n{evil}'"
    text = model_card.make_text(run).split("---\n", 2)[2]
    lines = text.splitlines()
    assert '# out"&gt;&lt;script&gt;alert(5)&lt;/script&gt;' in lines
    assert any(line.startswith('| a\\|b"&gt;&lt;script') for line in lines)
    assert "\\[x](javascript" in text
    assert r"| `script>'\|.tsv` |" in text
    start = lines.index("````bash")
    assert lines.index("````", start) > lines.index("```", start) > start
    fence = ""
    for line in lines:
        run_of = line[: len(line) - len(line.lstrip("`"))]
        if len(run_of) > 2 and (not fence or line == fence):
            fence = "" if fence else run_of
        assert fence or "<script" not in line
    assert "```bash" in usual and "````" not in usual


def test_card_names_no_place_of_ones_own_machine(tmp_path):
    text = written(tmp_path / "mine").read_text()
    assert "--train_file=t.tsv" in text and "/Users/me" not in text
    assert str(tmp_path) not in text
    assert "| accuracy | 0.8000 |" in text


def test_card_of_a_person_stays(tmp_path, capsys):
    path = written(tmp_path)
    ours = path.read_text()
    written(tmp_path)  # ours is written again
    assert path.read_text() == ours
    for theirs in ("# My model\n", ours.replace("## Data", "## My data")):
        path.write_text(theirs)
        capsys.readouterr()
        written(tmp_path)
        assert path.read_text() == theirs
        assert "is not ours, so it stays as it is" in capsys.readouterr().out


def test_there_is_no_card_without_weights(tmp_path):
    facts = example_runs.facts(has_weights=False)
    run_report.write(example_runs.rows(), str(tmp_path), **facts)
    assert not (tmp_path / "README.md").exists()
