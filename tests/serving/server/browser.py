"""A browser without a window, driven over its pipe; needs Chromium or Chrome."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATH = next(filter(None, map(shutil.which, NAMES)), None)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Page:
    """A tab; `run` evaluates JavaScript in it, and waits for a promise."""

    def __init__(self, write, read):
        self._write, self._read, self._numbers = write, read, itertools.count(1)
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.events = []
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def _call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self):
        text = b"".join(iter(lambda: self._read.read(1), b"\0"))
        assert text, "the browser has ended"
        answer = json.loads(text)
        if "method" in answer and self._session:
            self.events.append(answer)
        return answer

    def open(self, url):
        self.events.clear()
        self._call("Page.navigate", url=url)
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._next()

    def resize(self, width, height):
        """Sets the size of the window in pixels of CSS."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", mobile=False, **size)

    def type(self, text):
        """Presses the keys of a text, as a person does."""
        for key in text:
            for kind in ("keyDown", "keyUp"):
                event = {"type": kind, "text": key if kind == "keyDown" else ""}
                name = "Enter" if key == "\r" else key
                self._call("Input.dispatchKeyEvent", key=name, **event)

    def run(self, script):
        result = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def errors(self):
        """Messages of the console and uncaught exceptions."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        events = [e["params"] for e in self.events if e["method"] in kinds]
        return [e for e in events if e.get("entry", {}).get("level") != "verbose"]


@contextlib.contextmanager
def page(folder):
    """A new tab of a browser whose files are below a folder."""
    reads, writes = os.pipe()  # the browser reads from 3 and writes to 4
    answers, answered = os.pipe()

    def place():
        os.dup2(os.dup(reads), 3)
        os.dup2(os.dup(answered), 4)

    command = [PATH, *_FLAGS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        command,
        pass_fds=(3, 4),
        preexec_fn=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reads)
    os.close(answered)
    try:
        with os.fdopen(writes, "wb") as write, os.fdopen(answers, "rb") as read:
            yield Page(write, read)
    finally:
        process.kill()
        process.wait()
