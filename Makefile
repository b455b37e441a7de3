# make run        the main job on its embedded default
# make test       the tests a contributor runs before every commit; programs are compiled with little optimisation, which is faster here
# make attack     an hour of attacks on what make run runs (ARGS=--short: two minutes; docs/attack.md)
# Each sets up .venv on its first call and starts at once on the next.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-slow attack check format lock benchmarks clean

run: .venv/.ready-run
	@$(BIN)/stacq run $(ARGS)

test: .venv/.ready-dev
	@XLA_FLAGS="$${XLA_FLAGS:---xla_backend_optimization_level=0}" $(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow" $(ARGS)

test-slow: .venv/.ready-dev
	@$(BIN)/python -m pytest -n auto --dist loadgroup -m slow $(ARGS)

attack: .venv/.ready-dev
	@$(BIN)/python -m attack $(ARGS)

check: .venv/.ready-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: .venv/.ready-dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "stacq needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@echo "Setting up .venv with $$($(PYTHON) --version) (once; a few minutes, depending on the network)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "cannot make a virtual environment: install the venv module of your Python" >&2; exit 2; }

.venv/.ready-run: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing stacq"
	@$(PIP) --editable .
	@touch $@

.venv/.ready-dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing stacq with everything its tests need"
	@$(PIP) --editable '.[mujoco,minari,tensorboard,wandb,dev]'
	@touch $@ .venv/.ready-run

# Rewrites constraints.txt from pyproject.toml: the newest versions that fit, for every supported Python.
lock: .venv/.ready-dev
	@$(PIP) uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --strip-extras --upgrade \
	  --no-emit-index-url --no-annotate --no-header pyproject.toml --output-file constraints.txt

benchmarks: .venv/.ready-dev
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
