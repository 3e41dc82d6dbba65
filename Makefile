# To begin:  make lab   |   make test
# Everything is installed into .venv and node_modules; scripts/system-packages installs what pip and npm can't.
PYTHON ?= $(shell scripts/find-python)
BIN := .venv/bin
# Folders, too: they change when a file is removed.
SOURCES := tsconfig.json $(shell find labextension/src labextension/style labextension/schema examples)

# The tests start many Python processes, so modules must be compiled once only.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab setup dist vsix test test-python test-cpu test-frontend test-torch test-browser test-vscode \
	test-long test-oldest test-newest compiler-facts release lint format bench types docs screenshots clean

# In few lines: what pip, npm and the build say is shown only if they fail.
lab:
	@$(MAKE) --question setup >/dev/null 2>&1 || { \
		echo "Installing into .venv and node_modules. This takes a minute or two."; mkdir -p .lab; \
		$(MAKE) --no-print-directory setup >.lab/setup.log 2>&1 || { cat .lab/setup.log >&2; exit 1; }; }
	@$(BIN)/python scripts/lab.py $(OPTIONS)

setup: .venv/installed jupyter_tpu/labextension/package.json jupyter_tpu/locale/compiled

INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --excludes scripts/excludes.txt

.venv/bin/uv:
	@scripts/check-tools $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

node_modules/.package-lock.json: package-lock.json package.json
	npm ci --ignore-scripts --no-fund --no-audit --loglevel=error
	@touch $@

.venv/installed: .venv/bin/uv pyproject.toml hatch_build.py
	$(INSTALL) --editable '.[jax,dev,docs,test]'
	@touch $@

jupyter_tpu/labextension/package.json: .venv/installed node_modules/.package-lock.json $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build
	$(BIN)/jupyter-builder develop . --overwrite
	@touch $@

jupyter_tpu/locale/compiled: .venv/installed scripts/compile_catalogues.py vscode/package.nls.json \
		$(wildcard jupyter_tpu/locale/*/LC_MESSAGES/*.po)
	$(BIN)/python scripts/compile_catalogues.py
	@touch $@

# The sdist, with the frontend built for production and the documentation site, and the wheel that is
# built from it.
dist: .venv/bin/uv node_modules/.package-lock.json docs
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist
	@ls -l dist

# The extension for VS Code. `vsce` is Microsoft's own tool for packing it.
VSIX ?= $(CURDIR)/dist/jupyter-tpu.vsix

vsix: node_modules/.package-lock.json vscode/node_modules/.package-lock.json \
		vscode/widgets/node_modules/.package-lock.json jupyter_tpu/locale/compiled
	mkdir -p $(dir $(VSIX))
	cp LICENSE vscode/LICENSE
	cd vscode && node_modules/.bin/vsce package --no-dependencies --out $(VSIX)
	@rm vscode/LICENSE

vscode/node_modules/.package-lock.json vscode/widgets/node_modules/.package-lock.json: \
		%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error
	@touch $@

# Lint and the frontend's tests run beside pytest and what it has to install and compile before. The
# output of each comes in one piece.
test: setup
	$(MAKE) --no-print-directory --jobs 3 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) \
		lint test-frontend test-torch test-python

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

# libtpu, for compiling without a TPU. Only tests need it.
.venv/compile: .venv/installed
	$(INSTALL) -r pyproject.toml --extra compile
	@touch $@

# One with CUDA is not installed: see scripts/test-torch.
TORCH ?= torch==2.13.0
PIP := $(BIN)/python -m pip --disable-pip-version-check

.venv/torch: .venv/compile
	@$(BIN)/python -c 'import torch' 2>/dev/null || scripts/install-torch $(PIP) -- $(TORCH) || true
	@touch $@

# Each of pytest's processes imports all tests: here one compiles what they import, so that not each has
# to. Errors are pytest's to report.
.venv/compiled: .venv/torch
	scripts/system-packages
	JAX_PLATFORMS=cpu $(BIN)/python -m pytest --quiet --collect-only >/dev/null 2>&1 || true
	@touch $@

.venv/bench: .venv/installed
	$(INSTALL) -r pyproject.toml --extra bench
	@touch $@

# Where .venv has no torch: its tests with an older Python.
test-torch: .venv/torch
	scripts/test-torch $(TORCH)

# JAX uses this machine's CPU, although libtpu is installed.
test-python test-cpu test-browser test-vscode test-long test-oldest test-newest bench: export JAX_PLATFORMS := cpu

# Seven processes keep two cores busy, because most tests wait for hosts, kernels or browsers.
PROCESSES ?= 7
IN_PARALLEL = --numprocesses $(PROCESSES) --dist loadscope --no-loadscope-reorder
PYTEST = $(BIN)/python -m pytest --second-try --durations 25

# All tests in Python that are not marked long. "+" excludes them from --output-sync, so that their
# progress is seen.
test-python: setup .venv/compiled
	+$(PYTEST) $(IN_PARALLEL)

# The same, and where the processor time goes: TESTS names files or folders.
test-cpu: setup .venv/compiled
	+$(PYTEST) $(IN_PARALLEL) --cpu-time cpu-time.json $(TESTS)

test-browser: setup
	$(PYTEST) tests/browser

# The VS Code extension in a real VS Code, which this installs. Its notebooks are tested where
# JUPYTER_VSIX names a build of Microsoft's Jupyter extension, which no registry has.
test-vscode: setup
	$(if $(CODE_SERVER),,scripts/code-server)
	$(PYTEST) tests/vscode

test-long: setup .venv/compiled .venv/bench
	$(PYTEST) $(IN_PARALLEL) -m long --timeout 1800

# The unit tests, and one connection to a real sshd, with the oldest versions that pyproject.toml
# allows, on another Python than `make test` has, whose asyncio and JAX differ. Then JupyterLab and
# Notebook of these versions in the browser, and those between them and the newest: the main job,
# kernels through outages, the panel, apps.
OLDEST ?= 3.11
ONE_CONNECTION := $(addprefix tests/integration/test_ssh_connection.py::test_, \
	a_commands_words_variables_input_and_folder_arrive_as_they_are)
LAB_BETWEEN := 4.5
IN_BROWSER := $(patsubst %,tests/browser/test_browser_%.py,restart kernel apps notebook story panel)
test_lab = +LAB_PYTHON=$(CURDIR)/$(1)/bin/python $(PYTEST) $(IN_PARALLEL) -m '' --timeout 1800
find_python = $(firstword $(wildcard $(HOME)/.pyenv/versions/$(1)*/bin/python$(1)) $(1))
NEWEST ?= $(call find_python,3.14)
NEWEST_INSTALLED := .venv-newest/installed-$(subst /,-,$(NEWEST))

test-oldest: .venv-oldest/installed .venv-lab-$(LAB_BETWEEN)/installed setup .venv/compiled
	.venv-oldest/bin/python -m pytest tests/unit $(ONE_CONNECTION)
	$(call test_lab,.venv-oldest) $(IN_BROWSER)
	$(call test_lab,.venv-lab-$(LAB_BETWEEN)) $(IN_BROWSER)

test-newest: $(NEWEST_INSTALLED)
	+.venv-newest/bin/python -m pytest --second-try $(IN_PARALLEL) tests/unit tests/integration

.venv-oldest/installed: pyproject.toml scripts/excludes-oldest.txt .venv/bin/uv
	$(BIN)/uv venv --quiet --clear --python $(OLDEST) .venv-oldest
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --extra jax --extra dev \
		--python .venv-oldest/bin/python pyproject.toml --output-file .venv-oldest/versions.txt
	$(BIN)/uv pip install --quiet --python .venv-oldest/bin/python \
		--constraint .venv-oldest/versions.txt --excludes scripts/excludes-oldest.txt \
		--editable '.[jax,dev,test]'
	$(call link_frontend,.venv-oldest)
	@touch $@

# An environment with the first release of a JupyterLab, and of the Notebook that is made of it.
.venv-lab-%/installed: pyproject.toml .venv/bin/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python --editable . \
		jupyterlab==$*.0 notebook==7.$(lastword $(subst ., ,$*)).0
	$(call link_frontend,$(@D))
	@touch $@

# What `make setup` builds, in another environment.
define link_frontend
	mkdir -p $(1)/share/jupyter/labextensions
	ln -sfn $(CURDIR)/jupyter_tpu/labextension $(1)/share/jupyter/labextensions/jupyter-tpu
endef

$(NEWEST_INSTALLED): pyproject.toml .venv/bin/uv
	$(BIN)/uv venv --quiet --clear --python $(NEWEST) .venv-newest
	$(BIN)/uv pip install --quiet --python .venv-newest/bin/python --editable '.[jax,test]'
	@touch $@

# The tables of TPUs beside what two versions of the compiler say; 3.11 and 3.13 are their Pythons.
compiler-facts: setup
	$(BIN)/python scripts/compiler_facts.py --write \
		$(call find_python,3.11) $(call find_python,3.13)

# What `make test` leaves out, one after the other; on each Python that users may have.
release: setup
	$(BIN)/python scripts/catalogue.py --check --complete
	$(BIN)/python scripts/versions.py --check
	for target in dist compiler-facts test-long test-oldest $(foreach version,3.11 3.12 3.14,\
			"test-newest NEWEST=$(call find_python,$(version))"); do \
		$(MAKE) --no-print-directory $$target || exit 1; \
	done

# All of them, or with QUICK=1 those of the table for ten minutes; then the table of ratios. KEEP=1 keeps
# these for the next releases, in benchmarks/history.
bench: setup .venv/bench
	$(BIN)/python benchmarks/_table.py $(if $(QUICK),--quick) $(if $(KEEP),--keep)

# What is made from the code: labextension/src/rest/api.ts from the server's models, requests.ts from
# its routes, operationKinds.ts from its kinds of operations; and the tables and drawn
# pictures in docs/. Tests fail when it is out of date.
types: setup
	$(BIN)/python scripts/typescript_types.py
	$(BIN)/python scripts/reference_docs.py
	$(BIN)/python scripts/rooms.py
	$(BIN)/python scripts/pictures.py

# The documentation, as pages in site/ that need no server. A warning is an error. What mkdocs-material
# says about the end of its own life is for the authors, not for every build.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "The documentation is in site/index.html"

screenshots: setup
	$(BIN)/python scripts/screenshots.py
	$(BIN)/python scripts/recording.py

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-torch .venv-lab-* node_modules \
		jupyter_tpu/labextension labextension/lib \
		jupyter_tpu/locale/compiled jupyter_tpu/locale/*/LC_MESSAGES/*.json \
		vscode/l10n vscode/package.nls.*.json \
		.lab dist site vscode/node_modules vscode/widgets/node_modules vscode/out .code-server
