# Every target sets up .venv by itself: `make eval` and `make test` work on a fresh clone.
# uv installs, from the cache where it is not on the PATH; pip does where uv fails.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
ARGS    ?=
EXAMPLES ?= 2000
SECONDS  ?= 300
# Two for each core: the tests wait for servers and processes half of the time.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(2 * (os.cpu_count() or 1))")

# Where it is set, every start of Python would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup eval test generalise crash fuzz mutants lint serve format docs site dist lock sbom clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

setup: $(READY) ## make the virtual environment and install Assay into it

$(READY): pyproject.toml locks/dev.lock packages/agent-assay-minilm/pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/setup.sh
	@touch $(READY)

eval: $(READY) ## evaluate the reference agent, compare it with BM25 (ARGS="..." adds options)
	@$(BIN)/assay eval --baseline builtin:bm25 $(ARGS)

test: $(READY) ## run all the tests on all cores (ARGS="-k name" selects, WORKERS=0 uses one process)
	@$(BIN)/python -m pytest --numprocesses=$(WORKERS) $(ARGS)

generalise: $(READY) ## measure the reference retriever on every data set of a folder (FOLDER=..., ARGS="--no-tuned")
	@$(BIN)/python scripts/generalise.py $(FOLDER) $(ARGS)

crash: $(READY) ## break every command off at every write, and compare what a second run makes of it
	@PYTHONPATH=. $(BIN)/python -m tests.crash.points $(ARGS)

fuzz: $(READY) ## draw new inputs for parsers, servers and state machines (EXAMPLES=2000 for each test)
	@ASSAY_FUZZ=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz tests/search/test_bm25.py tests/cli/test_damaged_files.py --timeout=0 --numprocesses=$(WORKERS) $(ARGS)
	@if $(BIN)/python -c "import atheris" 2>/dev/null; then \
		$(BIN)/python scripts/fuzz_parsers.py -max_total_time=$(SECONDS); fi

mutants: $(READY) ## change the core in one place at a time, and see which change no test notices
	@$(BIN)/python -m scripts.mutants --known
	@$(BIN)/python -m scripts.mutants $(ARGS)

serve: $(READY) ## look at the runs in a browser, on http://127.0.0.1:9000
	@$(BIN)/assay serve ui $(ARGS)

lint: $(READY) ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY) ## write the pages and schemas that are made from the code
	@for name in help api schemas rules llms; do $(BIN)/python scripts/render_$$name.py; done

site: $(READY) ## build the docs as a site into build/site; broken links fail
	@$(BIN)/python scripts/site.py

dist: $(READY) ## build sdist and wheel, check them, run the README's examples from the installed wheel
	@$(BIN)/python scripts/dist.py

lock: ## write the lock files anew after a change of dependencies
	@sh scripts/lock.sh

sbom: $(READY) ## write build/sbom.cdx.json and build/licenses.md
	@$(BIN)/python scripts/sbom.py

clean: ## remove the environment and caches, never runs/
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
