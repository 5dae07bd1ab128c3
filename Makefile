# One node on 127.0.0.1:9092:  make run        The whole suite:  make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run install spark demo test check bench bench-pipelines chaos compat sim reference clean

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

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

# -- long ones: seeded sweeps, Apache Kafka's own tools (needs Java, Maven), the race against it

sim: $(VENV)/.dev
	PENSTOCK_SIM_RUNS=$${RUNS:-5000} $(BIN)/python -m pytest -n 2 tests/sim tests/log tests/coordinator \
		tests/broker/test_cleaning_simulation.py tests/broker/test_moves.py \
		-k "seed or crash or simulat or model"

# Driver, workers and node of a pipeline on Spark are killed: KILLS= of them, SEED= the first seed
chaos: $(VENV)/.dev
	$(BIN)/python -m chaos $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

compat: $(VENV)/.dev
	$(BIN)/python -m compat $(ONLY)

bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ROWS)

bench-pipelines: $(VENV)/.dev
	$(BIN)/python -m bench.pipelines $(ROWS)

reference: $(VENV)/.dev
	$(BIN)/python -m penstock.config.reference > docs/reference/configuration.md
	$(BIN)/python -m penstock.broker.metrics.reference > docs/reference/metrics.md
	$(BIN)/python -m penstock.cli.reference > docs/reference/commands.md
	$(BIN)/python -m penstock.client.settings.reference > docs/reference/client-configuration.md
	$(BIN)/python -m penstock.client.failures.reference > docs/reference/errors.md

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
