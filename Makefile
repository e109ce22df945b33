# The first run creates .venv and installs into it; the stamp files below make every later run start at once.
# After a change to pyproject.toml or constraints.txt the install is repeated.

VENV := .venv
PIP := $(VENV)/bin/python -m pip install -q -c constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# 3.11 comes first because constraints.txt was made with it. A candidate is run, not just looked up: a version
# manager leaves a python3.11 on the path that only prints an error.
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)

.DEFAULT_GOAL := help
.PHONY: help demo test docs notebooks dist format clean
# `make -j demo test` must not start two installs in one environment.
.NOTPARALLEL:

help:
	@echo "make demo     install and watch a small trained model solve puzzles"
	@echo "make test     install and run every check: format, lint, types, tests"
	@echo "make docs     build the documentation into build/site; runs the notebooks, and fails on a broken link"
	@echo "make notebooks  run the notebooks and keep their outputs, to be committed"
	@echo "make dist     build the package into dist/ and check it"
	@echo "make format   rewrite the code in the project's format"
	@echo "make clean    delete caches and build output (keeps .venv and runs/)"
	@echo
	@echo "On Linux, PyPI's torch brings CUDA along. For the smaller CPU build, put this before make:"
	@echo "  PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"

demo: $(VENV)/.installed
	@$(VENV)/bin/python -m gram demo

test: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pytest -n 2 --dist loadscope

# One thread: the notebooks' models are small, and several threads would only wait for each other.
docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

notebooks: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(VENV)/bin/jupyter nbconvert --to notebook --execute --inplace \
		--ClearMetadataPreprocessor.enabled=True --ClearMetadataPreprocessor.clear_notebook_metadata=False docs/notebooks/*.ipynb

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(VENV)/bin/python -m build
	$(VENV)/bin/twine check --strict dist/*

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info gram-demo.png
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { \
		echo "gram needs Python 3.11 or newer; found: $$(python3 --version 2>&1). Install one, or name it: make PYTHON=..."; \
		exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "Could not create $(VENV). On Debian or Ubuntu, install the package python3-venv first."; \
		exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing gram and its dependencies into $(VENV) (the first time takes a few minutes)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing gram, its dependencies and the development tools into $(VENV) (the first time takes a few minutes)"
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing gram and what builds the documentation into $(VENV)"
	@$(PIP) -e '.[docs]'
	@touch $(VENV)/.installed $@
