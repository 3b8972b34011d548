"""mkdocs.yml and docs/api.md have all pages and all names; `make site` builds them."""

import ast
import importlib
import importlib.util
import json
import pathlib
import re
import sys
import unittest.mock

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


def test_pictures_of_the_site_open_in_their_size(monkeypatch):
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files", "pymdownx"):
        monkeypatch.setitem(sys.modules, name, unittest.mock.MagicMock())
    path = DOCS / "site_links.py"
    specification = importlib.util.spec_from_file_location("site_links", path)
    hook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hook)
    for source, place in (("README.md", "index.md"), ("docs/runs.md", "runs.md")):
        text = (ROOT / source).read_text("utf-8")
        page, files = unittest.mock.Mock(), unittest.mock.Mock()
        page.file.abs_src_path, page.file.src_uri = str(ROOT / source), place
        shown = hook.on_page_markdown(text, page, None, files)
        pictures = re.findall(r"(!\[[^]]*\])\((?:docs/)?(images/[^)]*)\)", text)
        assert pictures and all((DOCS / file).is_file() for _, file in pictures)
        linked = re.findall(r"\[(!\[[^]]*\])\(([^)]*)\)\]\(([^)]*)\)", shown)
        assert linked == [(alt, file, file) for alt, file in pictures]


# A letter or sign of Chinese, and markup that stands around it.
WIDE = r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef\u201c\u201d]"
WRAP = re.compile(
    rf"{WIDE}[`*)]*\n[ >]*(?:[\[*]*{WIDE}|\[)|[，。、：；？！）]`?\n[ >]*\w"
)


def prose_of(path):
    """The text of a page or a notebook, without commands and code."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        prose = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
        text = "\n\n".join(prose)
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def test_chinese_sentences_are_on_one_line():
    """A line break is a blank in a browser, which Chinese does not have."""
    pages = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    wrapped = {p.name: found[0] for p in pages if (found := WRAP.search(prose_of(p)))}
    assert len(pages) > 40 and wrapped == {}
    for text in (
        "检查数据、\n训练",
        "中文\n即可",
        "列出来，\n[清单](a.md)",
        "* 文\n  本",
    ):
        assert WRAP.search(text), text
    for text in ("中文\n\n即可", "不再依赖\nTensorFlow", "* 中文\n* 即可", "# 中\n`a`"):
        assert not WRAP.search(text), text


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
