"""Scripts in processes of their own, which can be killed, and start at once.

A server imports TensorFlow and forks a process for each script, so that tests of many
devices, many processes and many deaths do not wait for as many imports. It is a program
of its own because a process in which TensorFlow has run cannot be forked.
"""

import importlib
import json
import os
import pathlib
import runpy
import socket
import subprocess
import sys
import time

from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Seconds in which a tiny run starts, goes on or ends, on a busy machine.
PATIENCE = 240


class Job:
    """A script that runs.

    Attributes:
        pid: of its process.
        log: the file that gets its output and errors.
    """

    def __init__(self, server, pid, log):
        self._server, self.pid, self.log = server, pid, pathlib.Path(log)

    def text(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, shown):
        """Returns when the log has this text."""
        end = time.monotonic() + PATIENCE
        while shown not in self.text():
            assert time.monotonic() < end, f"no {shown!r} in {self.text()}"
            assert self._server.ask("code", self.pid) is None, self.text()
            time.sleep(0.01)

    def poll(self):
        """The exit code, as `code`, or None while it runs."""
        return self._server.ask("code", self.pid)

    def kill(self, number):
        os.kill(self.pid, number)

    def code(self):
        """Waits for the end; the exit code, or minus the signal's number."""
        end = time.monotonic() + PATIENCE
        while (code := self._server.ask("code", self.pid)) is None:
            assert time.monotonic() < end, self.text()
            time.sleep(0.02)
        return code


class Server:
    """Starts scripts; to be closed."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, script, *arguments, constants=None, environment=None):
        """Runs a script.

        Args:
            script: such as run_classifier.
            *arguments: of its command line.
            constants: {"module.NAME": value} to be changed first.
            environment: variables to be set first.
        """
        self._count += 1
        log = self._directory / f"{self._count}-{script}.log"
        log.touch()
        pid = self.ask(
            "start",
            script,
            list(map(str, arguments)),
            constants or {},
            environment or {},
            str(log),
        )
        return Job(self, pid, log)

    def start_program(self, program, *arguments):
        """Runs a script, or a module such as run_predictor.py, as its users do."""
        return self.start(program, *arguments, constants={"": "program"})

    def start_workers(self, count, script, *arguments, **more):
        return [
            self.start(script, *arguments, environment=environment, **more)
            for environment in cluster(count)
        ]

    def close(self):
        self._process.communicate(timeout=PATIENCE)


def cluster(count):
    """The variables of each of `count` processes that find each other by them."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    return [
        {
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            )
        }
        for index in range(count)
    ]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _run(script, arguments, constants, environment, log):
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    if constants.pop("", None) == "program":
        os.chdir(os.path.dirname(log))  # an odd path may be relative
        runpy.run_module(script, run_name="__main__", alter_sys=False)
        sys.exit()
    for name, value in constants.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, value)
    tiny.start(importlib.import_module(script))


def _serve():
    for task in ("classifier", "squad", "tagger", "pretraining"):
        importlib.import_module(f"tasks.{task}")  # and with it TensorFlow
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        command, *rest = json.loads(line)
        if command == "start":
            pid = os.fork()
            if pid == 0:
                _run(*rest)
            codes[pid] = None
            answer = pid
        else:
            pid = rest[0]
            if codes[pid] is None:
                actual, status = os.waitpid(pid, os.WNOHANG)
                codes[pid] = os.waitstatus_to_exitcode(status) if actual else None
            answer = codes[pid]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
