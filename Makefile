# `make demo` and `make test` do everything on a fresh machine; ARGS goes to the demo.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
# A folder in memory that has room for a GiB, or the usual one for temporary files.
ROOMY = $(shell [ "$$(df -m --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 1000 ] 2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-deployment test-versions unit lint lint-style lint-types docs sbom soak endurance notifier bench bench-tick bench-costs bench-collect bench-storm bench-compute bench-history bench-metrics bench-pages clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

setup: $(STAMP) ## prepare .venv with the tidemark command

$(STAMP): requirements/lock.txt pyproject.toml
	@sh requirements/check.sh $(PYTHON)
	@$(PYTHON) -m venv $(VENV)
	@sh requirements/install.sh $(BIN)/python requirements/lock.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: setup ## a real cluster with a workload, watched every minute; ARGS="--ticks 3 --no-ui"
	@exec $(BIN)/tidemark demo $(ARGS)

# Some environments forbid Python to write bytecode. Each process of tests then took 15 s more until
# its first test, and every command that a test runs compiled Tidemark again.
test test-deployment unit: export PYTHONDONTWRITEBYTECODE =

test: setup ## all tests but those of deployments, on real brokers
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder -m "not deployment" $(ARGS)

test-deployment: setup ## PostgreSQL, an object store, a REST catalog and a Spark cluster, each really started
	$(BIN)/python -m pytest -n 2 --dist loadfile -m deployment $(ARGS)

test-versions: setup ## what runs on real brokers, on each other version of RocketMQ, in some hours
	for version in 4.9.7 5.4.0 5.5.0 5.5.1; do \
		TIDEMARK_TEST_VERSION=$$version $(MAKE) test ARGS='-m "cluster and not deployment" $(ARGS)' || exit 1; \
	done

unit: setup ## the tests that need no Java, broker, Spark or wheel, and are quick: two minutes
	@# Thousands of small files, 120 MB, go into memory where it has room: 6 s.
	TMPDIR=$(ROOMY) $(BIN)/python -m pytest -o tmp_path_retention_count=1 -n 2 --dist worksteal -m "not slow and not spark and not cluster and not kills and not wheel and not deployment" $(ARGS)

lint: lint-types lint-style ## ruff, import-linter and pyright; -j 2 runs pyright beside the others

lint-style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

lint-types: setup
	$(BIN)/pyright

sbom: setup ## the bill of materials, CycloneDX, into tidemark.cdx.json
	$(BIN)/python -m docs.generate.sbom $(ARGS)

docs: setup ## the documentation site, into site/, without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

soak: setup ## kill -9 a tick at 50 random moments, compact after every third, compare the tables
	$(BIN)/python -m bench.soak $(ARGS)

endurance: setup ## collect every 2 s for an hour while brokers are killed, stopped and restarted
	$(BIN)/python -m bench.endurance $(ARGS)

notifier: setup ## kill -9 the notifier at 50 random moments and count the notifications
	$(BIN)/python -m bench.notifier $(ARGS)
	$(BIN)/python -m bench.routed_notifier $(ARGS)

bench: setup ## all measurements, in 40 minutes; ARGS="--before CHECKOUT" beside another version
	$(BIN)/python -m bench $(ARGS)

bench-tick: setup ## what an answer and a tick cost, beside mqadmin
	$(BIN)/python -m bench.tick $(ARGS)

bench-costs: setup ## ticks from an engine's start on and backfills, ARGS="--before CHECKOUT" beside another version
	$(BIN)/python -m bench.costs $(ARGS)

bench-collect: setup ## what a snapshot of a large cluster costs, into docs/benchmarks.md
	$(BIN)/python -m bench.collect $(ARGS)

bench-storm: setup ## what ten thousand active alerts cost a tick, into docs/benchmarks.md
	$(BIN)/python -m bench.storm $(ARGS)

bench-compute: setup ## what computing costs, beside DuckDB and Polars, into docs/benchmarks.md
	$(BIN)/python -m bench.compute $(ARGS)

bench-history: setup ## what Dagster's history weighs after 10,000 empty ticks, into docs/benchmarks.md
	$(BIN)/python -m bench.history $(ARGS)

bench-metrics: setup ## what /metrics costs with 20,000 groups on topics, into docs/benchmarks.md
	$(BIN)/python -m bench.metrics $(ARGS)

bench-pages: setup ## what pages cost with 16,000 group queues and 30 days, into docs/benchmarks.md
	$(BIN)/python -m bench.pages $(ARGS)

clean: ## forget the virtual environment and all state
	rm -rf $(VENV) .tidemark
