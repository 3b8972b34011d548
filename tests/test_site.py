"""mkdocs.yml and docs/api.md have all pages and all names; `make site` builds them."""

import ast
import importlib
import pathlib
import re

import yaml

import bert_reborn as bert

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
API = (DOCS / "api.md").read_text("utf-8")


def pages_of_hook():
    """PAGES of the hook, whose import needs mkdocs."""
    tree = ast.parse((DOCS / "site_links.py").read_text("utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    values = {node.targets[0].id: node.value for node in assigned}
    return ast.literal_eval(values["PAGES"])


def leaves(nav):
    if isinstance(nav, str):
        return [nav]
    children = nav.values() if isinstance(nav, dict) else nav
    return [page for child in children for page in leaves(child)]


def test_navigation_has_every_page_once():
    extra = pages_of_hook()
    assert all((ROOT / path).is_file() for path in extra)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md")]
    assert sorted(leaves(CONFIG["nav"])) == sorted([*pages, *extra.values()])


def test_every_page_is_listed():
    listed = re.findall(r"\]\(([\w/]+\.md)", (DOCS / "choosing.md").read_text("utf-8"))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md")}
    assert pages - {*listed} == {"choosing.md"}


def test_site_loads_nothing_from_others():
    assert CONFIG["theme"]["font"] is False and "repo_url" not in CONFIG
    files = [*CONFIG["extra_css"], *CONFIG.get("extra_javascript", [])]
    assert all((DOCS / file).is_file() for file in files)


def resolved(path):
    """The object of a dotted path, which begins with the longest module."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_reference_has_every_name():
    entries = re.findall(
        r"^::: (\S+)\n(?:    options: .*heading: (\S+?)[, ])?", API, re.M
    )
    titles = [heading or path for path, heading in entries]
    assert sorted(titles) == sorted(
        f"bert_reborn.{n}" for n in dir(bert) if n != "keras"
    )
    for (path, _), title in zip(entries, titles, strict=True):
        assert resolved(path) is getattr(bert, title.removeprefix("bert_reborn."))
        assert resolved(path).__doc__
