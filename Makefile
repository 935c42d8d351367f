# Two commands do all the set-up on a new machine that has python3 with venv, and make: `make run` and `make test`.
PYTHON ?= python3
WORKERS ?= auto
ENVIRONMENTS = $(PYTHON) scripts/environments.py
PYTEST = -m pytest -n $(WORKERS)
QUICK = $(wildcard tests/unit tests/property tests/conformance)

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-full lint format bench clean

help: ## Show the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

run: ## Install into .venv and see Mnemosyne remember and recall
	@$(ENVIRONMENTS) project
	@.venv/bin/mnemosyne quickstart

# Without a server the tests of the Postgres store fail in these, where plain pytest would skip them.
test test-full: export PG_TEST_REQUIRED = 1

test: ## Everything once: the quick tests on a second Python too, then each door of the real host
	@$(ENVIRONMENTS) test newest hosts
	@if [ -x .venv-newest/bin/python ]; then .venv-newest/bin/python $(PYTEST) -q $(QUICK); fi
	@.venv/bin/python $(PYTEST)

test-quick: ## Unit, property and conformance tests
	@$(ENVIRONMENTS) test
	@.venv/bin/python $(PYTEST) $(QUICK)

test-full: ## All matrices: further Pythons, lowest dependencies, both hosts complete, soaks, many kills
	@$(ENVIRONMENTS) test others lowest hosts
	@for python in .venv-3.*/bin/python .venv-lowest/bin/python; do \
	  if [ -x $$python ]; then echo "== $$python"; $$python $(PYTEST) -q $(QUICK) tests/postgres || exit 1; fi; done
	@.venv/bin/python $(PYTEST) -m "full or not full" --hypothesis-profile=full --timeout=1800

lint: ## Style, types and spelling
	@$(ENVIRONMENTS) lint
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/codespell src scripts tests docs README.md CHANGELOG.md Makefile

format: ## Bring the code into the house's form
	@$(ENVIRONMENTS) lint
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format --quiet .

bench: ## Measure; results are written to benchmarks/results
	@$(ENVIRONMENTS) test
	@.venv/bin/python -m benchmarks

clean: ## Remove what the commands above made in this folder
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
