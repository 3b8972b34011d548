"""The page of a server in a browser: texts are typed, and answers are drawn."""

import json

import numpy as np
import pytest
import tensorflow as tf

from serving.server import app, tasks
from tests.serving.protocol import test_rest
from tests.serving.server import browser, running

pytestmark = pytest.mark.skipif(browser.PATH is None, reason="needs Chromium")
STRINGS, WORDS = (tf.string, [None]), (tf.string, [None, None])
NUMBERS, WHOLE = (tf.float32, [None, None]), (tf.int32, [None])
SIGNATURES = {
    "classify": test_rest.definition(
        {"text": STRINGS}, {"probabilities": (tf.float32, [None, 3]), "label": STRINGS}
    ),
    "tag": test_rest.definition({"text": STRINGS}, {"words": WORDS, "tags": WORDS}),
    "answer": test_rest.definition(
        {"question": STRINGS, "context": STRINGS},
        {
            "answer": STRINGS,
            "start": WHOLE,
            "end": WHOLE,
            "probability": (tf.float32, [None]),
        },
    ),
    "embed": test_rest.definition(
        {"text": STRINGS}, {"vector": (tf.float32, [None, 9])}
    ),
    "other": test_rest.definition({"text": STRINGS}, {"size": WHOLE}),
}
LABELS = ("<i>bad</i>", "good", "fair")


def call(name, arrays):
    if name == "classify":
        shares = np.array([[0.2, 0.7, 0.1]], np.float32)
        return {"probabilities": shares, "label": np.array([b"good"], object)}
    if name == "tag":
        words = [*arrays["text"][0].split(), b""]
        tags = [b"B-PER" if word.istitle() else b"O" for word in words]
        return {"words": np.array([words], object), "tags": np.array([tags], object)}
    if name == "answer":
        context = arrays["context"][0].decode()
        start = context.index("Monday")  # in characters, also after one of four bytes
        return {
            "answer": np.array([b"Monday"], object),
            "start": np.array([start], np.int32),
            "end": np.array([start + 6], np.int32),
            "probability": np.array([0.875], np.float32),
        }
    if name == "embed":
        return {"vector": np.full([1, 9], 0.5, np.float32)}
    return {"size": np.array([len(arrays["text"][0])], np.int32)}


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser.page(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def send(tab, signature, **texts):
    """The text, and the marked text, of the answer to texts that are typed."""
    choose = f"""
      const select = document.getElementById("signature");
      if (select) {{
        select.value = {json.dumps(signature)};
        select.dispatchEvent(new Event("change"));
      }}
      for (const [name, text] of Object.entries({json.dumps(texts)}))
        document.getElementById("text-" + name).value = text;
      document.getElementById("send").click();
    """
    tab.run(f"(() => {{ {choose} }})()")
    return read(tab)


def read(tab):
    return tab.run("""new Promise((resolve) => {
      const look = () => {
        const answer = document.getElementById("answer");
        if (["", "..."].includes(answer.textContent)) return setTimeout(look, 10);
        const marks = Array.from(answer.querySelectorAll("mark"), (e) => e.textContent);
        const lines = Array.from(answer.children, (e) => e.textContent);
        resolve({ lines, marks, isError: !!answer.querySelector(".error") });
      };
      look();
    })""")


def test_answers_are_drawn(tab):
    model = running.echo(call, signatures=SIGNATURES)
    with running.running(model._replace(labels=LABELS)) as server:
        tab.open(server.address)
        assert tab.run("document.title") == "echo"
        shown = send(tab, "classify", text="a text")
        assert shown["lines"] == ["good0.700", "<i>bad</i>0.200", "fair0.100"]
        shown = send(tab, "tag", text="Ada met Grace")
        assert shown["marks"] == ["AdaB-PER", "GraceB-PER"]
        assert shown["lines"] == ["AdaB-PER met GraceB-PER "]
        context = "The fair \U0001f600 opens on Monday."
        shown = send(tab, "answer", question="When?", context=context)
        assert shown["marks"] == ["Monday"]
        assert shown["lines"] == [context, "probability0.875"]
        shown = send(tab, "embed", text="a")["lines"]
        assert shown == [f"{'0.5000 ' * 8}... (9 numbers)"]
        assert send(tab, "other", text="abc")["lines"] == ['{\n "size": 3\n}']
        shown = send(tab, "answer", question="When?", context="no day")
        assert shown["isError"] and shown["lines"][0].startswith("internal error")
        assert [e for e in tab.errors() if "500" not in json.dumps(e)] == []


def test_key_is_sent(tab):
    model = running.echo(call, signatures=SIGNATURES)
    with running.running(model, access=app.Access(key="secret")) as server:
        tab.open(server.address)
        shown = send(tab, "other", text="abc")
        assert shown["isError"] and "Bearer KEY" in shown["lines"][0]
        assert (
            tab.run(
                'document.activeElement.id + document.querySelector("details").open'
            )
            == "keytrue"
        )
        tab.run('document.getElementById("answer").textContent = ""')
        tab.type("secret\r")
        assert read(tab)["lines"] == ['{\n "size": 3\n}']


def test_curl_of_a_classifier_is_there_before_a_text_is_sent(tab):
    model = running.echo(call, signatures=SIGNATURES)
    with running.running(model) as server:
        tab.open(server.address)
        shown = tab.run('document.getElementById("curl").textContent')
        url = f"{server.address}{tasks.CLASSIFY}"
        assert shown == f"""curl -d '{{"text":"a text"}}' {url}"""
        send(tab, "other", text="a")
        shown = tab.run('document.getElementById("curl").textContent')
        assert shown.endswith(f" {server.address}{running.PREDICT}")


KEYS = """new Promise((resolve) => {
  const answer = document.getElementById("answer");
  const box = document.querySelector("textarea");
  answer.textContent = "";
  box.value = TEXT;
  const init = { key: "Enter", cancelable: true, ...KEYS };
  const event = new KeyboardEvent("keydown", init);
  const isHandled = !box.dispatchEvent(event);
  const look = () => answer.textContent === "..." ? setTimeout(look, 10)
    : resolve([isHandled, answer.textContent]);
  look();
})"""


def test_keys_send_and_empty_texts_have_no_answer(tab):
    def press(text, **keys):
        script = KEYS.replace("TEXT", json.dumps(text))
        return tab.run(script.replace("KEYS", json.dumps(keys)))

    number = {"other": SIGNATURES["other"]}
    model, size = running.echo(call, signatures=number), '{\n "size": 4\n}'
    with running.running(model, access=app.Access(key="secret")) as server:
        tab.open(server.address)
        tab.run('document.getElementById("key").value = "secret"')
        assert press("it's") == [True, size]
        shown = tab.run('document.getElementById("curl").textContent')
        assert shown == (
            """curl -d '{"signature_name":"other","instances":[{"text":"it'\\''s"}]}'"""
            ' -H "Authorization: Bearer $BERT_API_KEY" '
            f"{server.address}{running.PREDICT}"
        )
        assert press("it's", ctrlKey=True) == [True, size]
        assert press("it's", shiftKey=True) == [False, ""]  # a new line
        assert press("it's", isComposing=True) == [False, ""]  # chooses a character
        for text in ("", " \n"):
            assert press(text) == [True, "text is empty; write a text"]
        link = tab.run('document.querySelector("footer a").href')
        assert link == f"{server.address}/openapi.json"


def test_choices_take_lines(tab):
    several = {"text": (tf.string, [None, 2])}
    choice = test_rest.definition(several, {"size": WHOLE})
    model = running.echo(call, signatures={"serving_default": choice})
    with running.running(model) as server:
        tab.open(server.address)
        for keys, expected in (({}, False), ({"ctrlKey": True}, True)):
            script = KEYS.replace("TEXT", '"a\\nb"').replace("KEYS", json.dumps(keys))
            assert tab.run(script)[0] == expected


def test_passages_and_scores_are_shown(tab):
    text = {"id": "7", "line": 7, "cosine": 0.25, "score": 0.75, "text": "near"}
    text |= {"start": 3, "end": 7}

    def answers(server):
        return tasks.of_index(server, lambda *_: [{"query": "a", "texts": [text]}])

    with running.running(load=lambda: None, answers=answers) as server:
        running.until(lambda: server.service.state == "ready")
        tab.open(server.address)
        lines = ["line 70.750", "characters 3 to 7, cosine 0.250", "near"]
        tab.resize(390, 800)
        assert send(tab, "search", query="a")["lines"] == lines
        # The name of a bar leaves it half of the width.
        shares = tab.run("""["#answer .row :nth-child(2)", "#answer"].map(
          (name) => document.querySelector(name).getBoundingClientRect().width)""")
        assert shares[0] > 0.4 * shares[1]


def test_index_is_searched(tab):
    passage = "a near text " * 60 + "x" * 300

    def search(queries, count, is_wanted):
        texts = [
            {"text": text, "cosine": cosine, "id": text_id, "line": line}
            for text, cosine, text_id, line in (
                ("a near text", 0.9, "7", 7),
                (passage, 0.25, "<b>Parcels</b>", 9),
            )
        ]
        return [{"query": query, "texts": texts} for query in queries]

    def answers(server):
        return tasks.of_index(server, search)

    with running.running(load=lambda: None, answers=answers) as server:
        running.until(lambda: server.service.state == "ready")
        for width in (390, 1600):
            tab.resize(width, 800)
            tab.open(server.address)
            assert send(tab, "search", query="a")["lines"] == [
                *("line 70.900", "a near text"),
                *("<b>Parcels</b>0.250", passage),
            ]
            # A text is as wide as the form, and nothing is wider than the window.
            widths = tab.run("""[
              document.documentElement.scrollWidth,
              ...["#answer p:last-child", "form"].map(
                (name) => document.querySelector(name).getBoundingClientRect().width)
            ]""")
            assert widths[0] <= width and widths[1] == widths[2] > 0.4 * width
