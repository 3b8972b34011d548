"""What a report and a model card print of how to use a run, and how to type it."""

import contextlib
import html
import io
import os
import re
import subprocess


def of_card(directory):
    """{title: code} that README.md of a run shows."""
    text = (directory / "README.md").read_text("utf-8").split("## Training")[0]
    return dict(re.findall(r"^([^\n]+):\n\n```\w+\n(.*?)\n```", text, re.M | re.S))


def of_page(directory):
    """{title: code} that report.html of a run shows."""
    text = (directory / "report.html").read_text("utf-8")
    actual = re.findall(
        r"<h3>([^<]*)</h3>\s*<pre[^>]*><code>(.*?)</code></pre>", text, re.S
    )
    return {html.unescape(title): html.unescape(code) for title, code in actual}


def words(code):
    """The words of a command as bash hands them to a program, in this directory."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {code}"],
        capture_output=True,
        check=True,
        cwd=os.getcwd(),
    )
    return done.stdout.decode().split("\0")[:-1]


def ask(code):
    from tasks import prediction  # and with it TensorFlow

    python, script, export_dir, *texts = words(code)
    assert [python, script] == ["python", "run_predictor.py"]
    flag, _, export_dir = export_dir.partition("=")
    assert flag == "--export_dir" and not any(t.startswith("-") for t in texts)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        prediction.answer_texts(export_dir, texts)
    return out.getvalue()
