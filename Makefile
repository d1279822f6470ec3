# Needs python3, make and a package index. PYTHON chooses the interpreter that the environment is made with.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEMO := .venv/.installed-demo
SOURCES := $(wildcard sample_traces/src/*.jsonl)
SAMPLES := $(patsubst sample_traces/src/%.jsonl,sample_traces/%.arrow,$(SOURCES))
PROGRAMS ?= 20000
BUILT := pyproject.toml hatch_build.py $(wildcard hbtrace/compiled/*.h hbtrace/compiled/*.hpp hbtrace/compiled/*.cpp) \
    hbtrace/compiled/compile.py hbtrace/compiled/exports.map
ORACLE := tests/test_random_programs.py
IN_PYTHON := tests/replay tests/test_api.py tests/compiled/test_loading.py $(ORACLE)::test_engine_agrees_with_oracle \
    $(ORACLE)::test_engine_agrees_in_the_corners $(ORACLE)::test_where_a_batch_ends_changes_nothing

.PHONY: help venv demo test check samples docs fuzz native-asan bench bench-record clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# An interrupted install leaves no stamp and is done again; so is one that what it builds from has overtaken. The last
# line of it says which kernel replays, and why where it is the slow one.
$(STAMP): $(BUILT)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/hbtrace --version
	touch $(STAMP) $(DEMO)

# The demo needs no test tools. Where these are installed, it needs nothing.
$(DEMO): $(BUILT)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $(DEMO)

venv: $(STAMP) ## Make the environment in .venv: hbtrace and what its tests need

demo: $(DEMO) ## Find the race of a sample trace, and none in its mended twin
	@printf '\n$$ hbtrace analyze sample_traces/seed.arrow\n\n'
	@$(BIN)/hbtrace analyze sample_traces/seed.arrow; code=$$?; \
	    printf '\nThat was exit code %s: 0 is no race, 1 is races, and this trace has one on purpose.\n' $$code; \
	    test $$code -eq 1
	@printf '\n$$ hbtrace analyze sample_traces/seed_mended.arrow\n\n'
	@$(BIN)/hbtrace analyze sample_traces/seed_mended.arrow
	@printf '\nWhat the samples show: sample_traces/README.md. How it decides: %s/hbtrace docs rules\n' $(BIN)

test: $(STAMP) ## Run the tests; first, a selection of them on the kernel in Python
	HBTRACE_NATIVE=0 HBTRACE_PROGRAMS=500 $(BIN)/python -m pytest -q -n auto --dist worksteal $(IN_PYTHON)
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(STAMP) ## Lint and check types
	$(BIN)/ruff check
	$(BIN)/mypy

samples: $(SAMPLES) ## Make sample_traces/*.arrow anew from their sources; the same bytes every time

# Always: what a checkout says about the age of files is not what it says about their content.
sample_traces/%.arrow: sample_traces/src/%.jsonl $(STAMP) FORCE
	$(BIN)/hbtrace convert $< $@ -f
FORCE:

docs: $(STAMP) ## Write what README.md and the pages show of the tool anew
	$(BIN)/python -m tests.docs

fuzz: $(STAMP) ## Random programs against the oracle, PROGRAMS=20000 of them
	HBTRACE_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest tests/test_random_programs.py

native-asan: $(STAMP) ## The compiled kernel under sanitizers, on PROGRAMS random scripts and as many hostile ones
	$(BIN)/python -m tests.compiled.sanitized $(PROGRAMS)
	$(BIN)/python -m tests.compiled.sanitized_memo $(PROGRAMS)

bench: $(STAMP) ## Measure speed and memory
	$(BIN)/python -m tests.bench

bench-record: $(STAMP) ## What recording costs: the same run with the recorder and without
	$(BIN)/python -m tests.record.bench

clean: ## Remove the environment and everything made by tools
	rm -f hbtrace/compiled/libhbtrace.so hbtrace/compiled/built.json
	rm -rf .venv .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
