# Each target sets up what it needs and does that only once. Python 3.11 or newer and make are enough to begin.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
ROOMS := store collectors change tuner rules web daemon sim bench
CODE := $(ROOMS) engine_plugin tests

export PIP_ROOT_USER_ACTION := ignore
# A package that warns while it is installed is not a failure, whatever the caller's shell makes of warnings.
unexport PYTHONWARNINGS

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo check lint types test prepare acceptance lock clean

help:  ## say what there is
	@sed -n 's/^\([a-z]*\):.*##/make \1 #/p' Makefile | column -t -s '#' 2>/dev/null || grep '##' Makefile

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer here; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) install -c requirements.lock -e .
	@touch $@

$(DEV): requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps -c requirements.lock -e .
	@touch $@ $(RUNTIME)

demo: $(RUNTIME)  ## a simulated node, the daemon and the web page in one (ARGS="--headless --seed 7")
	$(BIN)/trimtab demo $(ARGS)

lint: $(DEV)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports --no-logo

types: $(DEV)
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/mypy --python-version 3.10 -p trimtab_plugin

check: lint types  ## the quick one: lint, types, unit tests
	$(BIN)/python -m pytest -m "not real and not debian and not install and not campaign"

prepare: $(DEV)
	$(BIN)/python tests/prepare.py

test: prepare lint types  ## everything, with a real vLLM server and Debian's prometheus, alertmanager and chromium
	$(BIN)/python -m pytest

acceptance: prepare  ## the long measurements and their figures (hours)
	$(BIN)/python -m bench.acceptance $(ARGS)

lock: $(DEV)  ## resolve the dependencies anew
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --no-annotate --no-header \
		pyproject.toml -o requirements.lock

clean:  ## forget the environments and everything made here
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
