"""Builds the wheel, one package: `bert_reborn` with the packages, scripts and configs.

The names of the top-level folders are too general for a directory that all installed
packages share. So the wheel has them below one package, with the imports rewritten. The
checkout needs no installation, and its files stay as they are.
"""

import pathlib
import re
import shutil

import setuptools
from setuptools.command import build_py

PACKAGES = [
    package
    for package in setuptools.find_packages()
    if not package.startswith(("benchmarks", "examples", "tests"))
]
SCRIPTS = [
    p.stem
    for p in pathlib.Path().glob("*.py")
    if p.stem not in ("bert_reborn", "setup")
]
FOLDERS = [package for package in PACKAGES if "." not in package]
NAMES = "|".join(FOLDERS + SCRIPTS)
# What a file of the checkout has, and what the wheel has in its place.
REWRITTEN = {
    rf"^(\s*(?:from|import)) ((?:{NAMES})\b)": r"\1 bert_reborn.\2",
    rf"\bpython -m ((?:{NAMES})\.)": r"python -m bert_reborn.\1",
    rf"\bpython ({NAMES})\.py\b": r"python -m bert_reborn.\1",
}


class Build(build_py.build_py):
    """Rewrites the copies of the files; adds what no package holds."""

    def run(self):
        if self.editable_mode:
            raise SystemExit("a checkout needs no installation: use it as it is")
        super().run()
        library = pathlib.Path(self.build_lib)
        package = library / "bert_reborn"
        shutil.copy("bert_reborn.py", package / "__init__.py")
        for script in SCRIPTS:
            shutil.copy(f"{script}.py", package)
        shutil.copytree("configs", package / "configs", dirs_exist_ok=True)
        for file in library.rglob("*.py"):
            text = file.read_text("utf-8")
            for pattern, replacement in REWRITTEN.items():
                text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
            file.write_text(text, "utf-8")
        (package / "py.typed").touch()


setuptools.setup(
    cmdclass={"build_py": Build},
    packages=[f"bert_reborn.{package}" for package in PACKAGES],
    package_dir={f"bert_reborn.{name}": name.replace(".", "/") for name in PACKAGES},
    include_package_data=False,  # what MANIFEST.in names is for the source archive
    package_data={
        f"bert_reborn.{package}": ["templates/*"]
        for package in ("reports.pages", "serving.server")
    },
)
