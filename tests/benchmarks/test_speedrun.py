"""From text to a scored encoder, in stages that go on after a kill."""

import json
import signal
import subprocess
import sys
import time

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


@pytest.mark.skipif(sys.platform != "linux", reason="the signal is of Linux")
def test_command_is_stopped_with_what_counts_its_time(tmp_path):
    note = tmp_path / "note"
    work = f"""
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path({str(note)!r}).write_text("stopped")
    sys.exit()
signal.signal(signal.SIGTERM, stop)
pathlib.Path({str(note)!r}).write_text("begun")
time.sleep(30)
"""
    program = "from benchmarks import speedrun; import sys; "
    program += f"list(speedrun.pieces_of([sys.executable, '-c', {work!r}]))"
    process = subprocess.Popen([sys.executable, "-c", program])
    for state in ("begun", "stopped"):
        end = time.time() + 60
        while not note.exists() or note.read_text() != state:
            assert time.time() < end
            time.sleep(0.05)
        process.kill()
    assert process.wait() == -signal.SIGKILL


def test_scores_of_texts_with_any_characters_are_counted(tmp_path):
    path = tmp_path / "blimp.jsonl"
    rows = [{"sentence_good": "a\u2028b\u0085c", "is_right": n > 0} for n in range(4)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    assert speedrun._accuracy(path) == "75.0%"


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
    sums = [sum(each) for each in zip(*times["pieces"], strict=True)]
    assert float(row[5]) == pytest.approx(sums[0] / 120, abs=0.1)
    assert float(row[6]) == pytest.approx(sums[1] / 60, abs=0.1) and sums[1] > 900
    with pytest.raises(errors.InputError, match="choose another --output_dir"):
        speedrun.measure(settings(tmp_path, recipe=str(_other_recipe(tmp_path))))


def _other_recipe(tmp_path):
    path = tmp_path / "other.flags"
    path.write_text("--do_train\n")
    return path
