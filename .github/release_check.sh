#!/bin/sh
# make release-check: everything of a release but publishing. Takes the Python of .venv;
# leaves the source archive and the wheel in dist/.
set -eu
python=$1
fail() { echo "release-check: $*" >&2; exit 1; }
step() { echo "release-check: $*"; }
field() { "$python" -c "import re; print(re.search(r'$1', open('$2').read(), re.M)[1])"; }

step "the checkout is clean"
[ -z "$(git status --porcelain)" ] || fail "git status lists files; commit or remove them"

version=$(field '__version__ = "(.*)"' bert_reborn.py)
step "version $version is that of CHANGELOG.md and of the tag"
newest=$(field '^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$' CHANGELOG.md)
[ "$newest" = "$version" ] ||
  fail "CHANGELOG.md's newest release is $newest and bert_reborn.py has $version; set one"
[ -z "$(field '^## \[Unreleased\]\n([^#]*(?:###[^#]*)*)' CHANGELOG.md)" ] ||
  fail "CHANGELOG.md has lines under [Unreleased]; move them under [$version]"
tag=$(git tag --points-at HEAD --list 'v*')
[ "${tag:-v$version}" = "v$version" ] || fail "HEAD has the tag $tag, not v$version; move it"
[ -n "$tag" ] || [ -z "$(git tag --list "v$version")" ] ||
  fail "v$version is another commit; raise __version__ in bert_reborn.py"

step "an archive of the sources, and the wheel of that archive"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
backend='import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])'
git archive --prefix=checkout/ HEAD | tar -x -C "$work"
rm -rf dist
mkdir dist "$work/direct" "$work/sdist"
build() { # sdist or wheel, of a directory, to a directory
  (cd "$2" && "$python" -c "$backend" "build_$1" "$3") >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "the build of the $1 failed, see above"; }
}
build sdist "$work/checkout" "$PWD/dist"
build wheel "$work/checkout" "$work/direct"
tar -xz -C "$work/sdist" --strip-components=1 -f dist/*.tar.gz
build wheel "$work/sdist" "$PWD/dist"
"$python" -c 'import sys, zipfile
one, other = ({i.filename: i.CRC for i in zipfile.ZipFile(p).infolist()} for p in sys.argv[1:])
sys.exit(one != other)' dist/*.whl "$work"/direct/*.whl ||
  fail "the wheel of the checkout has other files than that of the archive; see MANIFEST.in"

step "metadata and description"
"$python" -m twine check --strict dist/*
unzip -p dist/*.whl '*/METADATA' >"$work/METADATA"
grep -q '^Project-URL: Repository, https://' "$work/METADATA" ||
  fail "set [project.urls] in pyproject.toml: Repository, Documentation, Issues, Changelog"
! grep -nE '\]\((docs/|[A-Z]+\.md)|src="docs/' "$work/METADATA" ||
  fail "README.md has links, see above, that setup.py does not lead to the repository"

step "the wheel in a new environment, without network; its packages are those of .venv"
"$python" -m venv --without-pip "$work/venv"
"$python" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' \
  >"$(echo "$work"/venv/lib/python*/site-packages)/of_venv.pth"
pip() { "$python" -m pip --python "$work/venv/bin/python" --disable-pip-version-check "$@"; }
pip install --quiet --no-index --no-deps --ignore-installed dist/*.whl
! pip check | grep '^bert-reborn ' || fail "constraints.txt does not fit pyproject.toml"
(cd "$work" && venv/bin/bert-classify --help | grep -q "bert_reborn.run_classifier") ||
  fail "bert-classify --help does not print its use"

step "quick tests of the archive"
(cd "$work/sdist" && "$python" -m pytest -q -p no:cacheprovider tests/contract tests/terminal \
  tests/test_architecture.py tests/test_packaging.py tests/test_sample_data.py)

step "done; dist/ has what the tag v$version publishes"
