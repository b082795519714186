# Every target sets up .venv by itself; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests of a file share their fixtures in one process; files with long tests come first.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup demo test test-all check format bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group dev
	touch $@

demo: setup
	$(BIN)/memtend demo

test: setup
	$(PYTEST) -m "not slow"

test-all: setup
	$(PYTEST)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	$(BIN)/python tests/benchmarks/run.py
	$(BIN)/python -m tests.benchmarks.repository
	$(BIN)/python -m tests.benchmarks.refresh --sizes 10k,100k
	$(BIN)/python -m tests.benchmarks.consolidate --sizes 10k,100k
	$(BIN)/python -m tests.benchmarks.serving

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
