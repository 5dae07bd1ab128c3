# One node on 127.0.0.1:9092:  make run        The suite:  make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Compiled modules are kept: the suite starts many processes, and each worker reads every test.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run install spark demo test test-all check style types tidy collect bench bench-pipelines chaos compat sim reference faces pictures clean

# -- what a node needs, and nothing more

install: $(VENV)/.node

$(VENV)/.node: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing penstock into $(VENV)"
	@$(INSTALL) --editable .
	@touch $@

run: install
	@$(BIN)/penstock start --data ./data

# -- what pipelines need besides: Spark, and a Java for machines that have none

spark: $(VENV)/.spark

$(VENV)/.spark: $(VENV)/.node
	@echo "installing what pipelines on Spark need"
	@$(INSTALL) --editable '.[spark,java]'
	@$(BIN)/penstock spark warmup
	@touch $@

# -- a pipeline to look at: SECONDS= of orders, RATE= per second, SEED=, KEEP= a directory

demo: $(VENV)/.spark
	@$(BIN)/python -m examples.orders $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) \
		$(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep $(KEEP))

# -- what a developer needs besides

$(VENV)/.dev: $(VENV)/.spark
	@echo "installing the tools for development"
	@$(INSTALL) --editable '.[dev,spark,java]'
	@touch $@

# `check` has run the tidy tests. docs/testing.md says what each depth holds. Tests wait for clients
# and processes more than half of their time, so two cores take more than two workers.
WORKERS ?= 4
SUITE := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --max-worker-restart 0 \
	--ignore tests/tidy --durations 10

test: check
	$(SUITE)

# What a release runs: every seed, every step of every crash
test-all: check
	PENSTOCK_DEPTH=all $(SUITE)

check: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 types style tidy collect

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

tidy:
	$(BIN)/python -m pytest tests/tidy

# Every test can be imported. The workers of the suite find the compiled tests then.
collect:
	@$(BIN)/python -m pytest --collect-only -qq > $(VENV)/collected || (cat $(VENV)/collected; false)

# -- long ones: seeded sweeps, Apache Kafka's own tools (needs Java, Maven), the race against it

sim: $(VENV)/.dev
	$(BIN)/python -m penstock.testing.sim quorum --seeds $$((10 * $${RUNS:-5000}))
	$(BIN)/python -m penstock.testing.sim replication --seeds $$((20 * $${RUNS:-5000}))
	$(BIN)/python -m penstock.testing.sim cluster --seeds $${RUNS:-5000}
	PENSTOCK_SIM_RUNS=$${RUNS:-5000} $(BIN)/python -m pytest -n 2 tests/sim tests/log tests/coordinator \
		tests/broker/test_cleaner_simulation.py tests/broker/test_moves.py \
		-k "seed or crash or simulat or model"

# Driver, workers and node of a pipeline on Spark are killed: KILLS= of them, SEED= the first seed,
# NODES=3 for a cluster
chaos: $(VENV)/.dev
	$(BIN)/python -m chaos $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(if $(NODES),--nodes $(NODES))

compat: $(VENV)/.dev
	$(BIN)/python -m compat $(ONLY)

bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ROWS)

bench-pipelines: $(VENV)/.dev
	$(BIN)/python -m bench.pipelines $(ROWS)

reference: $(VENV)/.dev
	$(BIN)/python -m tools.configuration_reference > docs/reference/configuration.md
	$(BIN)/python -m tools.metrics_reference > docs/reference/metrics.md
	$(BIN)/python -m tools.commands_reference > docs/reference/commands.md
	$(BIN)/python -m tools.client_settings_reference > docs/reference/client-configuration.md
	$(BIN)/python -m tools.client_errors_reference > docs/reference/errors.md
	$(BIN)/python -m tools.permissions_reference > docs/reference/permissions.md

# Terminal pictures of the documents, from real output
pictures: $(VENV)/.dev
	$(BIN)/python docs/pictures/draw.py

# The asyncio classes of the admin client, from the blocking ones
faces: $(VENV)/.dev
	$(BIN)/python -m tools.faces

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
