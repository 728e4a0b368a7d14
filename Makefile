# Everything a newcomer needs: `make demo`, then `make serve`. The environment is .venv in this folder.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Root on Debian or Ubuntu may install the programs that the sandbox and the tests use; elsewhere they are optional.
APT := $(shell [ "$$(id -u)" = 0 ] && command -v apt-get)
SANDBOX_PROGRAMS := bubblewrap libseccomp2
# Any Chromium will do; its headless shell draws a page in two thirds of the CPU time.
CHROMIUM := $(if $(shell command -v chromium || command -v google-chrome),,chromium-headless-shell)
TEST_PROGRAMS := redis-server postgresql $(CHROMIUM) fonts-dejavu-core

# The container engine of stack-check, with its options; podman where both are installed.
ENGINE ?=

.PHONY: help setup demo serve test test-all check stack-check lint suite screenshots headline clean sandbox-programs test-programs

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) sandbox-programs ## make the environment in .venv

# torch comes first and pinned, so that pip settles on the locked build before anything asks for torch in a range.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or say PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[javascript,go]" --group dev
	touch $@

sandbox-programs:
	@$(call apt_install,$(SANDBOX_PROGRAMS))

test-programs: sandbox-programs
	@$(call apt_install,$(TEST_PROGRAMS))

demo: setup ## evaluate a real model on HumanEval for two minutes
	@$(BIN)/bassline eval --target qwen2.5-coder-0.5b --n 8 --budget 20 --time-limit 120 --compare-plain 2 --name demo
	@echo
	@echo "See it: make serve, then http://127.0.0.1:8000"

serve: setup ## start the service on http://127.0.0.1:8000
	@$(BIN)/bassline serve

# Bytecode is written whatever the environment says: hundreds of processes import the same modules.
export PYTHONDONTWRITEBYTECODE :=

# More processes than cores: many tests wait for servers and workers that they started.
PYTEST := $(BIN)/python -m pytest --processes 4

# The lint runs beside the tests, which often wait.
test: setup test-programs ## lint, types and the test suite
	@$(MAKE) --no-print-directory -j 2 lint suite

test-all: setup test-programs ## the same with the thorough tests: more examples, sizes and themes
	@$(MAKE) --no-print-directory -j 2 lint suite SELECTED='-m ""'

suite: setup
	$(PYTEST) $(SELECTED)

check: setup lint ## lint, types and the quick tests of the packages that changed
	@tests="$$($(BIN)/python -m tests.changed)"; [ -z "$$tests" ] && echo "No tests mirror what changed." || \
	  $(BIN)/python -m pytest --processes 2 -m "not slow and not thorough" $$tests

stack-check: setup ## build and run the container stack with podman or docker (ENGINE="docker ...")
	$(BIN)/python deploy/check/stack_check.py $(if $(ENGINE),--engine "$(ENGINE)")

lint: setup ## ruff, mypy, the import contracts, and deno for JavaScript
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deno lint --quiet
	$(BIN)/deno fmt --quiet --check
	$(BIN)/deno check --quiet app/web/static/js

screenshots: setup test-programs ## make the pictures in docs/screenshots from the runs in the database
	$(BIN)/python -m tests.e2e.screenshots

headline: setup ## measure every promised speed (the machine must be quiet), store it, renew its table in docs/results
	$(BIN)/bassline bench headline --json docs/results/headline.json
	$(BIN)/python -m benchmarks._headline_table

clean: ## remove the environment and all caches of this folder
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installs what is missing, quietly; says so where it may not.
define apt_install
missing=""; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
if [ -n "$$missing" ]; then \
  if [ -n "$(APT)" ]; then echo "Installing$$missing"; apt-get update -qq >/dev/null && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
  else echo "Not installed here:$$missing (tests that need them are skipped with the reason)"; fi; fi
endef
