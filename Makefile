# Everything a newcomer types. Needs Python 3.11, make and a package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.dpone-setup
ROOMS ?= quality paths plain
VENV2 := .venv-airflow2
STAMP2 := $(VENV2)/.dpone-setup

.PHONY: setup demo test test-slow test-airflow2 mutants lint bench docs docs-site pictures clean
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/dpone demo

test: setup
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" --contract-report $(ARGS)

test-slow: setup
	$(BIN)/pytest -n 2 --dist loadgroup -m slow $(ARGS)

mutants: setup
	nice -n 10 $(BIN)/python -m tests.mutation.study $(ROOMS)

# The Airflow tests again, on Airflow 2.11 (whose scheduler needs a PostgreSQL), in an environment of their own.
test-airflow2: $(STAMP2)
	PYTHONWARNINGS=ignore $(VENV2)/bin/pytest -p no:warnings -n 2 --dist loadgroup tests/airflow $(ARGS)

$(STAMP2): pyproject.toml constraints-airflow2.txt
	@test -x $(VENV2)/bin/python || $(PYTHON) -m venv $(VENV2)
	$(VENV2)/bin/pip install --quiet --constraint constraints-airflow2.txt --editable '.[test]' psycopg2-binary
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.parse
	$(BIN)/python -m benchmarks.load
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.reader
	$(BIN)/python -m benchmarks.postgres
	$(BIN)/python -m benchmarks.partitions

docs: setup
	$(BIN)/python -m docs.generate

pictures: setup
	DPONE_DOCS_PICTURES=1 $(BIN)/pytest tests/web/test_in_airflow.py

docs-site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) $(VENV2) build dist .dpone *.egg-info
