# Two commands do everything on a fresh machine: `make demo` and `make test`. Each sets up what it needs first.

PYTHON ?= python3
SECONDS ?=
MINUTES ?= 10
ROUNDS ?= 24
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARCHIVES := $(VENV)/class-archives/.made
COMPILED := $(VENV)/.compiled

# Where it is set (in containers, to keep them small), every process of the platform and of the tests would
# compile all it imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-kafka demo test test-statements test-all load kills lint docs bench lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install the package in .venv, build the console's assets, download Spark's Java artifacts
	@$(BIN)/python -m headrace.console.build_assets
	@$(BIN)/headrace artifacts fetch spark s3

# Only for targets that start Apache Kafka or compare with it: the embedded log needs no Java.
setup-kafka: setup
	@$(BIN)/headrace artifacts fetch kafka

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headrace needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: setup ## Start everything, send events, show them arriving; SECONDS=60 stops by itself
	@$(BIN)/headrace demo $(if $(SECONDS),--seconds $(SECONDS))

test: setup-kafka ## Check style, types and layers, and run the tests that every change must pass
	@$(MAKE) --no-print-directory --jobs 2 lint $(ARCHIVES) $(COMPILED)
	$(BIN)/pytest -m "not long" --numprocesses 4 --no-loadscope-reorder

# Made once, beside `lint`, which mostly takes one core.
$(ARCHIVES): $(STAMP) tests/class_archives.py tests/jvm_flags.py
	@$(BIN)/python -m tests.class_archives >$(VENV)/class-archives.log 2>&1 || { cat $(VENV)/class-archives.log; exit 1; }
	@touch $@

# Otherwise each of the three processes compiles all tests.
$(COMPILED): $(STAMP)
	@$(BIN)/pytest --collect-only --quiet >$(VENV)/compiled.log 2>&1 || { cat $(VENV)/compiled.log; exit 1; }
	@touch $@

test-statements: setup ## Run all tests of the statement language: rules, functions, every case on Spark
	$(BIN)/pytest -m "" --numprocesses 2 tests/statements tests/serving tests/pipeline

test-all: setup-kafka lint $(ARCHIVES) ## Run all tests, including the long ones
	$(BIN)/pytest --hypothesis-profile thorough

kills: setup ## Kill the driver, the log, the gateway and the machine under every kind of query; ROUNDS=100
	KILL_ROUNDS=$(ROUNDS) $(BIN)/pytest -m long -s tests/end_to_end/test_kills.py

load: setup ## Run a mixed load with kills and check its history for anomalies; MINUTES=10
	$(BIN)/python -m tests.load --minutes $(MINUTES)

lint: setup ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup ## Regenerate the generated pages
	$(BIN)/python -m headrace.cli.settings_page docs/settings.md
	$(BIN)/python -m headrace.cli.compatibility_page docs/compatibility.md
	$(BIN)/python -m headrace.cli.druid_page docs/druid-sql.md
	$(BIN)/python -m tests.architecture_page

bench: setup-kafka ## Run the benchmarks behind the README's figures
	$(BIN)/python benchmarks/avro_latency.py
	$(BIN)/python benchmarks/statement_throughput.py
	$(BIN)/python benchmarks/statements_shared.py
	$(BIN)/python benchmarks/statement_start.py
	$(BIN)/python benchmarks/fair_turns.py
	$(BIN)/python benchmarks/lake_throughput.py
	$(BIN)/python benchmarks/lake_sustained.py
	$(BIN)/python benchmarks/lake_trickle.py
	$(BIN)/python benchmarks/broker_benchmarks.py

lock: setup ## Resolve the dependencies again into requirements.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --no-header \
	    --upgrade --quiet --output-file requirements.lock pyproject.toml

clean: ## Remove what the other targets created here (not the artifact cache or the data folder)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build \
	    src/headrace/console/node_modules src/headrace/console/static/vendor
