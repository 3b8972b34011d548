"""A hook of mkdocs: the site also has the pages and files that docs/ links to."""

import os
import pathlib
import re

from mkdocs.structure.files import File
from pymdownx import slugs

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "README.zh.md": "zh/index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "STYLE.md": "style.md",
}


def on_config(config):
    """Headings get the anchors of GitHub."""
    config.mdx_configs["toc"]["slugify"] = slugs.slugify(case="lower")
    return config


def on_files(files, config):
    """Adds the pages of the root."""
    for path, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=ROOT / path))
    return files


def on_page_markdown(markdown, page, config, files):
    """Adds the files that a page links to, leads its links there, and escapes.

    A picture is a link to itself, so that it opens in its size.
    """
    here = pathlib.Path(page.file.abs_src_path).parent
    markdown = re.sub(r"<(?=\w+\|)", "&lt;", markdown)  # <a|b> of flags is no HTML

    def moved(link):
        path = os.path.relpath((here / link[2]).resolve(), ROOT)
        place = PAGES.get(path, path.removeprefix("docs/"))
        if not (ROOT / path).is_file():  # a folder, which a site does not show
            return link[1]
        if not files.get_file_from_path(place):
            files.append(File.generated(config, place, abs_src_path=ROOT / path))
        place = os.path.relpath(place, os.path.dirname(page.file.src_uri))
        return f"{link[1]}({place}{link[3]})"

    markdown = re.sub(r"(\[[^]]*\])\((?!\w+:|#)([^)\s#]+)([^)\s]*)\)", moved, markdown)
    return re.sub(r"!\[[^]]*\]\(([^)]+)\)", r"[\g<0>](\1)", markdown)
