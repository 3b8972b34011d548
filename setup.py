"""Builds the wheel: the package `bert_reborn`, of all packages, scripts and configs.

The names of the top-level folders are too general for a directory that all installed
packages share. So the wheel has them below one package, with the imports rewritten, and
bert_reborn.py is the package itself. In the checkout the files are used as they lie.
"""

import pathlib
import re
import shutil

import setuptools
from setuptools.command import build_py, editable_wheel, egg_info

PACKAGES = setuptools.find_packages(exclude=["benchmarks", "examples", "tests*"])
FOLDERS = [package for package in PACKAGES if "." not in package]
SCRIPTS = {path.stem for path in pathlib.Path().glob("*.py")} - {"bert_reborn", "setup"}
NAMES = "|".join([*FOLDERS, *SCRIPTS])
# What a file of the checkout has, and what the wheel has in its place.
REWRITTEN = {
    rf"^(\s*(?:from|import)) ((?:{NAMES})\b)": r"\1 bert_reborn.\2",
    rf"\bpython (?:-m )?({NAMES})\b(?:\.py\b)?": r"python -m bert_reborn.\1",
}


class Build(build_py.build_py):
    """Rewrites the copies of the files."""

    def run(self):
        package = pathlib.Path(self.build_lib, "bert_reborn")
        shutil.rmtree(package, ignore_errors=True)  # of an earlier build
        super().run()
        (package / "setup.py").unlink()
        (package / "bert_reborn.py").rename(package / "__init__.py")
        (package / "py.typed").touch()
        for file in package.rglob("*.py"):
            text = file.read_text("utf-8")
            for pattern, replacement in REWRITTEN.items():
                text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
            file.write_text(text, "utf-8")


class Metadata(egg_info.egg_info):
    """Leads the README's links to the repository, where [project.urls] names it."""

    def run(self):
        metadata = self.distribution.metadata
        if address := metadata.project_urls.get("Repository"):
            tree = f"{address.rstrip('/')}/{{}}/v{metadata.version}/"
            for pattern, kind in (
                (r"(!\[[^]]*\]\(|src=\")", "raw"),
                (r"(\]\()", "blob"),
            ):
                metadata.long_description = re.sub(
                    rf"{pattern}(?!#|\w+:)",
                    rf"\1{tree.format(kind)}",
                    metadata.long_description,
                )
        super().run()


class Editable(editable_wheel.editable_wheel):
    """The same wheel. In the checkout its files come first, so edits hold there."""

    def run(self):
        self.reinitialize_command("bdist_wheel", dist_dir=self.dist_dir)
        self.run_command("bdist_wheel")


setuptools.setup(
    cmdclass={"build_py": Build, "editable_wheel": Editable, "egg_info": Metadata},
    packages=["bert_reborn", *(f"bert_reborn.{package}" for package in PACKAGES)],
    package_dir={"bert_reborn": "."},
    package_data={"": ["configs/*", "templates/*"]},
    include_package_data=False,  # what MANIFEST.in names is for the source archive
)
