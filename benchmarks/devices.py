"""What devices, saving and starting up cost a run of run_classifier.py.

    python -m benchmarks.devices --pretrained=models/minilm \
      --train_file=sample_data/messages/train.tsv

Prints JSON: seconds to the first step and steps a second after it on one device, on two
virtual CPUs and in two processes on this machine; seconds and bytes of a checkpoint
with its moments. Virtual devices share the cores of one, so their rate shows what
sharing costs, not what devices gain.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATCH_SIZE, LENGTH = 32, 64
FLAGS = flags.FLAGS
_STEP = re.compile(r"^step (\d+)/\d+ .* (\d+) examples/s", re.M)


def define_flags():
    """What to time, on which texts."""
    flags.DEFINE_string("pretrained", None, "Directory of a model.", required=True)
    flags.DEFINE_string("train_file", None, "A table of texts.", required=True)
    flags.DEFINE_integer("steps", 30, "Steps that are timed.")


def addresses(count):
    """Free ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def run(directory, more, workers=()):
    """Trains; returns the seconds to the first step, and steps a second after it."""
    command = [
        *(sys.executable, "run_classifier.py", "--do_train", "--pad_to_max_length"),
        *(f"--pretrained={FLAGS.pretrained}", f"--train_file={FLAGS.train_file}"),
        *(f"--train_batch_size={BATCH_SIZE}", f"--max_seq_length={LENGTH}"),
        *("--num_train_epochs=1000", "--save_checkpoints_steps=1000000"),
        *(f"--log_steps={FLAGS.steps}", f"--output_dir={directory}", *more),
    ]
    started = []
    for index in range(max(len(workers), 1)):
        environment = dict(os.environ)
        if workers:
            task = {"type": "worker", "index": index}
            found = {"cluster": {"worker": workers}, "task": task}
            environment["TF_CONFIG"] = json.dumps(found)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
    log = ""
    for line in started[0].stderr:
        log += line
        # The first steps include starting up, the second ones do not.
        if len(_STEP.findall(log)) == 2:
            break
    for process in started:
        process.kill()
        process.communicate()
    first = re.search(r"first step done after ([\d.]+) s", log)
    rates = _STEP.findall(log)
    if not first or len(rates) < 2:
        raise RuntimeError(f"the run failed: {log[-2000:]}")
    rate = int(rates[1][1]) / BATCH_SIZE
    return {
        "seconds_to_first_step": round(float(first[1]), 1),
        "steps_per_second": round(rate, 3),
    }


def checkpoint_costs(directory):
    """Seconds and bytes of saving and restoring a model with its moments."""
    from modeling import pretrainers
    from modeling.checkpoints import checkpoint, pretrained
    from training import checkpoints
    from training.optimization import optimizer

    config = pretrained.read_config(pretrained.locate(FLAGS.pretrained).config_file)
    model = pretrainers.build("classifier", 2, config)
    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    store = checkpoint.store(model)
    saver = checkpoints.RunCheckpoints(
        str(directory), store.variables, adam, write=store.write, keep=5
    )
    begin = time.perf_counter()
    saver.save(1, {})
    saved = time.perf_counter()
    saver.restore()
    return {
        "save_seconds": round(saved - begin, 2),
        "restore_seconds": round(time.perf_counter() - saved, 2),
        "bytes": sum(p.stat().st_size for p in directory.glob("model.ckpt-1.*")),
    }


def main(_):
    """Prints the measurements."""
    two = ["--distribution_strategy=mirrored", "--virtual_cpus=2"]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        found = {
            "one_device": run(directory / "one", []),
            "two_virtual_cpus": run(directory / "two", two),
            "two_processes": run(directory / "processes", [], addresses(2)),
        }
        (directory / "saved").mkdir()
        found["checkpoint"] = checkpoint_costs(directory / "saved")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    define_flags()
    app.run(main)
