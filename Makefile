# Everything a contributor or CI does, one target each. Only python3 (3.11 or newer, with venv) and make are needed.

PYTHON ?= python3
UV ?= uv
SEEDS ?= 300
FROM ?= 0
EXAMPLES ?= 500
BASE ?= HEAD

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
# Three at a time, on two cores: tests wait for half of their time. A test's xdist_group stays together.
PYTEST_QUICK := $(BIN)/pytest -n 3 --dist loadgroup -m "not process"
# One at a time: these tests measure real time, and would disturb each other.
PYTEST_PROCESS := $(BIN)/pytest -m process --verbose --durations 10
NODE_BIN := $(VENV)/node/node_modules/.bin
PRETTIER := $(NODE_BIN)/prettier --config $(VENV)/node/prettier.json --log-level warn \
            "src/tickwork/ui/**/*.{js,css}" "!src/tickwork/ui/vendor/**"
ESLINT := $(NODE_BIN)/eslint --config $(VENV)/node/eslint.config.mjs --max-warnings 0
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config \
        --custom-compile-command "make lock" $(LOCK_OPTS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo dev test check check-ui format verify again soak sim bench bench-compare bench-long bench-peers bench-shapes lock lock-npm lock-peers sbom clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## watch real jobs run on an embedded store, in a browser and here; Ctrl-C ends it
	@$(BIN)/tickwork demo

dev: $(VENV)/.dev ## make .venv with everything needed to work on Tickwork

test: dev ## the quick suite, on SQLite and on a PostgreSQL of its own
	$(PYTEST_QUICK)

check: dev ## lint, format, types, the direction of imports, and phrases of the prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_prose.py
	@$(MAKE) --no-print-directory check-ui

check-ui: ## types, layout and lint of the web UI (with npm; the UI itself needs neither it nor a build)
	@if $(MAKE) --no-print-directory --silent $(VENV)/.node; \
	 then $(NODE_BIN)/tsc -p jsconfig.json && $(PRETTIER) --check && $(ESLINT) src/tickwork/ui; \
	 else echo "SKIPPED: the web UI was not checked, since npm is missing here or cannot fetch its tools."; fi

format: dev $(VENV)/.node ## lay out Python and the web UI as make check wants them
	$(BIN)/ruff format .
	$(PRETTIER) --write

verify: dev ## the long tests: real processes, killed at bad moments
	$(PYTEST_PROCESS)

again: dev ## those tests that failed in the last run, one at a time
	$(BIN)/pytest --last-failed --last-failed-no-failures none

soak: dev ## try the API for long, by its own document: make soak EXAMPLES=500
	SCHEMA_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/http/test_fuzz.py -n 2 --timeout 3600

sim: dev ## simulate from seeds, on all cores: make sim SEEDS=300 FROM=0 (JOBS=1 for one of them)
	$(BIN)/python -m sim --seeds $(SEEDS) --from $(FROM) $(if $(JOBS),--jobs $(JOBS))

bench: dev ## measure, and print a table and JSON
	$(BIN)/python -m bench

bench-compare: dev ## measure this tree and revision BASE by turns: make bench-compare BASE=HEAD~5 ROWS="drain enqueue"
	$(BIN)/python -m bench.compare $(BASE) $(addprefix --only ,$(ROWS))

bench-long: dev ## held snapshots, bursts, sustained load, sleepers, large stores: tables, JSON, a plot; more than an hour
	$(BIN)/python -m bench.long

bench-peers: dev ## the same workloads on Celery, Dramatiq, Huey, RQ, ... beside us; the first time it installs them
	$(BIN)/python -m bench.peers

bench-shapes: dev ## compare shapes of tables for jobs; takes more than an hour
	$(BIN)/python -m bench.shapes

lock: ## pin dependencies anew (needs uv); newest versions: make lock LOCK_OPTS=--upgrade
	$(LOCK) --group build --output-file requirements/build.lock
	$(LOCK) pyproject.toml --extra postgres --output-file requirements/runtime.lock
	$(LOCK) pyproject.toml --extra postgres --group dev --constraint requirements/build.lock \
	        --constraint requirements/runtime.lock --output-file requirements/dev.lock

lock-npm: ## pin what npm installs, after a change of requirements/*/package.json
	cd requirements/check-ui && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund
	cd requirements/vendor && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund

lock-peers: ## add hashes to what bench-peers installs (needs uv), after a change of bench/peers/requirements/*.txt
	for peer in $(basename $(notdir $(wildcard bench/peers/requirements/*.txt))); do \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config --no-deps --no-annotate \
	    --custom-compile-command "make lock-peers" bench/peers/requirements/$$peer.txt \
	    --output-file bench/peers/requirements/$$peer.lock || exit 1; \
	done

sbom: ## write the bill of materials, made from the lock files: build/tickwork.cdx.json (CycloneDX)
	@mkdir -p build
	@$(PYTHON) scripts/sbom.py > build/tickwork.cdx.json
	@echo "build/tickwork.cdx.json"

clean: ## remove .venv and everything else that was made here
	rm -rf $(VENV) .venv-peers build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps instead of the files themselves: an installation that was interrupted is done again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("Tickwork needs Python 3.11 or newer: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made requirements/build.lock requirements/runtime.lock pyproject.toml
	@echo "Installing Tickwork into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements/build.lock -r requirements/runtime.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.node: $(VENV)/.made $(wildcard requirements/check-ui/*)
	@mkdir -p $(VENV)/node
	@cp requirements/check-ui/* $(VENV)/node/
	@npm ci --prefix $(VENV)/node --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.lock
	@echo "Installing the tools for development into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@
