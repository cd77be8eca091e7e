# Every target sets itself up: PYTHON makes .venv once, and again when pyproject.toml changes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
SOURCES := ir rules eqsat codegen tests bench docs

# Tests start many processes; without the compiled modules each of them would compile eqsat's Python anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test exhaustive sanitize check format bench docs clean
.DEFAULT_GOAL := demo

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/ready          ## optimize, compile and run ResNet-50 and three small programs
	$(BIN)/python -m eqsat.demo

check: $(VENV)/ready         ## format, lint, types, architecture, fast tests
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy -n 2
	$(PYTEST) -m "not slow and not exhaustive and not gpu"

test: $(VENV)/ready          ## the whole suite, what CI runs
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy -n 2
	$(PYTEST) -m "not exhaustive and not gpu"

exhaustive: $(VENV)/ready    ## every mutant of every rule, every plan of every kernel, new random draws, the largest models
	$(PYTEST) -m exhaustive
	$(PYTEST) -m "not exhaustive and not gpu" --hypothesis-profile=default tests/eqsat/test_misuse.py tests/ir tests/codegen/poly

sanitize: $(VENV)/ready      ## generated C and the thread pool under the sanitizers of gcc or clang
	$(BIN)/python -m tests.stress sanitize
	$(BIN)/python -m tests.stress pool

format: $(VENV)/ready
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

bench: $(VENV)/ready         ## side by side with onnxruntime and torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m bench.peers

docs: $(VENV)/ready          ## the documentation as a site, in build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) build dist
