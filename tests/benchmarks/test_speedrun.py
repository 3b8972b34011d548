"""From text to a scored encoder, in stages that go on after a kill."""

import json
import sys

import pytest

from benchmarks import speedrun
from contract import errors


def settings(tmp_path, **more):
    return speedrun.SpeedrunSettings(
        input_file="sample_data/corpus/*.txt",
        blimp_file="sample_data/sentences/grammar.jsonl",
        config_file="configs/bert_tiny.json",
        vocab_size=300,
        num_train_steps=3,
        output_dir=str(tmp_path / "run"),
        **more,
    )


def test_every_200th_sentence_is_held_out(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"sentence {i}\n\n" for i in range(401)))
    given = speedrun.SpeedrunSettings(input_file=str(text), output_dir=str(tmp_path))
    assert speedrun.write_texts(given) == (2 * 398, 398)
    held_out = (tmp_path / "held_out.txt").read_text()
    assert held_out == "sentence 0\n\nsentence 200\n\nsentence 400\n\n"
    assert "sentence 1\n\nsentence 2\n\n" in (tmp_path / "train.txt").read_text()
    text.write_text("another\n\none\n")
    with pytest.raises(errors.InputError, match="holds other sentences"):
        speedrun.write_texts(given)
    text.write_text("one\n")
    with pytest.raises(errors.InputError, match="has no two sentences"):
        speedrun.write_texts(given)


def test_processor_time_is_that_of_the_command():
    work = "import time; begun = time.process_time()\n"
    work += "while time.process_time() < begun + 0.5: pass"
    *_, (processor, wall) = speedrun.pieces_of([sys.executable, "-c", work])
    assert 0.5 <= processor <= wall
    idle = [sys.executable, "-c", "import time; time.sleep(0.7)"]
    *_, (processor, wall) = speedrun.pieces_of(idle)
    assert processor < 0.7 <= wall
    with pytest.raises(errors.InputError, match="ended with 3; the same command"):
        list(speedrun.pieces_of([sys.executable, "-c", "raise SystemExit(3)"]))


@pytest.mark.slow
def test_stages_are_run_once_and_all_their_pieces_count(tmp_path, capfd):
    given = settings(tmp_path)
    speedrun.measure(given)
    row = capfd.readouterr().out.splitlines()[-1].split(" | ")
    path = tmp_path / "run" / "times.json"
    times = json.loads(path.read_text())
    names = {"vocabulary", "records", "held out", "training", "BLiMP"}
    assert set(times) == names
    assert all(each["done"] and len(each["pieces"]) == 1 for each in times.values())
    ((processor, wall),) = times["training"]["pieces"]
    assert float(row[5]) == pytest.approx(processor / 120, abs=0.1)
    assert float(row[6]) == pytest.approx(wall / 60, abs=0.1)
    # A training that was killed after its last line goes on, and both times count.
    times["training"] |= {"done": False, "pieces": [[1200.0, 900.0]]}
    path.write_text(json.dumps(times))
    speedrun.measure(given)
    times = json.loads(path.read_text())["training"]
    assert (
        times["done"]
        and times["pieces"][0] == [1200.0, 900.0]
        and len(times["pieces"]) == 2
    )
    row = capfd.readouterr().out.splitlines()[-1].split(" | ")
    assert float(row[5]) > 10 and float(row[6]) > 15
    with pytest.raises(errors.InputError, match="choose another --output_dir"):
        speedrun.measure(settings(tmp_path, recipe=str(_other_recipe(tmp_path))))


def _other_recipe(tmp_path):
    path = tmp_path / "other.flags"
    path.write_text("--do_train\n")
    return path
