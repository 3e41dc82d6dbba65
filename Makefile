# What a newcomer types:  make lab   |   make test
# Everything installs into .venv and node_modules here; system packages by scripts/system-packages.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find labextension/src labextension/style labextension/schema -type f)

# Python programs are started over and over: what they import is compiled once, whatever is usual here.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab setup test test-python test-frontend test-browser test-long lint format bench types screenshots clean

lab: setup
	$(BIN)/python scripts/lab.py

setup: .venv/installed jupyter_tpu/labextension/package.json

.venv/bin/uv:
	@scripts/check-tools $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

node_modules/.package-lock.json: package-lock.json package.json
	npm ci --ignore-scripts --no-fund --no-audit --loglevel=error
	@touch $@

# The package is installed without building the frontend; that is the next rule's work.
.venv/installed: .venv/bin/uv pyproject.toml node_modules/.package-lock.json
	rm -rf jupyter_tpu/labextension
	mkdir -p jupyter_tpu/labextension/static
	touch jupyter_tpu/labextension/static/style.js jupyter_tpu/labextension/package.json
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[jax,dev,test]'
	rm -rf jupyter_tpu/labextension
	@touch $@

jupyter_tpu/labextension/package.json: .venv/installed node_modules/.package-lock.json $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build
	$(BIN)/jupyter-builder develop . --overwrite
	@touch $@

test: setup
	scripts/system-packages
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test-frontend
	$(MAKE) --no-print-directory test-python

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg --no-cache
	npm run --silent lint:check

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	npm run --silent lint

test-frontend: setup
	npm test --silent

# libtpu, for compiling without a TPU: only the tests need it, JupyterLab does not.
.venv/compile: .venv/installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r pyproject.toml --extra compile
	@touch $@

.venv/bench: .venv/installed
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r pyproject.toml --extra bench
	@touch $@

# JAX on this machine is JAX on its CPU, also where libtpu is installed.
test-python test-browser test-long bench: export JAX_PLATFORMS := cpu

# What fails is run once more, by itself, and what fails twice fails. What passes then depends on the
# moment and is to be mended: it is told, with all of its first failure above.
again = || { [ $$? -eq 1 ] && echo "FAILED, AND NOW ONCE MORE, ALONE:" && \
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(1); }

# All tests in Python, a file a process. In the order of the folders: browser and integration tests
# first, which take long, and the many short ones last, so that no process is left alone with a long
# file in the end.
PROCESSES ?= 2

test-python: setup .venv/compile
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder $(call again,)

test-browser: setup
	$(BIN)/python -m pytest tests/browser $(call again,tests/browser)

test-long: setup .venv/compile
	scripts/system-packages
	$(BIN)/python -m pytest -m long --timeout 1800

bench: setup .venv/bench
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

# labextension/src/api.ts from the server's models; the tests fail when it is stale.
types: setup
	$(BIN)/python scripts/typescript_types.py

screenshots: setup
	$(BIN)/python scripts/screenshots.py

clean:
	rm -rf .venv node_modules jupyter_tpu/labextension labextension/lib .lab dist
