"""The page of a server, where a person types a text and sees the answer."""

from typing import Any

import jinja2
from starlette import responses

from serving.protocol import servables

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__), autoescape=True
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {}  # the first signature stays the first


def response(
    model: servables.Model | None, classify_path: str, search_path: str
) -> responses.Response:
    """The page of a model, or of an index, which answers at `search_path`.

    A signature of one output is answered without its name, which is `only`. The command
    of `curl` is that of `classify_path` for the signature that this reads.
    """
    forms: dict[str, Any] = {}
    predict, labels = "", list[str]()
    if search_path:
        forms["search"] = {"inputs": {"query": 1}, "path": search_path, "only": ""}
        forms["search"]["curl"] = search_path
    if model:
        version, labels = model.version(model.name), [*model.labels]
        predict = f"/v1/models/{model.name}:predict"
        named = classify_path and version.find_texts("probabilities", (1, 2))
        classified = named[0] if named else ""
        for name, inputs in version.text_signatures().items():
            outputs = [*version.signatures[name].outputs]
            only = outputs[0] if len(outputs) == 1 else ""
            forms[name] = {"inputs": inputs, "path": predict, "only": only}
            forms[name]["curl"] = classify_path if name == classified else predict
    text = _ENVIRONMENT.get_template("page.html").render(
        name=model.name if model else "search" if search_path else "model",
        footer=f"version {max(model.versions)}" if model else "",
        model={"signatures": forms, "labels": labels, "predict": predict},
    )
    return responses.HTMLResponse(text, headers=_HEADERS)
