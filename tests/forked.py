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
import signal
import socket
import subprocess
import sys
import time

from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Seconds in which a tiny run starts, goes on or ends, on a busy machine.
PATIENCE = 240


def until(is_so, explain=str):
    """Returns when a function says so; an error has the text of another one."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, explain()
        time.sleep(0.01)


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
        self.until(lambda: shown in self.text())

    def until(self, is_so):
        """Returns when a function says so, before which the script must not end."""

        def is_so_or_over():
            assert self.poll() is None, self.text()
            return is_so()

        until(is_so_or_over, self.text)

    def poll(self):
        """The exit code, as `code`, or None while it runs."""
        return self._server.ask("code", self.pid)

    def send(self, number):
        """Sends a signal."""
        os.kill(self.pid, number)

    def kill(self):
        """Ends it as nothing can prepare for, in the midst of its work."""
        self.send(signal.SIGKILL)
        assert self.code() == -signal.SIGKILL, self.text()

    def succeed(self):
        """Waits for its end, which must be a good one; all that it printed."""
        code, text = self.code(), self.text()
        assert code == 0, text
        return text

    def code(self):
        """Waits for the end; the exit code, or minus the signal's number."""
        until(lambda: self.poll() is not None, self.text)
        return self.poll()


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

    def start(
        self, script, *arguments, constants=None, environment=None, directory=None
    ):
        """Runs a script.

        Args:
            script: such as run_classifier.
            *arguments: of its command line.
            constants: {"module.NAME": value} to be changed first.
            environment: variables to be set first.
            directory: in which it starts; this one.
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
            str(directory or ROOT),
            str(log),
        )
        return Job(self, pid, log)

    def start_program(self, program, *arguments):
        """Runs a script, or a module such as run_predictor.py, as its users do."""
        return self.start(
            program, *arguments, constants={"": "program"}, directory=self._directory
        )

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


def _run(script, arguments, constants, environment, directory, log):
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)
    # A shell ignores it for what it starts in the background, and tests inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    os.chdir(directory)
    if constants.pop("", None) == "program":
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
