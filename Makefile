# Attention Atlas: `make run` shows the page, `make test` runs the tests. Both build .venv first if need be.

PYTHON ?= python3
# handed to pip as it is, e.g. to add a package index
PIP_ARGS ?=
PORT ?= 7860
# handed to `make bench-views` as it is, e.g. BENCH_ARGS="--repeats 3 --only page"
BENCH_ARGS ?=
# handed to pytest as it is, e.g. PYTEST_ARGS="tests/model -k masks"
PYTEST_ARGS ?=
# how many examples `make fuzz` tries
FUZZ ?= 10000

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-stamp
DEV := $(VENV)/.dev-stamp
CHROMIUM := /usr/bin/chromium

# One small model gains nothing from many threads, and on a big machine it even gets slower.
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
THREADS ?= $(shell [ $(CORES) -gt 4 ] && echo 4 || echo $(CORES))
# Tests run in so many processes, each of which takes a gigabyte.
WORKERS ?= $(THREADS)

export GRADIO_ANALYTICS_ENABLED := False
export HF_HUB_DISABLE_TELEMETRY := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help venv run test fuzz lint check-browser bench bench-views clean distclean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  Variables: PORT=$(PORT)  PYTHON=$(PYTHON)  THREADS=$(THREADS)  WORKERS=$(WORKERS)  PIP_ARGS=...  PYTEST_ARGS=..."

venv: $(DEV)  ## build .venv with everything that the app, the training and the tests need

run: $(RUNTIME)  ## start the page on port 7860 (PORT=8000 make run: another one)
	@PORT=$(PORT) OMP_NUM_THREADS=$(THREADS) $(BIN)/python app.py

# Tests use tiny models, which are quickest on one thread.
test: lint check-browser  ## run ruff and all tests (browser tests only where Chromium is installed)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

fuzz: $(DEV)  ## try 10,000 hostile texts, calls and requests, new ones each time (FUZZ=2000: fewer)
	@ATLAS_FUZZ=$(FUZZ) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist tests/fuzz

lint: $(DEV)  ## run ruff
	@$(BIN)/ruff check .

# CI sets ATLAS_REQUIRE_BROWSER=1, so that a missing browser fails there and is not skipped over.
check-browser:
	@if [ "$${ATLAS_REQUIRE_BROWSER:-}" = 1 ] && [ ! -x $(CHROMIUM) ]; then \
		echo "ATLAS_REQUIRE_BROWSER=1 is set, but there is no $(CHROMIUM): install Debian's package chromium." >&2; exit 1; fi

# QUICK=1 make bench: under 8 minutes, fewer rounds of the same
bench: $(DEV)  ## time everything beside CTranslate2, transformers and BertViz (half an hour; QUICK=1: minutes)
	@OMP_NUM_THREADS=$(THREADS) $(BIN)/python -m tests.benchmarks $(if $(filter-out 0,$(QUICK)),--quick)

bench-views: $(DEV)  ## time the linked views in Chromium, beside BertViz's pages of the same maps (minutes)
	@$(BIN)/python -m tests.benchmarks.bertviz_pages || echo "BertViz could not be installed; the rest is measured." >&2
	@OMP_NUM_THREADS=$(THREADS) $(BIN)/python -m tests.benchmarks.linked_views $(BENCH_ARGS)

clean:  ## remove caches and what the tests left behind
	@find . \( -name .git -o -name $(VENV) -o -name .bench -o -name runs \) -prune -o -name __pycache__ -type d -exec rm -rf {} +
	@rm -rf .pytest_cache .ruff_cache .hypothesis .gradio test-results benchmarks.json

distclean: clean  ## the same, and .venv
	@rm -rf $(VENV) .bench

# An existing environment is kept as long as its pip works; `make distclean` starts anew.
$(VENV)/.made-stamp:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "No '$(PYTHON)' found. Install Python 3.10 to 3.12, or name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "'$(PYTHON)' is $$($(PYTHON) --version 2>&1); Python 3.10 to 3.12 is needed: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "'$(PYTHON)' could not build $(VENV); on Debian and Ubuntu the package python3-venv is needed." >&2; exit 1; }
	@touch $@

$(RUNTIME): requirements.txt constraints.txt | $(VENV)/.made-stamp
	$(BIN)/python -m pip install -r requirements.txt -c constraints.txt $(PIP_ARGS)
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	$(BIN)/python -m pip install -r requirements.txt -r requirements-dev.txt -c constraints.txt $(PIP_ARGS)
	@touch $@
